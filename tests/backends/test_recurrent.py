"""Sessions whose layers keep states: taken back to any place, they go on as if nothing else had been read."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import BackendError, ContextExceeded, Session, recurrent
from backends.decoder import Decoder, Weights
from backends.recurrent import MOST, RecurrentSession
from backends.reference import Session as ReferenceSession
from backends.rereading import PART
from support.any_order import read_and_take_back
from support.arrays import near
from support.golden_logits import open_golden

CONTEXT = 1200
CASES = ("lfm2", "qwen3_5_text")


@pytest.fixture(params=CASES)
def model(request: pytest.FixtureRequest) -> tuple[Decoder, Weights]:
    decoder, weights = open_golden(request.param)
    return replace(decoder, context_length=CONTEXT), dict(weights)


@pytest.fixture
def session(model: tuple[Decoder, Weights], tmp_path: Path) -> RecurrentSession:
    backends.get("onnx").lower(*model, tmp_path, precision="f32")
    opened = backends.get("onnx").load(tmp_path, device="cpu")
    assert isinstance(opened, RecurrentSession)
    return opened


def last_logits(model: tuple[Decoder, Weights], rows: np.ndarray) -> np.ndarray:
    """What a session says that has read nothing else, (rows, 1, vocab)."""
    return ReferenceSession(*model).forward(rows)


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_reading_and_taking_back(model: tuple[Decoder, Weights], session: Session, seed: int) -> None:
    read_and_take_back(session, lambda rows: last_logits(model, rows), model[0].vocab_size, seed, parts=(20, 90))


def test_a_long_text_keeps_few_states_and_goes_back_to_the_nearest(
    model: tuple[Decoder, Weights], session: RecurrentSession
) -> None:
    tokens = np.random.default_rng(0).integers(0, model[0].vocab_size, (1, CONTEXT))
    for start in range(0, CONTEXT, 50):
        session.forward(tokens[:, start : start + 50])
    assert len(session.kept) == MOST
    session.rewind(1101)
    assert session.session.length == 1100  # where the last part but one began
    assert session.forward(tokens[:, 1101:1102]) == near(last_logits(model, tokens[:, :1102]), abs=2e-4)


def test_single_tokens_keep_a_state_now_and_then(model: tuple[Decoder, Weights], session: RecurrentSession) -> None:
    tokens = np.random.default_rng(0).integers(0, model[0].vocab_size, (1, 2 * PART + 40))
    for i in range(tokens.shape[1]):
        session.forward(tokens[:, i : i + 1])
    assert [*session.kept] == [PART, 2 * PART]
    session.rewind(PART + 3)
    assert session.session.length == PART
    assert session.forward(tokens[:, PART + 3 : PART + 4]) == near(last_logits(model, tokens[:, : PART + 4]), abs=2e-4)


def test_what_is_read_again_is_read_in_parts(
    model: tuple[Decoder, Weights], session: RecurrentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = np.random.default_rng(0).integers(0, model[0].vocab_size, (1, 700))
    session.forward(tokens)
    counts, forward = [], session.session.forward

    def counted(tokens: np.ndarray, last: int = 1) -> np.ndarray:
        counts.append(tokens.shape[1])
        return forward(tokens, last)

    monkeypatch.setattr(session.session, "forward", counted)
    session.rewind(650)  # nothing was kept: it was read in one call
    session.forward(tokens[:, 650:651])
    assert counts == [256, 256, 138, 1]


def test_a_call_that_fails_leaves_the_text_as_it_was(
    model: tuple[Decoder, Weights], session: RecurrentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = np.random.default_rng(0).integers(0, model[0].vocab_size, (1, 60))
    session.forward(tokens[:, :40])
    session.forward(tokens[:, 40:50])
    with pytest.raises(ContextExceeded):
        session.forward(np.zeros((1, CONTEXT), np.int64))

    def fail(tokens: np.ndarray, last: int = 1) -> np.ndarray:
        session.session.put({name: values + 1 for name, values in session.session.states().items()})
        raise BackendError("the runtime failed")

    with monkeypatch.context() as patch:
        patch.setattr(session.session, "forward", fail)
        with pytest.raises(BackendError):
            session.forward(tokens[:, 50:51])
    assert session.length == 50
    assert session.forward(tokens[:, 50:51]) == near(last_logits(model, tokens[:, :51]), abs=2e-4)


def test_large_states_are_kept_at_two_places_at_least(
    model: tuple[Decoder, Weights], session: RecurrentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent, "BUDGET", 1)
    tokens = np.random.default_rng(0).integers(0, model[0].vocab_size, (1, 100))
    for start in range(0, 100, 10):
        session.forward(tokens[:, start : start + 10])
    assert len(session.kept) == 2 and max(session.kept) == 90
    session.rewind(41)
    assert session.forward(tokens[:, 41:42]) == near(last_logits(model, tokens[:, :42]), abs=2e-4)


@pytest.mark.parametrize("more", [0, 5])
def test_what_was_exported_is_put_back_or_read_again(
    model: tuple[Decoder, Weights], session: RecurrentSession, more: int
) -> None:
    tokens = np.random.default_rng(0).integers(0, model[0].vocab_size, (2, 40))
    session.forward(tokens)
    session.rewind(36)  # what is exported is of this, though the runtime is not there
    session.forward(tokens[:, 36 : 36 + more]) if more else None
    exported = session.export(1)
    assert exported is not None
    found = {name: values.copy() for name, values in exported.items()}
    session.rewind(0)
    session.forward(tokens[:1, :7])
    session.restore(tokens[1, :36].tolist(), found)
    assert session.session.length == (0 if more else 36)
    assert session.forward(tokens[1:, 36:37]) == near(last_logits(model, tokens[1:, :37]), abs=2e-4)


def test_rows_of_other_lengths_are_computed_together(model: tuple[Decoder, Weights], session: Session) -> None:
    chance = np.random.default_rng(0)
    batch, texts = session.open_batch(), list[list[int]]()
    assert batch
    for length in (9, 21, 4):
        text = chance.integers(0, model[0].vocab_size, length).tolist()
        session.rewind(0)
        session.forward(np.array([text]))
        found = session.export(0)
        assert found is not None
        batch.join(found, length)
        texts.append(text)
    for parents in ([0, 1, 2], [2, 0], [1, 1, 0, 0], [3]):
        batch.reorder(parents)
        texts = [list(texts[parent]) for parent in parents]
        for _ in range(3):
            more = chance.integers(0, model[0].vocab_size, (len(texts), 1))
            logits = batch.forward(more)
            for text, token, row in zip(texts, more, logits, strict=True):
                text += token.tolist()
                assert row[None] == near(last_logits(model, np.array([text])), abs=2e-4)
        assert batch.lengths == [len(text) for text in texts]
    exported = batch.export(0)
    session.restore(texts[0], exported)
    assert session.forward(np.array([[1]])) == near(last_logits(model, np.array([[*texts[0], 1]])), abs=2e-4)
