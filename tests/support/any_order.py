"""A session that reads, takes back and branches in any order."""

from collections.abc import Callable

import numpy as np

from backends import Session
from support.arrays import near


def read_and_take_back(
    session: Session,
    expected: Callable[[np.ndarray], np.ndarray],
    vocab_size: int,
    seed: int,
    *,
    parts: tuple[int, int],
    branches: float = 0.1,
    calls: int = 24,
) -> None:
    """Compare the logits of calls by chance with what is `expected` of such rows, (rows, 1, vocab).

    A long call reads as many tokens as `parts` says, at least and at most. Of all calls so many branch.
    """
    chance, rows = np.random.default_rng(seed), np.zeros((1, 0), np.int64)
    shares = np.array([0.2, 0.3, 0.2, 0.2]) / 0.9 * (1 - branches)
    for _ in range(calls):
        kind = chance.choice(["read", "step", "draft", "back", "branch"], p=[*shares, branches])
        if kind == "back" and rows.shape[1]:
            rows = rows[:, : chance.integers(0, rows.shape[1] + 1)]
            session.rewind(rows.shape[1])
        elif kind == "branch" and rows.shape[1]:
            parents = chance.integers(0, len(rows), chance.integers(1, 4)).tolist()
            session.reorder(parents)
            rows = rows[parents]
        else:
            wanted = {"read": int(chance.integers(*parts)), "draft": 4}.get(str(kind), 1)
            rows = rows if rows.shape[1] else rows[:1]
            count = min(wanted, session.context_length - rows.shape[1])
            more = chance.integers(0, vocab_size, (len(rows), count))
            rows = np.concatenate([rows, more], axis=1)
            if count:
                assert session.forward(more) == near(expected(rows), abs=2e-4)
        assert (session.length, session.batch) == (rows.shape[1], len(rows) if rows.shape[1] else 0)
