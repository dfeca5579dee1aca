"""Texts offered for a place in code: what the file itself had there before, and what the model says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

from chatapp.generation import Engine, Reply

LONG_MATCH = 30
"""Characters before the place that must stand elsewhere in the file, for what follows them there to come first."""
SHORT_MATCH = 3
"""As many as that, where the model is unsure."""
SURE = 0.5
"""The mean probability of the model's tokens from which its completion comes before a short match."""
VARIED = 0.6
"""The temperature at which several completions differ, and still make sense."""
MAX_TOKENS = {True: 64, False: 256}
"""Unless told otherwise: for one line, and for several."""


@dataclass(frozen=True)
class Request:
    """A place in a file, and which offers are wanted for it."""

    prefix: str
    suffix: str
    chosen: Mapping[str, Any] = field(default_factory=dict)  # Any: what Options takes
    """The user's options, with `n` for the number of offers, those of the file included."""
    lines: int | None = 1
    """At most so many; None: until the model ends."""
    recalling: bool = True
    """Whether the file itself may have an offer."""
    pick_temperature: bool = True
    """Whether the temperature is ours to choose: the likeliest text for one completion, VARIED for several."""

    @property
    def n(self) -> int:
        """The number of offers."""
        return int(self.chosen.get("n", 1))


@dataclass(frozen=True)
class Suggestion:
    """One text for the place."""

    source: str
    """file or model."""
    reply: Reply
    sure: bool = True
    """Whether it comes before what the model is unsure of."""

    @property
    def text(self) -> str:
        return self.reply.text


def needs_model(request: Request) -> bool:
    """Whether the file itself has fewer offers than are wanted."""
    found = from_file(request)
    return request.n > (found is not None and found.sure)


def offers(engine: Engine | None, request: Request, wanted: Callable[[], bool] = lambda: True) -> list[Suggestion]:
    """The different offers for a place, the best first; without an engine, those of the file.

    After each part that the model says `wanted` is asked: where it says no, that is all the model says.
    """
    found = from_file(request)
    first = [found] if found and found.sure else []
    if engine is None or request.n <= len(first):
        return first
    said = from_model(engine, replace(request, chosen={**request.chosen, "n": request.n - len(first)}), wanted)
    if found and not first and not any(offer.sure for offer in said):
        first = [found]
    different = {offer.text: offer for offer in reversed([*first, *said][: request.n])}
    return list(different.values())[::-1]


def from_file(request: Request) -> Suggestion | None:
    """What the file itself had after the same text, if it ends as this line already does."""
    if not request.recalling or request.lines != 1:
        return None
    length, line = recall(request.prefix, request.suffix)
    line = line.removesuffix("\r")
    rest = request.suffix.partition("\n")[0].removesuffix("\r")
    text = line.removesuffix(rest)
    if length < SHORT_MATCH or not line.endswith(rest) or not text.strip():
        return None
    return Suggestion("file", Reply(text, finish_reason="stop"), sure=length >= LONG_MATCH)


def from_model(engine: Engine, request: Request, wanted: Callable[[], bool] = lambda: True) -> list[Suggestion]:
    """What the model says, cut after the lines that are wanted, the likeliest first."""
    likeliest = replace(engine.defaults, repetition_penalty=1.0, stop=())  # which are for text that goes on for long
    options, lines = replace(likeliest, **request.chosen), request.lines
    if request.pick_temperature:
        options = replace(options, temperature=VARIED if options.n > 1 else 0.0)
    if lines == 1:
        options = replace(options, stop=(*options.stop, "\n"))
    options = replace(options, logprobs=options.logprobs or 0, max_tokens=options.max_tokens or MAX_TOKENS[lines == 1])
    replies = [Reply() for _ in range(options.n)]
    with closing(engine.infill(request.prefix, request.suffix, options)) as deltas:
        for delta in deltas:
            replies[delta.index].add(delta)
            if ("\n" in delta.text or delta.finish_reason) and lines and have_lines(replies, lines) or not wanted():
                break
    for reply in replies:
        if lines and reply.text.count("\n") >= lines:
            reply.text, reply.finish_reason = "\n".join(reply.text.split("\n")[:lines]), "stop"
    said = sorted((reply for reply in replies if reply.text.strip()), key=lambda reply: -(reply.mean_logprob or 0.0))
    return [Suggestion("model", reply, sure=(reply.mean_logprob or 0.0) >= log(SURE)) for reply in said]


def have_lines(replies: Sequence[Reply], lines: int) -> bool:
    """Whether every reply has its lines or has ended."""
    return all(reply.text.count("\n") >= lines or reply.finish_reason != "cancelled" for reply in replies)


def recall(prefix: str, suffix: str) -> tuple[int, str]:
    """Find the longest end of `prefix` that stands elsewhere in the file.

    Returns its length and what follows it there, up to the line's end; (0, "") if there is none. Of
    several equally long ones, the nearest before the cursor counts, then the first one after it.
    """
    backwards = prefix[::-1]  # ends become beginnings, and the nearest occurrence the first

    def places(length: int) -> tuple[int, int]:
        return backwards.find(backwards[:length], 1), suffix.find(prefix[-length:])

    def occurs(length: int) -> bool:
        return length <= len(prefix) and max(places(length)) >= 0

    if not prefix or not occurs(1):
        return 0, ""
    longest, too_long = 1, 2
    while occurs(too_long):  # if an end occurs, so does every shorter one: double, then bisect
        longest, too_long = too_long, too_long * 2
    while too_long - longest > 1:
        middle = (longest + too_long) // 2
        longest, too_long = (middle, too_long) if occurs(middle) else (longest, middle)
    before, after = places(longest)
    text, start = (prefix, len(prefix) - before) if before >= 0 else (suffix, after + longest)
    end = text.find("\n", start)
    return longest, text[start:] if end < 0 else text[start:end]
