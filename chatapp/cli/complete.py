"""`chatapp complete`: print the offers for a place in a file."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from chatapp.cli.printing import Form, end_line, note, stoppable, write
from chatapp.cli.statistics import print_logprobs, print_stats
from chatapp.completion.offers import Offer, Request, needs_model, offers
from chatapp.generation import Engine
from chatapp.text.errors import InputError


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
    engine = open_model() if needs_model(request) else None
    with stoppable() as stop:
        found = offers(engine, request, lambda: not stop.is_set())
    print_offers(found, form)
    if not found:
        note("Nothing to offer here; --lines 3 looks further.")
    if stop.is_set():
        note("Interrupted.")
    if form.stats and engine and engine.last_usage:
        print_stats(engine.last_usage, form.stats)
    elif form.stats == "text":
        note("No model ran: the file itself had this.")
    return 130 if stop.is_set() else 0


def print_offers(found: Sequence[Offer], form: Form) -> None:
    """Print every offer: one line of JSON each, or the texts, with a heading where they have many lines."""
    headed = any("\n" in offer.text for offer in found) and len(found) > 1
    for place, offer in enumerate(found, 1):
        reply = offer.reply
        if form.json:
            facts = {"text": reply.text, "source": offer.source, "finish_reason": reply.finish_reason}
            tokens = {"tokens": [asdict(token) for token in reply.tokens]} if form.logprobs else {}
            print(json.dumps(facts | {"logprob": reply.mean_logprob} | tokens), flush=True)
            continue
        if headed:
            note(f"offer {place} of {len(found)}, from the {offer.source}")
        write(reply.text, form)
        end_line(reply.text, form)
        if form.logprobs:
            print_logprobs(reply.tokens)
