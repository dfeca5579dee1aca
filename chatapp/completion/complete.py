"""Complete code at a place in a file: what the file itself has, and what the model says."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from math import log
from typing import Any

from chatapp.cli.printing import Answer, Completion, Form, collect, end_line, note, write
from chatapp.cli.statistics import print_logprobs, print_stats
from chatapp.completion.recall import recall
from chatapp.generation import Delta, Engine
from chatapp.text.errors import InputError

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
    """What is to be completed, and how."""

    prefix: str
    suffix: str
    chosen: Mapping[str, Any]
    """The user's options, with `n` for the number of offers, those of the file included."""
    lines: int | None = 1
    """At most so many; None: until the model ends."""
    recalling: bool = True
    """Whether the file itself may have an offer."""
    pick_temperature: bool = True
    """Whether the temperature is ours to choose: the likeliest text for one completion, VARIED for several."""


@dataclass(frozen=True)
class Offer:
    """One text for the place."""

    source: str
    """file or model."""
    completion: Completion

    @property
    def logprob(self) -> float | None:
        """The mean log-probability of the model's tokens."""
        known = [token.logprob for token in self.completion.tokens if token.logprob is not None]
        return sum(known) / len(known) if known else None


def split_at(text: str, at: tuple[int, int] | None, file: str) -> tuple[str, str]:
    """The text before and after a place: line and column as editors count, from 1; None is the end."""
    if at is None:
        return text, ""
    line, column = at
    lines = text.split("\n")
    if line > len(lines):
        raise InputError(f"{file} has {len(lines):,} lines, so {line}:{column} is outside it; give another --at")
    width = len(lines[line - 1].removesuffix("\r"))
    if column > width + 1:
        raise InputError(
            f"line {line} of {file} ends at column {width + 1}, so {line}:{column} is outside it; give another --at"
        )
    start = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
    return text[:start], text[start:]


def complete(request: Request, open_model: Callable[[], Engine], form: Form) -> int:
    """Print the offers for a place, and return the exit code; the model is opened only if the file has too few."""
    length, found = from_file(request.prefix, request.suffix) if request.recalling and request.lines == 1 else (0, None)
    offers = [found] if found and length >= LONG_MATCH else []
    wanted = request.chosen.get("n", 1)
    missing = wanted - len(offers)
    interrupted = False
    engine = open_model() if missing else None
    if engine:
        answer = from_model(engine, replace(request, chosen={**request.chosen, "n": missing}))
        said = [Offer("model", completion) for completion in answer.completions if completion.text.strip()]
        offers += sorted(said, key=lambda offer: -(offer.logprob or 0.0))
        if found and found not in offers and not any((offer.logprob or 0.0) >= log(SURE) for offer in offers):
            offers = [found, *offers][:wanted]
        interrupted = answer.interrupted
    print_offers(offers, form)
    if not offers:
        note("Nothing to offer here; --lines 3 looks further.")
    if interrupted:
        note("Interrupted.")
    if form.stats and engine and engine.last_usage:
        print_stats(engine.last_usage, form.stats)
    elif form.stats == "text":
        note("No model ran: the file itself had this.")
    return 130 if interrupted else 0


def from_file(prefix: str, suffix: str) -> tuple[int, Offer | None]:
    """What the file itself had after the same text, if it ends as this line already does; and the text's length."""
    length, line = recall(prefix, suffix)
    line = line.removesuffix("\r")
    rest = suffix.partition("\n")[0].removesuffix("\r")
    text = line.removesuffix(rest)
    fits = length >= SHORT_MATCH and line.endswith(rest) and text.strip()
    return length, Offer("file", Completion(text, finish_reason="stop")) if fits else None


def from_model(engine: Engine, request: Request) -> Answer:
    """What the model says, cut after the lines that are wanted."""
    likeliest = replace(engine.defaults, repetition_penalty=1.0, stop=())  # which are for text that goes on for long
    options, lines = replace(likeliest, **request.chosen), request.lines
    if request.pick_temperature:
        options = replace(options, temperature=VARIED if options.n > 1 else 0.0)
    if lines == 1:
        options = replace(options, stop=(*options.stop, "\n"))
    options = replace(options, logprobs=options.logprobs or 0, max_tokens=options.max_tokens or MAX_TOKENS[lines == 1])
    answer = collect(
        engine.infill(request.prefix, request.suffix, options), options.n, enough(lines) if lines else None
    )
    for completion in answer.completions:
        if lines and completion.text.count("\n") >= lines:
            completion.text = "\n".join(completion.text.split("\n")[:lines])
            completion.finish_reason = "stop"
    return answer


def enough(lines: int) -> Callable[[Delta, Answer], bool]:
    """Whether every completion has its lines or has ended."""

    def is_enough(delta: Delta, answer: Answer) -> bool:
        if "\n" not in delta.text and not delta.finish_reason:
            return False
        return all(one.text.count("\n") >= lines or one.finish_reason != "cancelled" for one in answer.completions)

    return is_enough


def print_offers(offers: list[Offer], form: Form) -> None:
    """Print every different offer: one line of JSON each, or the texts, with a heading where they have many lines."""
    different = list({offer.completion.text: offer for offer in reversed(offers)}.values())[::-1]
    headed = any("\n" in offer.completion.text for offer in different) and len(different) > 1
    for place, offer in enumerate(different, 1):
        completion = offer.completion
        if form.json:
            facts = {"text": completion.text, "source": offer.source, "finish_reason": completion.finish_reason}
            tokens = {"tokens": [asdict(token) for token in completion.tokens]} if form.logprobs else {}
            print(json.dumps(facts | {"logprob": offer.logprob} | tokens), flush=True)
            continue
        if headed:
            note(f"offer {place} of {len(different)}, from the {offer.source}")
        write(completion.text, form)
        end_line(completion.text, form)
        if form.logprobs:
            print_logprobs(completion.tokens)
