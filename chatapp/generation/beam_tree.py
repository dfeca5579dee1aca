"""The tree of a beam search, grown from its events, and its branches as lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from chatapp.generation.delta import BeamEvent, Token

State = Literal["going", "passed", "pruned", "finished"]
"""Whether the search looks at a beam now, has gone on from it, has given it up, or keeps it as a whole text."""


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
    """Whether it, or a beam that went on from it, is still looked at or kept."""

    @property
    def path(self) -> list[Beam]:
        """The beams from the first token to this one."""
        found, beam = list[Beam](), self
        while beam.parent:
            found.append(beam)
            beam = beam.parent
        return found[::-1]

    def spell(self, text_of: Callable[[Sequence[int]], str], steps: Sequence[float] = ()) -> list[Token]:
        """Its tokens as those of a reply; `text_of` tells what tokens say together, `steps` the seconds of each.

        The log-probability of each is what it added to the score; of the last one of a finished text it is not known.
        """
        path, said, tokens = self.path, "", list[Token]()
        before = 0.0
        for beam in path:
            so_far = text_of([one.token for one in path[: len(tokens) + 1]])
            text = so_far[len(said) :] if tokens and beam.text else beam.text  # the first may have a space to lose
            logprob = None if beam.state == "finished" else beam.score - before
            tokens.append(Token(beam.token, text, logprob, (), steps[len(tokens)] if steps else 0.0))
            said, before = so_far, beam.score
        return tokens


class Line(NamedTuple):
    """A branch without forks: the beams from the one after a fork to the next fork, or to its end."""

    beams: list[Beam]
    guides: str
    """What draws the tree before it."""

    @property
    def last(self) -> Beam:
        """The beam that it ends with."""
        return self.beams[-1]


class BeamTree:
    """All that a search has looked at, in one turn."""

    def __init__(self) -> None:
        self.root = Beam(0, None, 0, "", 0.0, "passed")
        self.beams = {0: self.root}
        self.count = {"going": 0, "pruned": 0, "finished": 0, "passed": 1}
        self.steps: list[float] = []
        """The seconds that each token of all beams took."""
        self._waited = 0.0

    def add(self, events: Sequence[BeamEvent], seconds: float = 0.0) -> None:
        """Take in what the search has done in one step, or nothing, and the seconds that took."""
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
        """The texts as they stand: finished ones, then those that are looked at, each from the best score down."""
        known = list(self.beams.values())  # the tree may grow meanwhile, in another thread
        return [
            beam
            for state in ("finished", "going")
            for beam in sorted((one for one in known if one.state == state), key=lambda one: -one.score)
        ]

    def lines(self, *, pruned: bool = True) -> list[Line]:
        """The tree from top to bottom; without what was given up, if `pruned` is not wanted."""
        # A stack, for a tree may be deeper than Python calls itself.
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
        """What goes on from a beam, the last first, each with the guides before it, its own, and those below it."""
        children = self._children(beam, pruned=pruned)
        corners = [("├ ", "│ ")] * (len(children) - 1) + [("└ ", "  ")]
        return [(child, guides, *corner) for child, corner in zip(children, corners, strict=False)][::-1]

    def _children(self, beam: Beam, *, pruned: bool) -> list[Beam]:
        return [child for child in beam.children if pruned or child.hopeful]
