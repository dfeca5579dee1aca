"""What `chatapp sessions` accepts, and the options of `run` about conversations."""

import argparse
import re

DETAILS = """\
Conversations of the line-by-line loop, and answers of models with a chat template, are kept on this machine only.
Each action has a page of its own: chatapp sessions rm --help.
"""
IMPORT = """\
FILE is what `chatapp sessions export --format json` wrote, ChatGPT's conversations.json, or what Ollama's /save keeps:
the output of `ollama show --modelfile NAME`, or the messages as JSON. `-` is standard input.
"""
EXPORT = """\
JSON has every branch and can be imported again; Markdown and HTML have the branch that is shown, and nothing in them
runs or loads anything.
"""
REMOVE = """\
What is deleted can be brought back for a month, unless --now is given, which also takes what was deleted before.
"""
FORMATS = ("markdown", "json", "html")


def add_actions(parser: argparse.ArgumentParser) -> None:
    """The actions of `chatapp sessions`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def action(name: str, summary: str, details: str = "", aliases: tuple[str, ...] = ()) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(
            name,
            aliases=aliases,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.\n\n{details}".strip(),
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        return added

    def json_and_limit(added: argparse.ArgumentParser, default: str) -> None:
        added.add_argument("--limit", metavar="N", type=number, help=f"at most so many (default: {default})")
        added.add_argument("--json", action="store_true", help="print JSON")

    json_and_limit(action("ls", "list the conversations, the last used first", aliases=("list",)), "all")

    search = action("search", "find the messages that have all these words, the newest first")
    search.add_argument("text", metavar="WORD", nargs="+")
    json_and_limit(search, "50")

    show = action("show", "print a conversation")
    show.add_argument("id", metavar="ID", type=number, nargs="?", help="its number (default: the last one)")
    show.add_argument("--json", action="store_true", help="print JSON, with every branch")

    export = action("export", "write conversations as Markdown, JSON or HTML", EXPORT)
    export.add_argument("ids", metavar="ID", type=number, nargs="*")
    export.add_argument("--all", action="store_true", help="all conversations")
    export.add_argument("--format", choices=FORMATS, default="markdown", help="(default: markdown)")
    export.add_argument("--output", "-o", metavar="FILE", help="(default: standard output)")

    imported = action("import", "add the conversations of other files", IMPORT)
    imported.add_argument("files", metavar="FILE", nargs="+")

    rename = action("rename", "give a conversation another title")
    rename.add_argument("id", metavar="ID", type=number)
    rename.add_argument("title", metavar="TITLE")

    remove = action("rm", "delete conversations", REMOVE)
    remove.add_argument("ids", metavar="ID", type=number, nargs="*")
    remove.add_argument("--all", action="store_true", help="all conversations")
    remove.add_argument("--now", action="store_true", help="for good, at once")

    action("undo", "bring back what was deleted last")


def add_conversation(parser: argparse.ArgumentParser) -> None:
    """The options of `run` that say which conversation it is in."""
    group = parser.add_argument_group("conversation")
    which = group.add_mutually_exclusive_group()
    which.add_argument("-c", "--continue", dest="resume", action="store_true", help="go on with the last one")
    which.add_argument("--session", metavar="ID", type=number, help="go on with this one; see `chatapp sessions ls`")
    group.add_argument("--no-history", action="store_true", help="do not keep what is said")


def add_setup(parser: argparse.ArgumentParser) -> None:
    """How answers are to be, by what is kept under a name."""
    group = parser.add_argument_group("manner")
    group.add_argument("--system", metavar="TEXT|@NAME", help="what all answers keep to; @NAME is one of the library")
    think = group.add_mutually_exclusive_group()
    think.add_argument("--think", action="store_true", default=None, help="let the model think first, if it can")
    think.add_argument("--no-think", dest="think", action="store_false", help="let it answer at once")
    group.add_argument("--preset", metavar="NAME", help="options by name: precise, creative, code, ... or your own")


def number(text: str) -> int:
    """A whole number from 1."""
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)
