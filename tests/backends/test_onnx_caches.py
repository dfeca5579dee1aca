"""What ONNX Runtime is shown of caches whose layers have windows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import sliding
from backends.onnx import lowering
from backends.onnx.session import Session
from backends.quantize import PRECISIONS, Rounded
from backends.recurrent import RecurrentSession
from backends.sliding import SlidingSession
from model_store.convert import convert
from support.arrays import near
from support.checkpoints import MakeCheckpoint
from support.golden_logits import TOLERANCE, cases_of, golden, open_case, open_golden

LONG = 300
WINDOWED = [case for case in cases_of("onnx") if any(lowering.find_windows(open_golden(case)[0]))]
Sessions = tuple[Session, Session]


@pytest.fixture
def sessions(checkpoint: MakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sessions]:
    """A model whose layers, or whose first one, see 50 tokens, and the same of which everything is shown."""
    monkeypatch.setattr(sliding, "STRIDE", 16)

    def load(precision: str, windows: list[int]) -> Sessions:
        kinds = ["sliding_attention" if window else "full_attention" for window in windows]
        config = dict(model_type="ministral", sliding_window=50, layer_types=kinds)
        convert(checkpoint(max_position_embeddings=LONG, **config), tmp_path, backend="onnx", precision=precision)
        some, every = Session(tmp_path), Session(tmp_path)
        assert some.windows == windows
        show_everything(every)
        return some, every

    return load


def show_everything(session: Session) -> None:
    """Leave nothing of a cache out."""
    session.out_of_sight = lambda length: dict.fromkeys(session.unseen, 0)  # type: ignore[method-assign]


def tokens(rows: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 320, (rows, LONG))


@pytest.mark.parametrize("windows", [[50, 50], [50, 0]])
def test_a_window_of_a_cache_gives_what_all_of_it_gives(windows: list[int], sessions: Callable[..., Sessions]) -> None:
    some, every = sessions("f32", windows)
    text, start = tokens(1), 0
    for count, last in (1, 1), (30, 2), (1, 1), (100, 40), (1, 1), (130, 1), (37, 37):
        part = text[:, start : start + count]
        assert some.forward(part, last) == near(every.forward(part, last), abs=1e-5)
        start += count
    assert some.unseen == {0: 0, 50: 208}  # of 263 that were read before
    for session in some, every:
        session.rewind(90)
        session.reorder([0, 0, 0])
    for place in range(100, 250):
        part = np.repeat(text[:, place, None], 3, axis=0)
        assert some.forward(part) == near(every.forward(part), abs=1e-5)


@pytest.mark.parametrize("windows", [[50, 50], [50, 0]])
def test_rows_of_other_lengths_see_their_own_windows(windows: list[int], sessions: Callable[..., Sessions]) -> None:
    some, every = sessions("int4", windows)
    text, lengths, batches = tokens(3), (90, 130, 210), []
    for session in some, every:
        batch = session.open_batch()
        assert batch
        for row, length in enumerate(lengths):
            session.rewind(0)
            session.forward(text[row : row + 1, :length])
            found = session.export(0)
            assert found
            batch.join(found, length)
        batches.append(batch)
    for place in range(80):
        part = text[:, -1 - place, None]
        assert batches[0].forward(part) == near(batches[1].forward(part), abs=1e-4)


@pytest.mark.parametrize("case", WINDOWED)
def test_each_layer_is_shown_what_it_sees(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the logits that transformers computed, also where some layers see all."""
    monkeypatch.setattr(sliding, "STRIDE", 1)
    opened, (tokens, logits) = open_case(case, "onnx", tmp_path), golden(case)
    session = opened.session if isinstance(opened, SlidingSession | RecurrentSession) else opened
    assert isinstance(session, Session)
    for start, end in (0, 3), (3, 11), (11, 12), *((place, place + 1) for place in range(12, tokens.shape[1])):
        found = session.forward(tokens[:1, start:end], end - start)
        assert found == near(logits[:1, start:end], abs=TOLERANCE)
    seen = open_golden(case)[0].layers
    assert session.unseen == {0: 0} | {a.window: tokens.shape[1] - a.window for a in seen if a.window}


@pytest.mark.parametrize("case", ["gpt2", "gpt_neox"])
def test_a_window_of_bytes_gives_what_all_of_them_give(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sliding, "STRIDE", 4)
    decoder, weights = open_golden(case)
    decoder = replace(decoder, layers=tuple(replace(layer, window=10) for layer in decoder.layers))
    lowering.lower(decoder, Rounded(weights, PRECISIONS["int8"]), tmp_path, "int8")
    some, every = Session(tmp_path), Session(tmp_path)
    show_everything(every)
    for session in some, every:
        session.use_int8_from(8)
    for token in np.random.default_rng(0).integers(0, decoder.vocab_size, decoder.context_length):
        assert some.forward(np.array([[token]])) == near(every.forward(np.array([[token]])), abs=1e-3)
    assert some.held == "bytes_" and some.unseen[10] > 40


def test_a_layer_that_sees_everything_is_shown_everything(checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    convert(checkpoint(max_position_embeddings=LONG), tmp_path, backend="onnx", precision="f32")
    loaded = backends.get("onnx").load(tmp_path, device="cpu")
    assert isinstance(loaded, Session) and not any(loaded.windows)
