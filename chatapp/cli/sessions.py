"""`chatapp sessions`: list, search, show, export, import, rename, pin and delete conversations."""

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from chatapp.cli.arguments import Parser, parse_number, parse_path
from chatapp.cli.printing import print_json, warn
from chatapp.conversation import files
from chatapp.history import HistoryError, exports
from chatapp.history.exports import format_time
from chatapp.text.errors import InputError, UsageError
from chatapp.text.printable import printable
from chatapp.text.units import table
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from chatapp.history import Found, History

DETAILS = """\
Conversations, and single answers of models with a chat template, are saved on this machine only.
Each action has its own options: chatapp sessions rm --help.
"""
IMPORT = """\
FILE is an export of `chatapp sessions export --format json`, the conversations.json of ChatGPT or Claude, the export
of Open WebUI, or what Ollama's /save saved: the output of `ollama show --modelfile NAME`, or its messages as JSON.
`-` is standard input.
"""
EXPORT = """\
JSON has all branches and can be imported again. Markdown and HTML have the current branch, and contain nothing that
runs or loads anything.
"""
REMOVE = """\
`chatapp sessions undo` restores deleted conversations for a month. --now deletes for good, with all deleted earlier.
"""
FORMATS = ("markdown", "json", "html")
Act = Callable[["History", Namespace], int | None]


