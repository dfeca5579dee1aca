"""Candidates for a place: what the model says, and what followed the same text in files."""

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
"""Of code, about."""
MOST_TOKENS = 2048
"""That the model reads, if its context holds twice as many; those nearest to the place say nearly all there is."""
CLOSED = re.compile(r"""[])}"'`]+[,;:]?""")
"""What editors put behind the cursor when a bracket or a quote is opened, and what may stand behind that."""
STEPS = 8
"""Parts of the text before the place, of which whole ones are left out: what is read then stays while one types."""


@dataclass(frozen=True)
class Candidate:
    """A text for the place, and what speaks for it."""

    text: str
    logprob: float | None = None
    """Of the text and its end, as the model has it; None where it was not asked."""
    file: Match | None = None
    """Where it followed the same text in this file."""
    other: Match | None = None
    """The same in an open file, or in the folder."""
    fault: str = ""
    """Why it would be wrong there whatever was meant: it does not parse, or repeats what stands behind."""
    unknown: tuple[str, ...] = ()
    """Names in it that stand nowhere in reach."""

    def find_source(self, place: Place) -> Source:
        """Where it was found first: the nearest files come first, and the model where it stands nowhere."""
        if self.file:
            return "file"
        if not self.other:
            return "model"
        return "open file" if self.other.path in {file.path for file in place.open_files} else "folder"


def find_candidates(
    engine: Engine | None, place: Place, wanted: Wanted = yes, *, matching: bool = True
) -> list[Candidate]:
    """The different lines that may stand at a place, said by the model and, if `matching`, found in files.

    Of those found in files the model is asked about the first ones only. There are none where they are not wanted any
    more.
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
    """The candidate with what speaks against it at the place; without the end that stands there, if that is better."""
    verdict, text = gate.judge(place, candidate.text), candidate.text
    shorter = leave_closed(text, place.suffix)
    if shorter != text and (verdict.reason or matches_better(place, shorter, text)):
        left = gate.judge(place, shorter)
        verdict, text = (left, shorter) if not left.reason else (verdict, text)
    return replace(candidate, text=text, fault=verdict.reason, unknown=verdict.unknown)


def matches_better(place: Place, text: str, other: str) -> bool:
    """Whether brackets and quotes match with a text at a place, and do not with another: comments parse anyhow."""
    begun, rest, before, _ = split_lines(place)
    worse, better = (find_imbalance(before, begun + each + rest) for each in (other, text))
    return bool(worse and not better)


def leave_closed(text: str, behind: str) -> str:
    """A text without those brackets and quotes of its end which an editor has put behind the place already."""
    closed = CLOSED.match(behind)
    ends = [closed[0][:length] for length in range(closed.end(), 0, -1)] if closed else []
    return next((text.removesuffix(end) for end in ends if text.endswith(end)), text)


def ask(engine: Engine, place: Place, found: Sequence[Candidate], wanted: Wanted) -> list[tuple[str, float]]:
    """The lines that the model finds the likeliest, and the first of those found; with their log-probabilities."""
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
    """What the model reads of the text before a place and after it: a quarter is after it.

    The text before begins with a line, and where the same one while one types on: the cache then holds it.
    """
    most = int(min(MOST_TOKENS, context_length // 2) * CHARACTERS_PER_TOKEN)
    after = place.suffix[: most // 4]
    room = most - len(after)
    step = max(1, room // STEPS)
    start = max(0, -(-(len(place.prefix) - room) // step) * step)
    line = place.prefix.find("\n", start) + 1 if start else 0
    return place.prefix[line or start :], after
