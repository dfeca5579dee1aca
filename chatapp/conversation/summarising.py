"""Lets the model summarise what no longer fits its context."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace

from chatapp.generation import Delta, Engine, Message, Options
from chatapp.history import Message as Kept

TASK = """\
Summarise this conversation in at most {words} words, so that it can go on without being read again. \
Keep names, numbers, decisions and open questions. Answer with the summary alone."""


def length(engine: Engine) -> int:
    """The maximum length of a summary, in tokens."""
    return max(16, engine.context_length // 8)


def count(said: Sequence[Kept]) -> int:
    """How many of the messages an existing summary covers."""
    return next((place + 1 for place in reversed(range(len(said))) if said[place].summary), 0)


def summarise(engine: Engine, said: Sequence[Kept], before: str) -> Generator[Delta, None, str]:
    """Summarise messages after an earlier summary `before`, in as many parts as the context requires.

    The yielded deltas have no text: they only show that the model is at work and allow cancelling. Returns the summary.
    """
    options = replace(Options(), temperature=0, max_tokens=length(engine))
    left = [(one.role, one.text) for one in said if one.text]
    while left:
        most = len(left)
        while most > 1 and not _fits(engine, left[:most], before):
            most = (most + 1) // 2
        part, left = left[:most], left[most:]
        while not _fits(engine, part, before) and len(part[0][1]) > 100:
            part = [(part[0][0], _shortened(part[0][1]))]
        text = ""
        with closing(engine.chat(_request(engine, part, before), options)) as deltas:
            for delta in deltas:
                text += delta.text if delta.channel == "text" else ""
                yield Delta(timings=delta.timings)
        before = text.strip() or before
    return before


def _fits(engine: Engine, said: Sequence[tuple[str, str]], before: str) -> bool:
    return engine.count_chat(_request(engine, said, before)) + length(engine) <= engine.context_length


def _request(engine: Engine, said: Sequence[tuple[str, str]], before: str) -> list[Message]:
    earlier = f"What was said before, in brief:\n{before}\n\n" if before else ""
    names = {"user": "User", "assistant": "Assistant", "system": "Instructions", "tool": "Tool"}
    lines = "\n\n".join(f"{names[role]}: {text}" for role, text in said)
    return [Message("user", f"{TASK.format(words=length(engine) // 2)}\n\n{earlier}{lines}")]


def _shortened(text: str) -> str:
    """Three quarters of a text that is too long: its beginning and its end."""
    part = len(text) * 3 // 8
    return f"{text[:part]} … {text[-part:]}"