def add(parser: Parser) -> None:
    """Add the actions, each with its arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def action(name: str, act: Act, summary: str, details: str = "", aliases: tuple[str, ...] = ()) -> Parser:
        about = f"{summary[0].upper()}{summary[1:]}.\n\n{details}".strip()
        added: Parser = actions.add_parser(name, aliases=aliases, help=summary, description=about)
        added.set_defaults(act=act)
        return added

    def json_and_limit(added: Parser, default: str) -> None:
        added.add_argument("--limit", metavar="N", type=parse_number, help=f"at most N (default: {default})")
        added.add_argument("--json", action="store_true", help="print JSON")

    json_and_limit(action("ls", print_list, "list conversations, most recent first", aliases=("list",)), "all")

    search = action("search", print_search, "find messages with all these words, newest first")
    search.add_argument("text", metavar="WORD", nargs="+")
    json_and_limit(search, "50")

    show = action("show", print_one, "print a conversation")
    show.add_argument("id", metavar="ID", type=parse_number, nargs="?", help="conversation (default: the last one)")
    show.add_argument("--json", action="store_true", help="print JSON, with all branches")
    add_changes(action)


def add_changes(action: Callable[..., Parser]) -> None:
    """Add the actions that export, import and change conversations."""
    exporting = action("export", export, "export conversations as Markdown, JSON or HTML", EXPORT)
    exporting.add_argument("ids", metavar="ID", type=parse_number, nargs="*")
    exporting.add_argument("--all", action="store_true", help="all conversations")
    exporting.add_argument("--format", choices=FORMATS, help="(default: by the extension of FILE, else markdown)")
    exporting.add_argument("--output", "-o", metavar="FILE", type=parse_path, help="(default: standard output)")

    imported = action("import", bring_in, "import conversations from files", IMPORT)
    imported.add_argument("files", metavar="FILE", nargs="+")

    renaming = action("rename", rename, "rename a conversation")
    renaming.add_argument("id", metavar="ID", type=parse_number)
    renaming.add_argument("title", metavar="TITLE")

    for name, summary in (("pin", "keep conversations at the top of the list"), ("unpin", "no longer keep them there")):
        action(name, pin, summary).add_argument("ids", metavar="ID", type=parse_number, nargs="+")

    removing = action("rm", remove, "delete conversations", REMOVE)
    removing.add_argument("ids", metavar="ID", type=parse_number, nargs="*")
    removing.add_argument("--all", action="store_true", help="all conversations")
    removing.add_argument("--now", action="store_true", help="delete for good")

    action("undo", undo, "restore the conversations deleted last")


def print_list(history: "History", given: Namespace) -> None:
    """Print the conversations, the last used first."""
    conversations = history.list(given.limit or -1)
    if given.json:
        print_json(conversations)
    elif not conversations:
        print("No conversations yet; to start one, run: chatapp run MODEL", file=sys.stderr)
    else:
        rows = [
            (f"{one.id}", format_time(one.updated), f"{one.messages}", one.model, one.title) for one in conversations
        ]
        print(table(("ID", "LAST USED", "MESSAGES", "MODEL", "TITLE"), rows))


def print_search(history: "History", given: Namespace) -> int:
    """Print the messages that have all words; returns 1 if there are none, like grep."""
    found = history.search(" ".join(given.text), given.limit or 50)
    if given.json:
        print_json(found)
    for one in [] if given.json else found:
        number = str(one.conversation.id)
        print(f"{number}  {format_time(one.conversation.updated)}  {printable(one.conversation.title)}")
        if one.message is not None:
            print(f"{' ' * len(number)}  {mark_words(one)}")
    return 0 if found else 1


def mark_words(found: "Found") -> str:
    """The snippet with the found words in bold if standard output is a terminal."""
    if not sys.stdout.isatty():
        return printable(found.snippet)
    text, end = "", 0
    for start, stop in found.marks:
        text += printable(found.snippet[end:start]) + f"\x1b[1m{printable(found.snippet[start:stop])}\x1b[22m"
        end = stop
    return text + printable(found.snippet[end:])


def print_one(history: "History", given: Namespace) -> None:
    """Print the shown branch of one conversation, or all of it as JSON."""
    last = history.last() if given.id is None else history.get(given.id)
    if last is None:
        raise InputError("no conversations yet; to start one, run: chatapp run MODEL")
    messages = history.messages(last.id)
    if given.json:
        print(exports.as_json([(last, history.tree(last.id))], history.tokens), end="")
    elif last.kind == "completion":
        print(printable("".join(message.text for message in messages)))
    else:
        print(f"{last.id}  {printable(last.title)}")
        for message in messages:
            print(f"\n[{printable(exports.describe_message(message))}]\n{printable(exports.write_message(message))}")


def export(history: "History", given: Namespace) -> None:
    """Write conversations as one text, to a file or to standard output."""
    if given.all == bool(given.ids):
        raise UsageError("no conversations given; give their numbers, or --all")
    conversations = history.list() if given.all else [history.get(one) for one in given.ids]
    form = given.format or (files.form_of(given.output) if given.output else "markdown")
    text = files.text_of(history, conversations, form)
    if given.output is None:
        sys.stdout.write(text)
    else:
        files.write(given.output, text)
        print(f"{files.count(len(conversations))} in {printable(str(given.output))}", file=sys.stderr)


def bring_in(history: "History", given: Namespace) -> int:
    """Import files; returns 1 if something in them was refused."""
    refused = 0
    for file in given.files:
        name = "standard input" if file == "-" else printable(file)
        batch = files.import_file(history, file)
        print(f"{name}: {files.count(len(batch.conversations))} imported")
        if batch.left_out:
            parts = ", ".join(f"{count} {printable(what)}" for what, count in sorted(batch.left_out.items()))
            print(f"{name}: left out, because it is not text: {parts}", file=sys.stderr)
        for reason in batch.refused:
            print(f"Error: not imported: {printable(reason)}", file=sys.stderr)
        refused += len(batch.refused)
    return 1 if refused else 0


def rename(history: "History", given: Namespace) -> None:
    """Give a conversation another title."""
    history.rename(given.id, given.title)


def pin(history: "History", given: Namespace) -> None:
    """List conversations before all others, or no longer."""
    for one in given.ids:
        history.pin(one, given.action == "pin")


def remove(history: "History", given: Namespace) -> None:
    """Delete conversations, at once or with a month to undo it."""
    if given.all == bool(given.ids) and not (given.now and not given.ids):
        raise UsageError("no conversations given; give their numbers, or --all")
    ids = [one.id for one in history.list(drafts=True)] if given.all else list(dict.fromkeys(given.ids))
    history.delete(*ids)
    if given.now:
        print(f"{files.count(history.erase())} deleted for good, with all deleted earlier")
    else:
        print(f"{files.count(len(ids))} deleted; to restore: chatapp sessions undo")


def undo(history: "History", given: Namespace) -> None:
    """Bring back what was deleted last."""
    back = history.undelete()
    if not back:
        raise HistoryError("nothing to restore: no conversations were deleted in the last month")
    for conversation in back:
        print(f"{conversation.id}  {printable(conversation.title)}")


def run(given: Namespace) -> int:
    """Run the action; returns the exit code."""
    with Workspace().open_history() as history:
        code: int | None = given.act(history, given)
        for line in history.new_damage():
            warn(line)
        return code or 0
