"""Offers as the items of the protocol."""

import re

from lsprotocol.types import (
    Command,
    CompletionItem,
    CompletionItemKind,
    CompletionItemLabelDetails,
    InlineCompletionItem,
    InsertTextFormat,
    Range,
    TextEdit,
)

from chatapp.completion.completer import Offer
from chatapp.lsp.shown import Numbered

ACCEPTED = "chatapp.accepted"
"""The command with which an editor says that an offer was taken."""


def inline_item(offer: Offer, replaced: Range, begun: str, number: int) -> InlineCompletionItem:
    """An item of ghost text, in the place of a range that says `begun`."""
    text = begun + offer.text
    return InlineCompletionItem(insert_text=text, filter_text=text, range=replaced, command=taken(number))


def popup_item(found: Numbered, replaced: Range, word: str, order: int) -> CompletionItem:
    """An item of a popup list, in the place of a range that says `word`, by which editors filter."""
    number, offer = found
    text = word + offer.text
    first, *more = text.strip().splitlines()
    return CompletionItem(
        label=first + (" …" if more else ""),
        label_details=CompletionItemLabelDetails(description="chatapp"),
        kind=CompletionItemKind.Snippet,
        detail=f"chatapp: {offer.source}, {offer.probability:.0%}",
        sort_text=f" {order}",  # before letters
        filter_text=text,
        insert_text=text,  # for editors that know no edits, and replace the word
        insert_text_format=InsertTextFormat.PlainText,
        text_edit=TextEdit(replaced, text),
        command=taken(number),
    )


def taken(number: int) -> Command:
    """What the editor is to say when it has inserted the offer of a number."""
    return Command(title="Taken", command=ACCEPTED, arguments=[number])


def last_word(text: str) -> str:
    """The beginning of a name at the end of a text; of one without end, as of a generated file, what stands last."""
    found = re.search(r"[^\W\d]\w*\Z", text[-200:])
    return found[0] if found else ""
