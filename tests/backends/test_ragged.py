"""Rows of different lengths in one step give what each gives alone; what was cached can be put back."""

from pathlib import Path

import numpy as np
import pytest

from backends import BackendError, Batch, ContextExceeded, KeyValues, Session
from support.arrays import near
from support.checkpoints import HERE
from support.golden_logits import GOLDEN, TOLERANCE, open_case

LENGTHS = (17, 5, 9)
CASES = ("gpt2", "llama", "gemma2", "gemma4_text", "bloom", "mistral", "gpt_bigcode-multi_head")
"""Learned positions, rotary ones, windows in some layers, slopes, windows in all, and keys that all heads share."""
NAMES = ["reference", *(name for name in HERE if name != "coreml")]
WAYS = [(name, case) for name in NAMES for case in CASES if (name, case) != ("openvino", "gemma2")]


def read(session: Session, tokens: np.ndarray) -> KeyValues:
    """What the cache holds of tokens (1, count) that are all the session has read."""
    session.rewind(0)
    session.forward(tokens)
    found = session.export(0)
    assert found
    return {name: values.copy() for name, values in found.items()}


def opened(session: Session) -> Batch:
    batch = session.open_batch()
    assert batch
    return batch


@pytest.mark.parametrize(("name", "case"), WAYS)
def test_a_ragged_batch_gives_the_logits_of_single_runs_while_rows_join_branch_and_leave(
    name: str, case: str, tmp_path: Path
) -> None:
    arrays = np.load(GOLDEN / case / "golden.npz")
    tokens, logits = arrays["tokens"], arrays["logits"]
    session = open_case(case, name, tmp_path)
    batch = opened(session)
    for row, length in enumerate(LENGTHS):
        batch.join(read(session, tokens[row : row + 1, :length]), length)
    rows = [0, 1, 2]

    def step() -> None:
        places = list(zip(rows, batch.lengths, strict=True))
        found = batch.forward(np.array([[tokens[place]] for place in places]))
        assert found.shape == (len(rows), 1, session.vocab_size)
        for row, place in enumerate(places):
            assert found[row, 0] == near(logits[place], abs=TOLERANCE)
            if batch.top:
                assert batch.top.tokens[row, 0, 0] == found[row, 0].argmax()

    step()
    session.forward(tokens[:1, :3])  # beside it, the session does what it likes
    step()
    for parents in ([0, 2], [1, 0, 0], [2, 1, 0, 0], [3, 1]):
        batch.reorder(parents)
        rows = [rows[parent] for parent in parents]
        step()
    batch.join(read(session, tokens[2:3, :12]), 12)
    rows.append(2)
    step()
    again = {key: values.copy() for key, values in batch.export(len(rows) - 1).items()}
    batch.reorder([])
    with pytest.raises(BackendError, match="0 rows grow"):
        batch.forward(np.zeros((0, 1), np.int64))
    session.restore(tokens[2, :11].tolist(), again)
    assert (session.length, session.batch) == (11, 1)
    assert session.forward(tokens[2:3, 11:14], 3)[0] == near(logits[2, 11:14], abs=TOLERANCE)
    batch.join(again, 13)
    rows = [2]
    step()


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_makes_room_as_rows_grow_and_ends_with_the_context(name: str, tmp_path: Path) -> None:
    session = open_case("gpt2", name, tmp_path)
    context, random = session.context_length, np.random.default_rng(0)
    tokens = random.integers(0, session.vocab_size, (2, context))
    expected = [session.forward(tokens[:1, :context]).copy()]
    session.rewind(0)
    expected.append(session.forward(tokens[1:, : context - 1]).copy())
    batch = opened(session)
    batch.join(read(session, tokens[:1, : context - 1]), context - 1)
    batch.join(read(session, tokens[1:, : context - 2]), context - 2)
    found = batch.forward(np.array([tokens[0, context - 1 :], tokens[1, context - 2 : context - 1]]))
    assert found == near(np.concatenate(expected), abs=TOLERANCE)
    with pytest.raises(ContextExceeded):
        batch.forward(np.zeros((2, 1), np.int64))
    assert list(batch.lengths) == [context, context - 1]


@pytest.mark.parametrize(
    ("name", "case"),
    [*((name, "phi3-longrope") for name in NAMES), *((name, "t5") for name in NAMES), ("openvino", "gemma2")],
)
def test_what_needs_rows_of_one_length_has_no_batch(name: str, case: str, tmp_path: Path) -> None:
    if name not in NAMES:
        pytest.skip(f"{name} is not installed")
    assert open_case(case, name, tmp_path).open_batch() is None
