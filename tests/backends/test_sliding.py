"""Sessions whose layers with windows let go of what they see no more: whatever is done, the logits stay right."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import Session, sliding
from backends.decoder import Decoder, Weights
from backends.onnx import caches
from backends.onnx import session as onnx
from backends.reference import Session as ReferenceSession
from backends.sliding import BEGIN, Held, SlidingSession, hidden
from chatapp.generation.prompt_cache import PromptCache
from support.any_order import read_and_take_back
from support.arrays import near
from support.golden_logits import open_golden

WINDOW, CONTEXT = 20, 900
Made = Callable[[str, str], tuple[Path, SlidingSession]]
BACKENDS = ["onnx", *(["openvino"] if find_spec("openvino") else [])]


def windowed(case: str, window: int, context: int) -> tuple[Decoder, Weights]:
    """A golden model whose windows are this wide."""
    decoder, weights = open_golden(case)
    layers = tuple(replace(a, window=window if a.window else 0) for a in decoder.layers)
    return replace(decoder, layers=layers, context_length=context), dict(weights)


def lowered(model: tuple[Decoder, Weights], folder: Path, backend: str = "onnx") -> SlidingSession:
    backends.get(backend).lower(*model, folder, precision="f32")
    session = backends.get(backend).load(folder, device="cpu")
    assert isinstance(session, SlidingSession)
    return session


def let_everything_be_held(session: Session) -> None:
    assert isinstance(session, SlidingSession)
    session.session.sliding = False  # type: ignore[attr-defined]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few tokens are held, and the others spoiled at once: pages of memory are larger than these caches."""
    for name, value in dict(STRIDE=32, RECENT=64, APART=128, MOST=3).items():
        monkeypatch.setattr(sliding, name, value)

    def spoil(part: np.ndarray) -> None:
        part[:] = 100

    monkeypatch.setattr(caches, "give_back", spoil)
    if len(BACKENDS) > 1:
        monkeypatch.setattr("backends.openvino.paged.give_back", spoil)


