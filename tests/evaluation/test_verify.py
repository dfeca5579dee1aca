"""Verification passes what computes right, at every precision, and fails what does not."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import backends
from backends import Top, reference
from backends.decoder import Decoder, Weight, Weights
from backends.onnx.int8_cache import LONG, NEVER, Scales
from backends.onnx.session import Session as OnnxSession
from chatapp.evaluation.verify.comparison import EXACT, Tally, find_tolerance
from chatapp.evaluation.verify.prompts import make_prompts
from chatapp.evaluation.verify.reference import compute, from_numpy, open_weights
from chatapp.evaluation.verify.verdict import Expected, check_int8_cache, compare, verify
from model_store import Store
from support.golden_models import PRECISIONS, Fault, Faulty, Make

# What is right passes


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("case", ["bloom", "gemma2", "gpt2", "gpt_neo", "llama", "t5"])
def test_what_computes_right_passes(store: Store, golden: Make, case: str, precision: str) -> None:
    model = golden(case)
    verdict = verify(store, model, store.lowered(model, "onnx", precision))
    assert verdict.passed, verdict.failures
    assert not verdict.notes
    steps = {comparison.what for comparison in verdict.comparisons}
    assert steps >= {"prefill", "decode", "batch"}
    assert ("graph prefill" in steps) == (precision != "f32")


def test_the_built_in_model_passes_and_keeps_nearly_all_it_knows(store: Store) -> None:
    model = store.get("builtin")
    verdict = verify(store, model, store.lowered(model, "onnx", "int8"))
    assert verdict.passed
    original = [one for one in verdict.comparisons if one.against == "original weights"]
    assert all(one.lost is not None and one.lost < 0.01 for one in original)
    assert all(one.top1 is not None and one.top1 > 0.8 for one in original)


def test_caches_of_bytes_are_allowed_when_they_were_compared(store: Store, golden: Make) -> None:
    variant = store.lowered(model := golden("gpt2"), "onnx", "int8")
    verdict = verify(store, model, variant)
    [found] = [one for one in verdict.comparisons if one.what == "bytes decode"]
    assert found.passed and found.mean_kl and found.positions > 100
    session = backends.get("onnx").load(variant.folder, device="cpu")
    assert isinstance(session, OnnxSession) and session.long_from == LONG


def test_caches_of_bytes_that_fail_are_not_used_and_the_rest_is(store: Store, golden: Make) -> None:
    class Coarse(Scales):
        def round(self, name: str, floats: np.ndarray) -> np.ndarray:
            self.values[name][:] = np.abs(floats).max() / 2
            return np.rint(floats / self.values[name]).astype(np.int8)

    variant = store.lowered(model := golden("gpt2"), "onnx", "int8")
    session = OnnxSession(variant.folder)
    coarse = Coarse({})
    coarse.values, session.scales = session.scales.values, coarse
    found = check_int8_cache(session, "int8", from_numpy(model, "int8"))
    assert found and not found.passed and session.long_from == NEVER
    assert verify(store, model, variant).passed


# What is wrong fails


def every_layer(change: Callable[..., dict[str, object]]) -> Fault:
    """A fault in each layer's attention: the fields that `change` gives."""

    def fault(decoder: Decoder) -> Decoder:
        layers = (replace(layer, **change(layer)) for layer in decoder.layers)  # type: ignore[arg-type]
        return replace(decoder, layers=tuple(layers))

    return fault


def turned(by: float) -> Fault:
    return every_layer(
        lambda a: {
            "rope": replace(a.rope, inverse_frequencies=tuple(f * by for f in a.rope.inverse_frequencies)),
        }
    )


