"""`chatapp run --check-lossless`: the same answer by plain steps, and the first token in which they differ."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from chatapp.cli.printing import describe_guesses, note
from chatapp.generation import Options, Reply, Token
from chatapp.text.printable import printable

if TYPE_CHECKING:
    from chatapp.cli.repl import LineView
    from chatapp.conversation.turn import Turn

LIKELIEST = 20
"""Tokens of a plain step among which the other answer's token is looked for."""


def compare(view: "LineView", turn: "Turn", quick: Reply) -> int:
    """Answer once more by plain steps, tell whether that is the same, and return the exit code."""
    usage = quick.usage
    if usage is None or not usage.drafted:
        note("Lossless: nothing was guessed, so there is nothing to compare.")
        return 0
    note(f"Guesses: {describe_guesses(usage)}. Answering once more by plain steps ...")
    plain = answer_plainly(view, turn, replace(turn.options, seed=usage.seed, speculate=False, logprobs=LIKELIEST))
    differences = describe(quick.tokens, plain.tokens)
    for line in differences or [f"Lossless: the same {len(plain.tokens):,} tokens."]:
        note(line)
    return int(bool(differences))


def describe(quick: Sequence[Token], plain: Sequence[Token]) -> list[str]:
    """Where two answers begin to differ, and how close that was; nothing, where they are the same."""
    pairs = enumerate(zip(quick, plain, strict=False))
    place = next((place for place, (one, other) in pairs if one.id != other.id), None)
    if place is not None:
        here, there = quick[place], plain[place]
        where = f"Not the same from token {place + 1:,} on: {quote(here)} with guesses, {quote(there)} by plain steps."
        return [where, explain(here, there)]
    if len(quick) == len(plain):
        return []
    return [f"Not the same: one of the answers ends after {min(len(quick), len(plain)):,} tokens."]


def answer_plainly(view: "LineView", turn: "Turn", options: Options) -> Reply:
    """The answer to the question of a turn, by other options; nothing is kept or printed."""
    from chatapp.conversation import context_window

    engine, dialogue = view.engine, view.dialogue
    before = [message for message in dialogue.branch() if message.text and message.id != turn.replies[0].id]
    if engine.can_chat:
        prompt = context_window.prompt(engine, before[turn.left_out :], system=dialogue.setup.system)
        stream = engine.chat(prompt, options)
    else:
        stream = engine.complete("".join(message.text for message in before), options)
    reply = Reply()
    with closing(stream):
        for delta in stream:
            reply.add(delta)
    return reply


def explain(here: Token, there: Token) -> str:
    """How far apart the model found two tokens."""
    found = next((other.logprob for other in there.alternatives if other.id == here.id), None)
    if found is None or there.logprob is None:
        return f"The first is not among the {LIKELIEST} likeliest of the plain step."
    gap = abs(there.logprob - found)
    return (
        f"The model found them {gap:.4f} apart in log-probability: several tokens at once are rounded otherwise than "
        "one. That decides between tokens about as likely and, where tokens are drawn, between any two at whose border "
        "the random number falls. --no-speculate, or a --seed without --speculate, avoids it."
    )


def quote(token: Token) -> str:
    """A token's text, in quotes."""
    return json.dumps(printable(token.text), ensure_ascii=False)
