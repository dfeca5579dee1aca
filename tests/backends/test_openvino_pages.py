"""OpenVINO's caches in pages: what rows share, what they write, and that it gives what a whole cache gives."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import BackendError
from model_store.convert import open_checkpoint
from support.arrays import near
from support.checkpoints import MakeCheckpoint
from support.golden_logits import GOLDEN, golden
from support.openvino_models import compiled, kinds, lower

pytest.importorskip("openvino", reason="OpenVINO has no package for this machine")

from backends.openvino import runtime
from backends.openvino.paged import FIRST_PAGES, PagedBatch, PagedSession
from backends.openvino.session import StatefulSession

LONG = 300
"""Tokens of a context that needs more pages than a new cache has."""
Sessions = tuple[PagedSession, StatefulSession]


@pytest.fixture
def sessions(checkpoint: MakeCheckpoint, tmp_path: Path) -> Callable[..., Sessions]:
    """The same model with pages and with whole caches."""

    def load(precision: str = "f32", **config: object) -> Sessions:
        made = checkpoint(max_position_embeddings=LONG, **config)
        folder = tmp_path / precision
        folder.mkdir()
        lower(made, folder, precision)
        return PagedSession(folder, "CPU"), StatefulSession(folder, "CPU")

    return load


def tokens(rows: int, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 320, (rows, count))


def test_all_devices_but_the_processor_and_attention_with_softcap_or_an_encoder_keep_whole_caches(
    tmp_path: Path,
) -> None:
    backend = backends.get("openvino")
    for case, kind in ("llama", PagedSession), ("gemma2", StatefulSession):
        assert type(backend.load(lower(GOLDEN / case, tmp_path), device="cpu")) is kind
    answers = GOLDEN.with_name("golden_answers") / "t5"
    assert type(backend.load(lower(answers, tmp_path), device="cpu")) is StatefulSession


@pytest.mark.parametrize(("precision", "able"), [("int8", True), ("int8", False), ("f32", True)])
def test_where_there_is_a_choice_of_types_float32_can_be_taken(
    precision: str, able: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lower(GOLDEN / "llama", tmp_path, precision)
    monkeypatch.setattr(runtime.runtime(), "get_property", lambda *_: ["FP32", "BF16"] if able else ["FP32"])
    chosen = backends.list_types("openvino", folder, device="cpu")
    assert chosen == (["bf16", "f32"] if able and precision == "int8" else [""])
    assert all(
        backends.list_types(*other, device=device) == [""]
        for other, device in (
            (("openvino", folder), "gpu"),
            (("onnx", folder), "cpu"),
        )
    )
    for kind in reversed(chosen):
        backends.compute_in("openvino", folder, kind)
        assert (folder / runtime.IN_FLOAT32).exists() == (kind == "f32")
        computed = compiled(PagedSession(folder, "CPU")).get_property("INFERENCE_PRECISION_HINT").get_type_name()
        assert computed == "f32" or kind != "f32"


@pytest.mark.parametrize("case", ["gpt2", "llama", "bloom", "mistral", "gemma3_text"])
def test_nothing_is_left_of_whole_caches(case: str, tmp_path: Path) -> None:
    session = PagedSession(lower(GOLDEN / case, tmp_path), "CPU")
    found = kinds(session)
    layers = open_checkpoint(GOLDEN / case)[2].layers
    rotated = 2 * sum(layer.rope is not None for layer in layers)
    assert found["PagedAttention"] == len(layers)
    assert found["RoPE"] == found["Transpose"] == rotated
    assert found["Concatenation"] == len({layer.rope for layer in layers if layer.rope})
    assert found["ReadValue"] + found["Subgraph"] + found["Softmax"] == 0


WINDOWED = dict(model_type="mistral", sliding_window=50)
MIXED = dict(model_type="ministral", sliding_window=50, layer_types=["sliding_attention", "full_attention"])


@pytest.mark.parametrize("config", [{}, WINDOWED, MIXED])
def test_pages_give_what_a_whole_cache_gives(config: dict[str, object], sessions: Callable[..., Sessions]) -> None:
    paged, whole = sessions(**config)
    text = tokens(2, LONG)
    start = 0
    for count, last in (1, 1), (30, 2), (1, 1), (1, 1), (100, 40), (130, 1), (37, 37):
        part = text[:, start : start + count]
        assert paged.forward(part, last) == near(whole.forward(part, last), abs=1e-4)
        start += count
    assert start == paged.length == LONG
    assert paged.pages.count * paged.page >= 2 * LONG > FIRST_PAGES * paged.page


@pytest.mark.parametrize(("config", "windows"), [(WINDOWED, {50}), (MIXED, {0, 50})])
def test_rows_of_other_lengths_see_their_own_windows(
    config: dict[str, object], windows: set[int], sessions: Callable[..., Sessions]
) -> None:
    paged, whole = sessions(**config)
    batch, text, lengths = paged.open_batch(), tokens(3, LONG), (40, 130, 210)
    assert isinstance(batch, PagedBatch) and paged.windows == windows
    for row, length in enumerate(lengths):
        paged.rewind(0)
        paged.forward(text[row : row + 1, :length])
        found = paged.export(0)
        assert found
        batch.join(found, length)
    after = np.concatenate([batch.forward(text[:, -step, None]).copy() for step in range(40, 0, -1)], axis=1)
    for row, length in enumerate(lengths):
        whole.rewind(0)
        whole.forward(text[row : row + 1, :length])
        assert after[row : row + 1] == near(whole.forward(text[row : row + 1, -40:], 40), abs=1e-4)
    some, every = (len(batch.show(np.array(batch.lengths), 1, window)[1]) for window in (50, 0))
    assert some < every / 1.5


def test_rows_share_pages_until_one_writes_there(sessions: Callable[..., Sessions]) -> None:
    paged, whole = sessions()
    for session in paged, whole:
        session.forward(tokens(1, 70))
        session.reorder([0, 0, 0])
        session.forward(tokens(3, 2))
    first, *others = paged.rows
    assert all(row[:2] == first[:2] for row in others)
    assert len({row[2] for row in paged.rows}) == 3
    for parents, seed in ([2, 1, 1, 0], 1), ([3, 3], 2), ([1, 0], 3):
        for session in paged, whole:
            session.reorder(parents)
        step = tokens(len(parents), 25, seed)
        assert paged.forward(step, 3) == near(whole.forward(step, 3), abs=1e-4)


def test_what_is_written_after_a_rewind_reaches_no_other_row(sessions: Callable[..., Sessions]) -> None:
    paged, whole = sessions()
    for session in paged, whole:
        session.forward(tokens(1, 90))
        session.reorder([0, 0])
        session.rewind(40)
        session.forward(tokens(2, 60, 1))
        session.rewind(45)
        session.reorder([1])
    step = tokens(1, 30, 2)
    assert paged.forward(step, 30) == near(whole.forward(step, 30), abs=1e-4)
    assert len(paged.rows[0]) == -(-75 // paged.page)


def test_a_new_text_takes_the_pages_of_the_old_one(sessions: Callable[..., Sessions]) -> None:
    paged, _ = sessions()
    for seed in range(5):
        paged.rewind(0)
        paged.forward(tokens(1, 200, seed))
    assert paged.pages.count == FIRST_PAGES


@pytest.mark.parametrize(("precision", "held"), [("f32", 4), ("f16", 2), ("int8", 2)])
def test_pages_of_rounded_numbers_are_as_exact_as_a_whole_cache(
    precision: str, held: int, checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    made = checkpoint()
    exact = StatefulSession(lower(made, tmp_path), "CPU")
    folder = tmp_path / precision
    folder.mkdir()
    paged, whole = PagedSession(lower(made, folder, precision), "CPU"), StatefulSession(folder, "CPU")
    assert {cache.itemsize for cache in paged.pages.caches.values()} == {held}
    text = tokens(1, 60)
    errors = []
    for start in range(0, 60, 12):
        part = text[:, start : start + 12]
        expected = exact.forward(part, 12).copy()
        errors.append([((session.forward(part, 12) - expected) ** 2).mean() for session in (paged, whole)])
    by_pages, by_whole = np.sqrt(np.mean(errors, axis=0))
    assert by_pages < max(1.3 * by_whole, 1e-4)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what of a file is in memory")
def test_weights_that_were_packed_take_memory_once(tmp_path: Path) -> None:
    session = PagedSession(lower(GOLDEN / "llama", tmp_path), "CPU")
    maps = Path("/proc/self/smaps").read_text().split(str(tmp_path / "model.bin"))[1:]
    assert maps and all(re.search(r"^Rss:\s+0 kB$", after, re.MULTILINE) for after in maps)
    tokens, logits = golden("llama")
    assert session.forward(tokens[:1, :8]) == near(logits[:1, 7:8], abs=1e-4)


def test_after_a_failure_the_session_can_begin_anew(tmp_path: Path) -> None:
    session = PagedSession(lower(GOLDEN / "gpt2", tmp_path), "CPU")
    text, logits = golden("gpt2")
    with pytest.raises(BackendError, match="OpenVINO failed: "):
        session.forward(np.zeros((1, 2), np.float32))
    session.forward(text[:2, :5])
    with pytest.raises(BackendError, match="OpenVINO failed: "):
        session.forward(np.zeros((2, 2), np.float32))
    assert session.forward(text[:2, 5:7]) == near(logits[:2, 6:7], abs=1e-4)
    session.rewind(0)
    assert session.forward(text[:1, :6]) == near(logits[:1, 5:6], abs=1e-4)
