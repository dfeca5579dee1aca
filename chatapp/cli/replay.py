"""`chatapp replay`: generate a saved answer again and compare."""

import sys
from argparse import Namespace
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from chatapp.cli.arguments import Parser, add_placement, parse_number, read_placement
from chatapp.cli.printing import note, print_json, warn
from chatapp.cli.progress import show_steps
from chatapp.history.exports import describe_message
from chatapp.text.errors import InputError
from chatapp.text.printable import printable
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from chatapp.conversation.replay import Comparison
    from chatapp.generation import Token
    from chatapp.history import History

DETAILS = """\
ID is the number of a conversation in `chatapp sessions ls`. Each answer is saved with all that determines it: the
digests of model and prompt, backend, device, versions, options and seed. The answer is recomputed with these, up to
the first token that differs.

On the same machine, with the same versions, all tokens are identical if the whole prompt was read at once. Otherwise
the last digits of the logits may differ, and now and then a token.
"""
NAMES = {
    "digest": "the lowered model",
    "signature": "what computes it",
    "chatapp": "chatapp",
    "backend": "the backend",
    "device": "the device",
    "precision": "the precision",
    "prompt_digest": "the prompt, as its tokens",
}


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("id", metavar="ID", type=parse_number, nargs="?", help="conversation (default: the last one)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--answer", metavar="N", type=parse_number, help="the N-th answer (default: the last one)")
    which.add_argument("--all", action="store_true", help="all answers of the current branch")
    parser.add_argument("--json", action="store_true", help="print JSON, one object per answer")
    add_placement(parser)


def run(given: Namespace) -> int:
    """Replay answers; returns 1 if a token of one differs."""
    workspace = Workspace()
    with workspace.open_history() as history:
        return replay_answers(workspace, history, given)


def replay_answers(workspace: Workspace, history: "History", given: Namespace) -> int:
    """Generate the chosen answers again, each with the model that wrote it, and print the comparisons."""
    from chatapp.conversation import Dialogue, Setup, replay

    conversation = history.last() if given.id is None else history.get(given.id)
    if conversation is None:
        raise InputError("no conversations yet; to start one, run: chatapp run MODEL")
    dialogue = Dialogue(history, conversation, kind=conversation.kind, setup=Setup(), warn=warn)
    answers = [one for one in dialogue.branch() if one.role == "assistant"]
    if not answers:
        raise InputError(f"conversation {conversation.id} has no answer")
    if given.answer and given.answer > len(answers):
        raise InputError(f"conversation {conversation.id} has {len(answers)} answers on its current branch")
    wanted = answers if given.all else [answers[(given.answer or len(answers)) - 1]]
    same = True
    opened = None
    for kept in wanted:
        placement = read_placement(given)
        if not placement.backend:
            where = {name: kept.usage.get(name) for name in ("backend", "device", "precision")}
            placement = replace(placement, **{name: value for name, value in where.items() if isinstance(value, str)})
        if opened is None or opened[0] != (kept.model, placement):
            with show_steps(kept.model) as on_progress:
                engine = workspace.open_model(kept.model, placement, on_progress=on_progress, on_fallback=note).engine
            opened = (kept.model, placement), engine
        found = replay.replay(dialogue, opened[1], kept.id)
        same = same and found.identical
        if given.json:
            print_json({"message": kept.id, "identical": found.identical, **asdict(found), "now_then": found.fell_to})
        else:
            print(f"{printable(describe_message(kept))}: {describe_comparison(found)}", flush=True)
            for name, (then, now) in found.changed.items():
                print(f"  {NAMES[name]} was {printable(then) or 'not known'}, is {printable(now)}", file=sys.stderr)
    return 0 if same else 1


def describe_comparison(found: "Comparison") -> str:
    """The result of a comparison as a sentence."""
    drift = "" if not found.drift else f"; log-probabilities differ by up to {found.drift:.2g}"
    if found.place is None:
        return f"identical, {found.tokens} tokens{drift}"
    then = f"was {name(found.was)}" if found.was else "ended there"
    now = f"is {name(found.now)}" if found.now else "ends there"
    if found.was and found.now:
        fell = found.fell_to
        now += ", the other one " + ("is below the likeliest" if fell is None else f"has {fell:.3f}")
    return f"differs at token {found.place + 1} of {found.tokens}: {then}, {now}{drift}"


def name(token: "Token") -> str:
    """A token with its log-probability."""
    text = repr(printable(token.text))
    return text if token.logprob is None else f"{text} ({token.logprob:.3f})"
