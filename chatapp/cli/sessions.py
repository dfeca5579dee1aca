"""`chatapp sessions`: list, search, show, export, import, rename and delete conversations."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from chatapp.conversation import files
from chatapp.history import Found, History, HistoryError, exports
from chatapp.settings import settings
from chatapp.text.errors import InputError
from chatapp.text.printable import printable
from chatapp.text.units import table


def print_list(history: History, given: Namespace) -> int:
    """The conversations, the last used first."""
    conversations = history.list(given.limit or -1)
    if given.json:
        print(json.dumps([asdict(one) for one in conversations], indent=2))
    elif not conversations:
        print("No conversations yet; `chatapp run MODEL` begins one.", file=sys.stderr)
    else:
        rows = [(str(one.id), _when(one.updated), str(one.messages), one.model, one.title) for one in conversations]
        print(table(("ID", "LAST USED", "MESSAGES", "MODEL", "TITLE"), rows))
    return 0


def print_search(history: History, given: Namespace) -> int:
    """Where all the words are; the exit code is 1 where they are nowhere, as with grep."""
    found = history.search(" ".join(given.text), given.limit or 50)
    if given.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
    for one in [] if given.json else found:
        number = str(one.conversation.id)
        print(f"{number}  {_when(one.conversation.updated)}  {printable(one.conversation.title)}")
        if one.message is not None:
            print(f"{' ' * len(number)}  {_marked(one)}")
    return 0 if found else 1


def _marked(found: Found) -> str:
    """A snippet with the words that were found in bold, where that can be seen."""
    if not sys.stdout.isatty():
        return printable(found.snippet)
    text, end = "", 0
    for start, stop in found.marks:
        text += printable(found.snippet[end:start]) + f"\x1b[1m{printable(found.snippet[start:stop])}\x1b[22m"
        end = stop
    return text + printable(found.snippet[end:])


def print_one(history: History, given: Namespace) -> int:
    """One conversation, as it reads."""
    last = history.last() if given.id is None else history.get(given.id)
    if last is None:
        raise InputError("there is no conversation yet; `chatapp run MODEL` begins one")
    messages = history.messages(last.id)
    if given.json:
        print(exports.as_json([(last, history.tree(last.id))], history.tokens), end="")
    elif last.kind == "completion":
        print(printable("".join(message.text for message in messages)))
    else:
        print(f"{last.id}  {printable(last.title)}")
        for message in messages:
            print(f"\n[{printable(exports.heading(message))}]\n{printable(exports.spoken(message))}")
    return 0


def export(history: History, given: Namespace) -> int:
    """Conversations as one text, to a file or to standard output."""
    if given.all == bool(given.ids):
        raise InputError("which conversations? give their numbers, or --all")
    conversations = history.list() if given.all else [history.get(one) for one in given.ids]
    text = files.text_of(history, conversations, given.format)
    if given.output is None:
        sys.stdout.write(text)
    else:
        files.write(Path(given.output), text)
        print(f"{_count(len(conversations))} in {printable(given.output)}", file=sys.stderr)
    return 0


def bring_in(history: History, given: Namespace) -> int:
    """Import files; what they have that is not understood is named, and makes the exit code 1."""
    refused = 0
    for file in given.files:
        name = "standard input" if file == "-" else printable(file)
        batch = files.bring_in(history, file)
        print(f"{name}: {_count(len(batch.conversations))} imported")
        if batch.left_out:
            parts = ", ".join(f"{count} {printable(what)}" for what, count in sorted(batch.left_out.items()))
            print(f"{name}: left out, because it is no text between user and model: {parts}", file=sys.stderr)
        for reason in batch.refused:
            print(f"Error: not imported: {printable(reason)}", file=sys.stderr)
        refused += len(batch.refused)
    return 1 if refused else 0


def rename(history: History, given: Namespace) -> int:
    """Give a conversation another title."""
    history.rename(given.id, given.title)
    return 0


def remove(history: History, given: Namespace) -> int:
    """Delete conversations, for a month in which they can be brought back, or at once."""
    if given.all == bool(given.ids) and not (given.now and not given.ids):
        raise InputError("which conversations? give their numbers, or --all")
    ids = [one.id for one in history.list()] if given.all else list(dict.fromkeys(given.ids))
    history.delete(*ids)
    if given.now:
        print(f"{_count(history.erase())} deleted for good, earlier ones included")
    else:
        print(f"{_count(len(ids))} deleted; `chatapp sessions undo` brings back what was deleted last")
    return 0


def undo(history: History, given: Namespace) -> int:
    """Bring back what was deleted last."""
    back = history.undelete()
    if not back:
        raise HistoryError("nothing was deleted in the last month")
    for conversation in back:
        print(f"{conversation.id}  {printable(conversation.title)}")
    return 0


ACTIONS: dict[str, Callable[[History, Namespace], int]] = {
    "ls": print_list,
    "list": print_list,
    "search": print_search,
    "show": print_one,
    "export": export,
    "import": bring_in,
    "rename": rename,
    "rm": remove,
    "undo": undo,
}


def run(given: Namespace) -> int:
    """Do what the arguments say, and return the exit code."""
    with History(settings.history()) as history:
        code = ACTIONS[given.action](history, given)
        for line in history.new_damage():
            print(f"Warning: {line}", file=sys.stderr)
        return code


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _count(number: int) -> str:
    return f"{number:,} conversation{'s' * (number != 1)}"
