"""The tree of a beam search, built from its events, and its branches as lines for the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from chatapp.generation.delta import BeamEvent, Token

State = Literal["going", "passed", "pruned", "finished"]
"""Whether a beam is still running, was extended, was pruned, or is a finished text."""


@dataclass(eq=False, slots=True)
class Beam:
    """A token of the tree, which stands for the text up to it."""

    id: int
    parent: Beam | None
    token: int
    text: str
    score: float
    state: State
    children: list[Beam] = field(default_factory=list)
    hopeful: bool = True
    """Whether it, or a beam that continues it, is still running or finished."""

    @property
    def path(self) -> list[Beam]:
        """The beams from the first token to this one."""
        found, beam = list[Beam](), self
        while beam.parent:
            found.append(beam)
            beam = beam.parent
        return found[::-1]

    def spell(self, text_of: Callable[[Sequence[int]], str], steps: Sequence[float] = ()) -> list[Token]:
        """Its path as tokens of a reply; `text_of` decodes tokens, `steps` has the seconds of each.

        Each token's log-probability is what it added to the score; that of a finished text's last token is unknown.
        """
        path, said, tokens = self.path, "", list[Token]()
        before = 0.0
        for beam in path:
            so_far = text_of([one.token for one in path[: len(tokens) + 1]])
            text = so_far[len(said) :] if tokens and beam.text else beam.text  # the first one may lose a space
            logprob = None if beam.state == "finished" else beam.score - before
            tokens.append(Token(beam.token, text, logprob, (), steps[len(tokens)] if steps else 0.0))
            said, before = so_far, beam.score
        return tokens


class Line(NamedTuple):
    """A branch without forks: the beams from one fork to the next, or to the branch's end."""

    beams: list[Beam]
    guides: str
    """The characters that draw the tree to its left."""

    @property
    def last(self) -> Beam:
        """The branch's last beam."""
        return self.beams[-1]


class BeamTree:
    """All beams of one search."""

    def __init__(self) -> None:
        self.root = Beam(0, None, 0, "", 0.0, "passed")
        self.beams = {0: self.root}
        self.count = {"going": 0, "pruned": 0, "finished": 0, "passed": 1}
        self.steps: list[float] = []
        """The seconds of each step."""
        self._waited = 0.0

    def add(self, events: Sequence[BeamEvent], seconds: float = 0.0) -> None:
        """Take in the events of one step, possibly none, and the seconds it took."""
        self._waited += seconds
        if events:
            self.steps.append(self._waited)
            self._waited = 0.0
        for event in events:
            if event.change == "pruned":
                if beam := self.beams.get(event.beam):
                    self._turn(beam, "pruned")
                continue
            parent = self.beams[event.parent]
            state: State = "going" if event.change == "extended" else "finished"
            beam = Beam(event.beam, parent, event.token, event.text, event.score, state)
            self.beams[event.beam] = beam
            self.count[state] += 1
            parent.children.append(beam)
            if parent.state == "going":
                self._turn(parent, "passed")

    def _turn(self, beam: Beam, state: State) -> None:
        self.count[beam.state] -= 1
        self.count[state] += 1
        beam.state = state
        above: Beam | None = beam
        while above and state == "pruned" and above.parent and above.state in ("pruned", "passed"):
            above.hopeful = any(child.hopeful for child in above.children)
            if above.hopeful:
                return
            above = above.parent

    def rank(self) -> list[Beam]:
        """The current texts: finished ones first, then running ones, each sorted by score."""
        known = list(self.beams.values())  # another thread may extend the tree meanwhile
        return [
            beam
            for state in ("finished", "going")
            for beam in sorted((one for one in known if one.state == state), key=lambda one: -one.score)
        ]

    def lines(self, *, pruned: bool = True) -> list[Line]:
        """The tree from top to bottom, with or without pruned branches."""
        # A stack: the tree may be deeper than Python's recursion limit.
        found, waiting = list[Line](), self._fork(self.root, "", pruned=pruned)
        while waiting:
            first, before, branch, behind = waiting.pop()
            beams = [first]
            while len(children := self._children(beams[-1], pruned=pruned)) == 1 and beams[-1].state == "passed":
                beams += children
            found.append(Line(beams, before + branch))
            waiting += self._fork(beams[-1], before + behind, pruned=pruned)
        return found

    def _fork(self, beam: Beam, guides: str, *, pruned: bool) -> list[tuple[Beam, str, str, str]]:
        """The children of a beam, the last first, each with the guides before it, its own, and those below it."""
        children = self._children(beam, pruned=pruned)
        corners = [("├ ", "│ ")] * (len(children) - 1) + [("└ ", "  ")]
        return [(child, guides, *corner) for child, corner in zip(children, corners, strict=False)][::-1]

    def _children(self, beam: Beam, *, pruned: bool) -> list[Beam]:
        return [child for child in beam.children if pruned or child.hopeful]
