"""Turns whose rows form one batch: each step computes all of them."""

import numpy as np

from backends import Batch, KeyValues, Placement, Session, Top
from chatapp.generation.running import RunningTurn


class Pack:
    """The turns of a batch; their rows follow each other in the order of the turns."""

    def __init__(self, batch: Batch, placement: Placement, apart: bool):
        self.batch, self.placement = batch, placement
        self.apart = apart
        """Whether it is for one turn only."""
        self.members: list[RunningTurn] = []
        self.rows: list[int] = []
        """The number of rows of each turn."""

    def join(self, one: RunningTurn, session: Session) -> None:
        """Add a turn's rows, from what a session has cached."""
        for row in range(session.batch):
            found = session.export(row)
            assert found is not None  # sessions with batches can export
            self.batch.join(found, session.length)
        self.members.append(one)
        self.rows.append(session.batch)

    def part(self, one: RunningTurn, session: Session) -> "Pack":
        """Move a turn of this pack to a new pack of its own."""
        batch = session.open_batch()
        assert batch  # this pack has a batch
        other = Pack(batch, self.placement, apart=True)
        start = self._start(one)
        count = self.rows[self.members.index(one)]
        for row in range(start, start + count):
            batch.join(self.batch.export(row), self.batch.lengths[row])
        other.members, other.rows = [one], [count]
        self.remove(one)
        return other

    def export(self, one: RunningTurn) -> tuple[KeyValues, int]:
        """The cached keys and values of a turn's first row, and their number of tokens."""
        row = self._start(one)
        return {name: values.copy() for name, values in self.batch.export(row).items()}, self.batch.lengths[row]

    def remove(self, one: RunningTurn) -> None:
        """Remove a turn and its rows."""
        start, place = self._start(one), self.members.index(one)
        gone = range(start, start + self.rows[place])
        self.batch.reorder([row for row in range(len(self.batch.lengths)) if row not in gone])
        self.members = [other for other in self.members if other is not one]
        del self.rows[place]

    def _start(self, one: RunningTurn) -> int:
        return sum(self.rows[: self.members.index(one)])

    def step(self) -> None:
        """Read the next token of every row, and let each turn choose from the logits."""
        tokens, parents, start = list[int](), list[int](), 0
        for one, count in zip(self.members, self.rows, strict=True):
            assert one.step  # members have read their prompts
            tokens += one.step.tokens
            parents += [start + parent for parent in one.step.parents]
            start += count
        if parents != list(range(start)):
            self.batch.reorder(parents)
            self.rows = [len(one.step.tokens) for one in self.members if one.step]
        logits, top, start = self.batch.forward(np.array(tokens, np.int64)[:, None]), self.batch.top, 0
        spent = [one.turn.watch.lap() for one in self.members]
        for one, count, seconds in zip(self.members, self.rows, spent, strict=True):
            one.growth.decode += seconds
            part = slice(start, start + count)
            if one.step and one.step.more:  # forced tokens are chosen already
                more, *rest = one.step.more
                one.step, start = one.step._replace(tokens=[more], parents=[0], more=rest), start + count
                continue
            try:
                one.draw(logits[part], Top(top.tokens[part], top.logits[part]) if top else None, seconds)
            except Exception as error:  # the turn's own error, such as NaN logits
                one.error = error
            start += count
