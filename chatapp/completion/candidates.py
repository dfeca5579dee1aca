"""Candidates for a place: lines that the model suggests, and lines that followed the same text in files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from chatapp.completion.gate import Gate, find_imbalance, split_lines
from chatapp.completion.matches import Match, matches_elsewhere, matches_in_file
from chatapp.completion.place import Place
from chatapp.generation import Engine
from chatapp.generation.contract import Wanted, yes

Source = Literal["file", "open file", "folder", "model"]
CHARACTERS_PER_TOKEN = 3.5
"""Average for code."""
MOST_TOKENS = 2048
"""Most tokens the model reads, and at most half of its context: what is nearest says nearly everything."""
CLOSED = re.compile(r"""[])}"'`]+[,;:]?""")
"""Closing brackets and quotes that editors insert after the cursor, with what may follow them."""
STEPS = 8
"""The text before the place is cut in steps of 1/STEPS, so that its beginning stays while one types."""


@dataclass(frozen=True)
class Candidate:
    """A text for the place, with the evidence for it."""

    text: str
    logprob: float | None = None
    """The model's log-probability of the text and its end; None if it was not asked."""
    file: Match | None = None
    """Its match in this file."""
    other: Match | None = None
    """Its match in an open file or in the folder."""
    fault: str = ""
    """Why it is wrong in any case: it does not parse, or repeats what follows."""
    unknown: tuple[str, ...] = ()
    """Names in it that occur nowhere in reach."""

    def find_source(self, place: Place) -> Source:
        """Its nearest source; the model if no file has it."""
        if self.file:
            return "file"
        if not self.other:
            return "model"
        return "open file" if self.other.path in {file.path for file in place.open_files} else "folder"


def find_candidates(
    engine: Engine | None, place: Place, wanted: Wanted = yes, *, matching: bool = True
) -> list[Candidate]:
    """Distinct candidate lines for a place, from the model and, if `matching`, from files.

    The model scores only the first of the lines from files. The result is empty if it is no longer
    `wanted`.
    """
    found = dict[str, Candidate]()
    for match in matches_in_file(place) if matching else ():
        found[match.line] = Candidate(match.line, file=match)
    for match in matches_elsewhere(place) if matching else ():
        found[match.line] = replace(found.get(match.line, Candidate(match.line)), other=match)
    for text, logprob in ask(engine, place, list(found.values()), wanted) if engine else ():
        found[text] = replace(found.get(text, Candidate(text)), logprob=logprob)
    return list(found.values()) if wanted() else []


def judge(gate: Gate, place: Place, candidate: Candidate) -> Candidate:
    """The candidate with its faults at the place; cut before what the editor has closed there, if that is better."""
    verdict, text = gate.judge(place, candidate.text), candidate.text
    shorter = leave_closed(text, place.suffix)
    if shorter != text and (verdict.reason or matches_better(place, shorter, text)):
        left = gate.judge(place, shorter)
        verdict, text = (left, shorter) if not left.reason else (verdict, text)
    return replace(candidate, text=text, fault=verdict.reason, unknown=verdict.unknown)


def matches_better(place: Place, text: str, other: str) -> bool:
    """Whether brackets and quotes match with a text, but not with another: comments parse anyway."""
    begun, rest, before, _ = split_lines(place)
    worse, better = (find_imbalance(before, begun + each + rest) for each in (other, text))
    return bool(worse and not better)


def leave_closed(text: str, behind: str) -> str:
    """The text before the brackets or quotes that the editor has inserted behind the cursor already."""
    closed = CLOSED.match(behind)
    ends = [closed[0][:length] for length in range(closed.end(), 0, -1)] if closed else []
    return next((text.rpartition(end)[0] for end in ends if end in text), text)


def ask(engine: Engine, place: Place, found: Sequence[Candidate], wanted: Wanted) -> list[tuple[str, float]]:
    """The lines that the model finds most likely, and the first of those found, with log-probabilities."""
    prefix, suffix = see(place, engine.context_length)
    if engine.sees_files and place.folder and place.path:
        around = place.folder.surroundings(prefix, suffix, place.path)
    else:
        around = None
    lines = engine.find_lines(prefix, suffix, around, wanted=wanted) or []
    said = {line.text.rstrip(): line.logprob for line in reversed(lines)}
    others = [each.text for each in found if each.text not in said and is_first(each)]
    scores = engine.score_lines(prefix, suffix, others, around, wanted=wanted) if others and wanted() else None
    return [*said.items(), *zip(others, scores or (), strict=False)]


def is_first(candidate: Candidate) -> bool:
    """Whether no match of its kind is longer."""
    return any(match and match.first for match in (candidate.file, candidate.other))


def see(place: Place, context_length: int) -> tuple[str, str]:
    """The texts before and after a place that the model reads, a quarter of it after.

    The text before begins at a line that stays the same while one types, so that the cache serves.
    """
    most = int(min(MOST_TOKENS, context_length // 2) * CHARACTERS_PER_TOKEN)
    after = place.suffix[: most // 4]
    room = most - len(after)
    step = max(1, room // STEPS)
    start = max(0, -(-(len(place.prefix) - room) // step) * step)
    line = place.prefix.find("\n", start) + 1 if start else 0
    return place.prefix[line or start :], after
