"""`chatapp stats`: how completions in editors fared."""

from argparse import Namespace
from dataclasses import asdict

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json
from chatapp.text.errors import InputError
from chatapp.workspace import Workspace

DETAILS = """\
With `completion_stats = true` in settings.toml, `chatapp lsp` counts the suggestions shown and accepted, and measures
their latency. It records no code, and nothing leaves this machine.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp stats completion [options]"
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--json", action="store_true", help="print JSON")
    action.add_argument("--delete", action="store_true", help="delete the statistics")


def name_words(parser: Parser, given: Namespace, words: list[str]) -> list[str]:
    """Take the word `completion`."""
    if words[:1] != ["completion"]:
        parser.error("only code completion has statistics; run: chatapp stats completion")
    return words[1:]


def run(given: Namespace) -> None:
    """Print the figures, or delete them."""
    workspace = Workspace()
    kept = workspace.open_acceptance()
    if given.delete:
        return print("Forgotten." if kept.delete() else "No statistics to delete.")
    summary = kept.summary()
    if given.json:
        return print_json({**asdict(summary), "share": summary.share})
    if not summary.shown and not workspace.read_settings().completion_stats:
        raise InputError("no statistics yet; to record them, set completion_stats = true in settings.toml")
    share = f" ({summary.share:.0%})" if summary.share is not None else ""
    print(f"shown     {summary.shown:,}\naccepted  {summary.accepted:,}{share}")
    if summary.p50 is not None and summary.p95 is not None:
        print(
            f"latency   {summary.p50:.0f} ms or less in half of the cases, {summary.p95:.0f} ms in 95 of 100 (p50, p95)"
        )
