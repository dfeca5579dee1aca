"""`chatapp verify`: compare a model's logits with a reference."""

import argparse
from argparse import Namespace

from chatapp.cli.arguments import Parser, add_placement, read_placement
from chatapp.cli.printing import print_json
from chatapp.cli.progress import show_steps
from chatapp.text.printable import printable
from chatapp.workspace import Workspace

DETAILS = """\
Runs fixed prompts on the backend, device and precision that would be used, in prefill, token by token and in
batches, and compares the logits with those of the NumPy decoder on the original checkpoint. The result is saved with
the lowered model; one that failed is no longer chosen automatically. The exit code is 1 if it failed.

FILE is a reference from elsewhere: .npz or .safetensors with `tokens` (rows, length) and `logits`
(rows, positions, vocabulary); --write makes one.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "--against", metavar="torch|FILE", type=check_reference, help="PyTorch, or a file (default: the NumPy decoder)"
    )
    parser.add_argument("--write", metavar="FILE", type=check_npz, help="save the reference as .npz, for use elsewhere")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--steps", action="store_true", help=argparse.SUPPRESS)
    add_placement(parser)


def check_reference(text: str) -> str:
    """Check that a reference is `torch` or a file of a known type."""
    if text != "torch" and not text.endswith((".npz", ".safetensors")):
        raise argparse.ArgumentTypeError(f"{text!r} is neither torch nor a .npz or .safetensors file")
    return text


def check_npz(text: str) -> str:
    """Check the name of an .npz file."""
    if not text.endswith(".npz"):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .npz")
    return text


def run(given: Namespace) -> int:
    """Compare and print the verdict; returns 1 if it failed."""
    from chatapp.evaluation.verify import reference_file, report, verdict
    from chatapp.placement import selection

    store, placement = Workspace().open_store(), read_placement(given)
    destination = reference_file.check_destination(given.write) if given.write else None
    model = store.get(given.model)
    with store.adopting(), show_steps(model.name, as_json=given.steps) as on_progress:
        way = selection.expect(store, model, placement)
        reference = verdict.open_reference(model, way.precision, given.against, on_progress=on_progress)
        if destination:
            reference_file.write(reference, model, destination)
        variant = store.lowered(model, way.backend, way.precision, on_progress)
        found = verdict.verify(store, model, variant, device=way.device, reference=reference, on_progress=on_progress)
    print_json(found) if given.json else print(printable(report.describe(found)))
    return 0 if found.passed else 1
