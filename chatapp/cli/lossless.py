"""`chatapp run --check-lossless`: generate the answer again without speculation and compare the tokens."""

from dataclasses import replace

from chatapp.cli.printing import describe_guesses, note, quote
from chatapp.cli.repl import LineView
from chatapp.conversation import Turn
from chatapp.conversation.replay import Comparison, compare
from chatapp.generation import Reply

LIKELIEST = 20
"""Alternatives per token among which the speculative answer's token is looked up."""


def check_lossless(view: LineView, turn: Turn, quick: Reply) -> int:
    """Generate the answer again by plain steps and print whether it is the same; returns the exit code."""
    usage, dialogue = quick.usage, view.dialogue
    if usage is None or not usage.drafted:
        note("Lossless: no tokens were guessed, so there is nothing to compare.")
        return 0
    note(f"Guesses: {describe_guesses(usage)}. Answering again without guesses ...")
    options = replace(turn.options, seed=usage.seed, speculate=False, logprobs=LIKELIEST)
    before = dialogue.before(turn.replies[0])
    assert turn.asked is not None, "it has answered"
    text = "".join(one.text for one in before) if dialogue.kind == "completion" else None
    found = compare(quick.tokens, turn.asked.stream(view.engine, before, options, (), text), 0, whole=True)
    note(describe(found))
    return int(not found.identical)


def describe(found: Comparison) -> str:
    """Where two answers begin to differ, and how close the choice was."""
    if found.place is None:
        return f"Lossless: the same {found.tokens:,} tokens."
    if not found.was or not found.now:
        return f"Not the same: one of the answers ends after {found.place:,} tokens."
    here, there = quote(found.was.text), quote(found.now.text)
    where = f"Not the same from token {found.place + 1:,} on: {here} with guesses, {there} without."
    if found.fell_to is None or found.now.logprob is None:
        return f"{where}\nThe first is not among the {LIKELIEST} likeliest without guesses."
    gap = abs(found.now.logprob - found.fell_to)
    return (
        f"{where}\nTheir log-probabilities differ by {gap:.4f}. Reading several tokens at once rounds differently than "
        "reading one, which can decide between equally likely tokens, or where a random number falls between two. "
        "To avoid this: --no-speculate, or --seed without --speculate."
    )
