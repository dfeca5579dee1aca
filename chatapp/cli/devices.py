"""`chatapp devices`: the backends and devices that are usable here."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> None:
    """Print a line per backend and device, with the runtime's version or why it is missing."""
    import backends
    from chatapp.text.units import table

    modules = {name: backends.get(name) for name in backends.NAMES}
    rows = [(name, device, module.signature()) for name, module in modules.items() for device in module.devices()]
    rows += [(name, "-", reason) for name, module in modules.items() if (reason := module.missing())]
    if given.json:
        facts = [
            {"backend": name, "device": None, "missing": text}
            if device == "-"
            else {"backend": name, "device": device, "runs": text}
            for name, device, text in rows
        ]
        print_json(facts)
    else:
        print(table(("BACKEND", "DEVICE", "STATUS"), rows))