FAULTS: dict[str, tuple[str, Fault]] = {
    "the other GELU": ("gpt2", lambda decoder: replace(decoder, activation="gelu")),
    "another activation": ("gpt2", lambda decoder: replace(decoder, activation="relu")),
    "another epsilon": ("llama", lambda decoder: replace(decoder, epsilon=10 * decoder.epsilon)),
    "rope 1 % too fast": ("llama", turned(1.01)),
    "no window": ("gemma2", every_layer(lambda a: {"window": 0})),
    "a window one too long": ("gpt_neo", every_layer(lambda a: {"window": a.window and a.window + 1})),
    "no cap of scores": ("gemma2", every_layer(lambda a: {"softcap": 0.0})),
    "no cap of logits": ("gemma2", lambda decoder: replace(decoder, logit_softcap=0.0)),
    "slopes 5 % too steep": ("bloom", every_layer(lambda a: {"alibi": tuple(1.05 * slope for slope in a.alibi)})),
    "another start": ("t5", lambda decoder: replace(decoder, start_token=decoder.start_token + 1)),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_graph_fails_at_every_precision(
    store: Store, golden: Make, install: Callable[[Faulty], None], name: str, precision: str
) -> None:
    case, fault = FAULTS[name]
    install(Faulty(fault))
    model = golden(case)
    verdict = verify(store, model, store.lowered(model, "faulty", precision))
    assert not verdict.passed
    assert verdict.failures


class Shifted(dict[str, Weight]):
    """Weights whose table of positions is off by one."""

    def __init__(self, weights: Weights):
        table = weights["position_embedding"]
        shifted = Weight(table.name, np.roll(np.asarray(table.values), 1, axis=0))
        super().__init__({**{name: weights[name] for name in weights}, "position_embedding": shifted})


@pytest.mark.parametrize("precision", PRECISIONS)
def test_positions_off_by_one_fail(
    store: Store, golden: Make, install: Callable[[Faulty], None], precision: str
) -> None:
    install(Faulty(lambda decoder: decoder, Shifted))
    model = golden("gpt2")
    verdict = verify(store, model, store.lowered(model, "faulty", precision))
    assert {one.what for one in verdict.comparisons if not one.passed} >= {"prefill", "decode", "batch"}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_another_graph_in_the_place_of_the_variant_fails(store: Store, golden: Make, precision: str) -> None:
    model = golden("gemma2")
    variant = store.lowered(model, "onnx", precision)
    decoder, weights = open_weights(model)
    wrong = every_layer(lambda a: {"window": 0})(decoder)
    backends.get("onnx").lower(wrong, weights, variant.folder, precision=precision)
    verdict = verify(store, model, variant)
    assert not verdict.passed
    assert all(one.passed for one in verdict.comparisons if one.what.startswith("graph"))


# A session that goes wrong in one way only


class Session(reference.Session):
    """The NumPy decoder, whose subclasses go wrong."""


class NotANumber(Session):
    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        logits = super().forward(tokens, last)
        if self.length == 40 and self.batch == 1:
            logits[:, -1, 3] = np.nan
        return logits


class WrongOrder(Session):
    def reorder(self, parents: list[int]) -> None:  # type: ignore[override]  # any sequence will do
        super().reorder(sorted(parents))


class ForgetsTooLittle(Session):
    def rewind(self, length: int) -> None:
        super().rewind(length + 1 if length else 0)


class SecondBest(Session):
    @property
    def top(self) -> Top | None:
        order = np.argsort(-self.logits, axis=-1)[..., 1:4]
        return Top(order, np.take_along_axis(self.logits, order, axis=-1))

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        self.logits = super().forward(tokens, last)
        return self.logits


class LateToken(Session):
    """A decode step sees the token before."""

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        given = tokens if tokens.shape[1] > 1 or not self.length else np.full_like(tokens, 7)
        return super().forward(given, last)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Session, set()),
        (NotANumber, {"decode"}),
        (WrongOrder, {"batch"}),
        (ForgetsTooLittle, {"batch"}),
        (SecondBest, {"prefill", "decode", "batch"}),
        (LateToken, {"decode", "batch"}),
    ],
)
def test_each_way_of_running_is_compared_by_itself(golden: Make, kind: type[Session], wrong: set[str]) -> None:
    model = golden("gpt2")
    decoder, weights = open_weights(model)
    prompts = make_prompts(model, decoder)
    expected = Expected("original", compute(decoder, weights, prompts), EXACT.kept)
    found = compare(kind(decoder, dict(weights)), prompts, [expected])
    assert {comparison.what for comparison in found if not comparison.passed} == wrong
    assert all(comparison.failures for comparison in found if not comparison.passed)


# What is measured


def test_figures_of_a_comparison_are_those_of_the_textbook() -> None:
    tally = Tally("prefill", "original", {"lost": 0.5})
    expected = np.log(np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]))
    tally.add(expected, np.log(np.array([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]])) + 7, prompt=0, start=4)
    tally.add(expected[:1], np.log(np.array([[0.25, 0.25, 0.5]])) + 7, prompt=1, start=9)
    found = tally.comparison
    uniform = 0.5 * np.log(1.5) + 0.5 * np.log(0.75)
    other = 0.5 * np.log(2) + 0.25 * np.log(0.5)
    assert found.positions == 3
    assert found.mean_kl == pytest.approx((uniform + other) / 3)
    assert found.max_kl == pytest.approx(other)
    assert found.lost == pytest.approx((uniform + other) / 3 / uniform)
    assert found.max_error == pytest.approx(7 + np.log(2))
    assert found.peak == pytest.approx((7 + np.log(2)) / expected[0].std())
    assert found.top1 == pytest.approx(2 / 3)
    difference = found.first_difference
    assert difference and (difference.prompt, difference.position) == (2, 10)
    assert (difference.expected, difference.found) == (0, 2)
    assert difference.margin == pytest.approx(np.log(2))
    assert found.broken == ["lost"]


def test_nothing_finite_is_a_failure_with_no_figures() -> None:
    tally = Tally("decode", "original", {"peak": 1e-4})
    tally.add(np.zeros((2, 3)), np.full((2, 3), np.inf), prompt=0, start=0)
    found = tally.comparison
    assert (found.positions, found.nonfinite, found.max_error, found.mean_kl, found.top1) == (2, 2, None, None, None)
    assert not found.passed
    assert found.failures == ["decode, with original: 2 of 2 positions have logits that are not finite"]


def test_every_precision_has_a_tolerance_and_fewer_bits_no_smaller_one() -> None:
    from backends.quantize import PRECISIONS

    assert all(find_tolerance(name) for name in PRECISIONS)
    lost = [find_tolerance(name).kept.get("lost", 0.0) for name in ("f32", "f16", "int8", "mxfp6-e2m3", "int4-32")]
    assert lost == sorted(lost)
    assert find_tolerance("mx9") == find_tolerance("int8")
    assert find_tolerance("mxfp4") == find_tolerance("int4")
    assert find_tolerance("bf16").computed["error"] > find_tolerance("f16").computed["error"]
