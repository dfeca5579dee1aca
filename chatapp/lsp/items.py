"""Offers as items of the protocol."""

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
"""The command by which an editor reports that an offer was accepted."""


def inline_item(offer: Offer, replaced: Range, begun: str, number: int) -> InlineCompletionItem:
    """An item of ghost text that replaces a range whose text is `begun`."""
    text = begun + offer.text
    return InlineCompletionItem(insert_text=text, filter_text=text, range=replaced, command=report_accepted(number))


def popup_item(found: Numbered, replaced: Range, word: str, order: int) -> CompletionItem:
    """An item of a popup list that replaces a range whose text is `word`, by which editors filter."""
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
        insert_text=text,  # for editors that ignore text_edit and replace the word
        insert_text_format=InsertTextFormat.PlainText,
        text_edit=TextEdit(replaced, text),
        command=report_accepted(number),
    )


def report_accepted(number: int) -> Command:
    """The command that the editor runs after inserting the offer."""
    return Command(title="Taken", command=ACCEPTED, arguments=[number])


def last_word(text: str) -> str:
    """The beginning of a name at the end of a text, of 200 characters at most."""
    found = re.search(r"[^\W\d]\w*\Z", text[-200:])
    return found[0] if found else ""
