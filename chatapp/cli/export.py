"""`chatapp export`: write a model for other programs."""

from argparse import Namespace
from dataclasses import fields
from typing import Any

from chatapp.cli.arguments import Parser, parse_number, parse_path
from chatapp.cli.progress import show_steps
from chatapp.deploy import exporting
from chatapp.text.printable import printable
from chatapp.workspace import Workspace

DETAILS = """\
DIR must be new or empty. Each target has its own options: chatapp export openvino --help.
--check loads the export and compares it with the model as it runs here; the exit code is 1 if they differ.
"""

VERDICTS = {True: "ok", False: "FAILED", None: "left"}


def add(parser: Parser) -> None:
    """Add the targets, each with its options."""
    targets = parser.add_subparsers(dest="target", metavar="TARGET", title="targets", required=True)
    for name in exporting.TARGETS:
        target = exporting.get(name)
        added: Parser = targets.add_parser(name, help=target.SUMMARY, description=f"Write {target.SUMMARY}.")
        added.add_argument("model", metavar="MODEL")
        added.add_argument("folder", metavar="DIR", type=parse_path)
        for field in fields(target.Options):
            add_option(added, field.name, field.default, field.metadata)
        added.add_argument("--check", action="store_true", help="load the export and compare it with the model")


def add_option(parser: Parser, name: str, default: Any, facts: Any) -> None:  # Any: of a dataclass' field
    """Add an option of a target, with the type of its default."""
    flag = "--" + name.replace("_", "-")
    if isinstance(default, bool):
        parser.add_argument(flag, action="store_true", help=facts["help"])
        return
    more = {"choices": facts["choices"]} if facts["choices"] else {}
    metavar = facts["metavar"] or None
    kind = parse_number if isinstance(default, int) else type(default)
    parser.add_argument(flag, metavar=metavar, type=kind, default=default, help=facts["help"], **more)


def run(given: Namespace) -> int:
    """Export, and check if asked to; returns 1 if the check failed."""
    target, folder = exporting.get(given.target), given.folder
    options = target.Options(**{field.name: getattr(given, field.name) for field in fields(target.Options)})
    exporting.check_empty(folder)
    store = Workspace().open_store()
    with store.adopting(), show_steps(given.model) as on_progress:
        source = exporting.open_source(store, given.model)
        exporting.export(source, target, folder, options, on_progress)
    print(printable(f"{source.model.name} is in {folder}"))
    if not given.check:
        return 0
    found = exporting.check(source, target, folder, options)
    for finding in found:
        print(printable(f"{VERDICTS[finding.passed]:7}{finding.what}: {finding.figure}"))
    return 1 if any(finding.passed is False for finding in found) else 0
