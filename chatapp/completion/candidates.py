"""Candidates for a place: what the model says, and what followed the same text in files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

from chatapp.completion.matches import Match, matches_elsewhere, matches_in_file
from chatapp.completion.place import Place
from chatapp.generation import Engine, Options, Reply

Source = Literal["file", "open file", "folder", "model"]
MAX_TOKENS = 48
"""Of one line."""


@dataclass(frozen=True)
class Candidate:
    """A text for the place, and what speaks for it."""

    text: str
    logprob: float | None = None
    """Of the text and its end, as the model has it; None where no model was asked."""
    beam: int | None = None
    """Its place among what the model found the likeliest."""
    greedy: bool = False
    """Whether the model's likeliest token in each place spells it."""
    file: Match | None = None
    """Of this file."""
    other: Match | None = None
    """Of an open file, or of the folder."""
    reply: Reply | None = None
    """The model's tokens, where the model said it."""

    def find_source(self, place: Place) -> Source:
        """Where it was found first: the nearest files come first, and the model where it stands nowhere."""
        if self.file:
            return "file"
        if not self.other:
            return "model"
        return "open file" if self.other.path in {file.path for file in place.open_files} else "folder"


def find_candidates(
    engine: Engine | None, place: Place, wanted: Callable[[], bool] = lambda: True, *, matching: bool = True
) -> list[Candidate]:
    """The different lines that may stand at a place, said by the model and, if `matching`, found in files."""
    found = {said.text: said for said in ask(engine, place, wanted)} if engine else {}
    for match in matches_in_file(place) if matching else ():
        found[match.line] = replace(found.get(match.line, Candidate(match.line)), file=match)
    for match in matches_elsewhere(place) if matching else ():
        found[match.line] = replace(found.get(match.line, Candidate(match.line)), other=match)
    return list(found.values())


def ask(engine: Engine, place: Place, wanted: Callable[[], bool]) -> list[Candidate]:
    """The lines that the model finds the likeliest, the likeliest first; none where they are not wanted any more."""
    options = Options(temperature=0.0, max_tokens=MAX_TOKENS, stop=("\n",), logprobs=0)
    reply = Reply()
    with closing(engine.infill(place.prefix, place.suffix, options)) as deltas:
        for delta in deltas:
            reply.add(delta)
            if not wanted():
                return []
    return [Candidate(reply.text.rstrip(), reply.logprob, beam=0, greedy=True, reply=reply)]