@pytest.fixture(params=["gemma3_text", "gpt_oss"])
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(case: str) -> tuple[Decoder, Weights]:
    return windowed(case, WINDOW, CONTEXT)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Each model lowered once for a backend, and a session of it that holds everything."""

    @cache
    def make(case: str, backend: str) -> tuple[Path, SlidingSession]:
        whole = lowered(windowed(case, WINDOW, CONTEXT), folder := tmp_path_factory.mktemp("lowered"), backend)
        let_everything_be_held(whole)
        return folder, whole

    return make


@pytest.fixture
def session(case: str, backend: str, made: Made, small: None) -> SlidingSession:
    session = backends.get(backend).load(made(case, backend)[0], device="cpu")
    assert isinstance(session, SlidingSession)
    return session


Says = Callable[[np.ndarray], np.ndarray]


@pytest.fixture
def expected(case: str, backend: str, made: Made, session: SlidingSession) -> Says:
    """What a session says of rows, (rows, 1, vocab), that holds everything and goes on from nothing else."""
    _, whole = made(case, backend)

    def read(rows: np.ndarray) -> np.ndarray:
        whole.rewind(0)
        return whole.forward(rows)

    return read


def test_what_is_held_lets_a_text_go_on_from_each_of_its_places() -> None:
    held, given_back = Held(600), set[int]()
    for length in range(0, 60_000, 100):
        given_back |= {start for part in held.advance(length) for start in range(part.start, part.stop)}
        for place in (*held.places, length, max(length - sliding.RECENT, 0)):
            assert held.nearest(place) == place
            assert given_back.isdisjoint(range(hidden(place, 600), min(place, length)))
        assert [*given_back] == [] or length > 600 + sliding.RECENT
    assert len(held.places) == sliding.MOST
    assert sum(part.stop - part.start for part in held.parts(length)) == length - len(given_back) < 9_000
    kept = sorted(given_back ^ {*range(length)})
    assert len([gap for gap in pairwise(kept) if gap[1] > gap[0] + 1]) == sliding.MOST


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_reading_and_taking_back(
    model: tuple[Decoder, Weights], session: SlidingSession, expected: Says, seed: int
) -> None:
    read_and_take_back(session, expected, model[0].vocab_size, seed, parts=(50, 160))


def test_a_text_goes_back_to_the_nearest_place(
    model: tuple[Decoder, Weights], session: SlidingSession, expected: Says
) -> None:
    tokens = np.random.default_rng(0).integers(0, model[0].vocab_size, (1, CONTEXT))
    for start in range(0, CONTEXT, 50):
        session.forward(tokens[:, start : start + 50])
    places = [0, *session.session.holds.places]
    assert len(places) == 1 + sliding.MOST and places[-1] == 768
    for length in CONTEXT - 10, 800, 740, 260, 20:
        session.rewind(length)
        assert session.session.length == (length if length > 800 else max(one for one in places if one <= length))
        logits = session.forward(tokens[:, length : length + 1])
        assert logits == near(expected(tokens[:, : length + 1]), abs=2e-4)
        session.reorder([0, 0])
        logits = session.forward(np.repeat(tokens[:, length + 1 : length + 2], 2, axis=0))
        assert logits == near(np.repeat(expected(tokens[:, : length + 2]), 2, axis=0), abs=2e-4)
        session.reorder([1])


@pytest.mark.parametrize("shared", [300, 275, 150])
def test_what_was_exported_is_put_back_or_read_again(
    model: tuple[Decoder, Weights], session: SlidingSession, expected: Says, shared: int
) -> None:
    tokens = np.random.default_rng(0).integers(0, model[0].vocab_size, (2, 301))
    session.forward(tokens[:, :300])
    exported = session.export(1)
    assert exported is not None and exported[BEGIN] == 192
    sizes = {values.size for name, values in exported.items() if name != BEGIN}
    assert len(sizes) == 2 and max(sizes) > 2 * min(sizes)
    found = {name: values.copy() for name, values in exported.items()}
    session.rewind(0)
    session.forward(tokens[:1, :280])
    assert session.serves(found, shared) == (shared > 211)
    session.restore(tokens[1, :shared].tolist(), found)
    assert session.session.length == (shared if shared > 211 else 0)
    for length in shared, 100:
        session.rewind(length)
        logits = session.forward(tokens[1:, length : length + 1])
        assert logits == near(expected(tokens[1:, : length + 1]), abs=2e-4)


def test_a_prompt_that_differs_early_is_read_from_the_nearest_place(session: SlidingSession, expected: Says) -> None:
    cache, chance, prompt, places = PromptCache(session), np.random.default_rng(0), list[int](), list[int]()
    for end, same in (500, 0), (700, 500), (790, 700), (780, 450), (800, 40):
        prompt = [*prompt[:same], *chance.integers(0, 90, end - same).tolist()]
        unread = cache.reuse(prompt)
        places.append(end - len(unread))
        logits = cache.read(unread, lambda: True)
        assert logits is not None and logits == near(expected(np.array([prompt])), abs=2e-4)
        cache.keep(prompt)
    assert places == [0, 500, 700, 384, 0]


def test_what_is_held_gives_what_the_reference_gives(model: tuple[Decoder, Weights], session: SlidingSession) -> None:
    tokens = np.random.default_rng(0).integers(0, model[0].vocab_size, (1, 200))
    for start in range(0, 200, 50):
        session.forward(tokens[:, start : start + 50])
    session.rewind(190)
    assert session.session.holds.begin > 60
    assert session.forward(tokens[:, 190:]) == near(ReferenceSession(*model).forward(tokens), abs=2e-4)


def test_rows_of_other_lengths_let_go_each_of_its_own(
    model: tuple[Decoder, Weights], session: SlidingSession, expected: Says
) -> None:
    chance = np.random.default_rng(0)
    batch, texts = session.open_batch(), list[list[int]]()
    assert batch
    for length in (30, 250, 110):
        text = chance.integers(0, model[0].vocab_size, length).tolist()
        session.rewind(0)
        session.forward(np.array([text]))
        found = session.export(0)
        assert found is not None
        batch.join(found, length)
        texts.append(text)
    for parents in ([0, 1, 2], [2, 1], [1, 1, 0, 0], [3, 1]):
        batch.reorder(parents)
        texts = [list(texts[parent]) for parent in parents]
        for _ in range(30):
            more = chance.integers(0, model[0].vocab_size, (len(texts), 1))
            texts = [[*text, *new] for text, new in zip(texts, more.tolist(), strict=True)]
            logits = batch.forward(more)
        for row, text in enumerate(texts):
            assert logits[row] == near(expected(np.array([text]))[0], abs=2e-4)
    found = batch.export(1)
    session.restore(texts[1], found)
    assert session.forward(np.array([[7]])) == near(expected(np.array([[*texts[1], 7]])), abs=2e-4)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere what is given back may still be read for a while")
def test_the_system_has_the_memory_of_what_is_let_go(tmp_path: Path) -> None:
    session = lowered(windowed("gemma3_text", WINDOW, 4096), tmp_path)
    tokens = np.random.default_rng(0).integers(0, 90, (1, 4000))
    for start in range(0, 4000, 250):
        session.forward(tokens[:, start : start + 250])
    inner, begin = session.session, hidden(4000, WINDOW) - sliding.RECENT
    assert isinstance(inner, onnx.Session) and inner.holds.begin == begin == 2816
    for name, values in inner.cache.items():
        windowed_layer = bool(inner.windows[caches.layer_of(name)])
        per_stride = [np.abs(values[0, 0, start : start + 256]).sum() for start in range(0, 4000 - 256, 256)]
        assert min(per_stride[begin // 256 :]) > 0
        emptied = [place for place, total in enumerate(per_stride) if not total]
        assert emptied == ([*range(7), 8, 9, 10] if windowed_layer else [])


def test_a_model_without_windows_has_nothing_to_let_go_of(tmp_path: Path) -> None:
    decoder, weights = open_golden("llama")
    backends.get("onnx").lower(decoder, weights, tmp_path, precision="f32")
    loaded: Session = backends.get("onnx").load(tmp_path, device="cpu")
    assert isinstance(loaded, onnx.Session) and not loaded.sliding
