"""Verification passes what computes right, at every precision, and fails what does not."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models

import backends
from backends import BackendError, Top, reference
from backends.decoder import Decoder, Weight, Weights
from chatapp.verify.comparison import Tally
from chatapp.verify.cut import WINDOW, cut
from chatapp.verify.prompts import LENGTH, PAST, Prompts, prompts_for
from chatapp.verify.reference import Reference, compute, decoder_and_weights, from_numpy
from chatapp.verify.tolerance import EXACT, tolerance
from chatapp.verify.verdict import Expected, Verdict, compare, verify, verify_part
from model_store import Store, StoredModel

GOLDEN = Path(__file__).parent / "golden"
GOLDEN_ANSWERS = Path(__file__).parent / "golden_answers"
PRECISIONS = ("f32", "int8", "int4")
Make = Callable[[str], StoredModel]


@pytest.fixture
def golden(store: Store, tmp_path: Path) -> Make:
    """The golden checkpoint of a name, with a tokenizer, as a model of the store."""

    def make(case: str) -> StoredModel:
        source = GOLDEN if (GOLDEN / case).is_dir() else GOLDEN_ANSWERS
        folder = Path(shutil.copytree(source / case, tmp_path / case))
        Tokenizer(models.WordLevel({"a": 0}, "a")).save(str(folder / "tokenizer.json"))
        return store.get(str(folder))

    return make


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


# What is wrong fails

Fault = Callable[[Decoder], Decoder]


def every_layer(change: Callable[..., dict[str, object]]) -> Fault:
    """A fault in each layer's attention: the fields that `change` gives."""

    def fault(decoder: Decoder) -> Decoder:
        layers = (replace(attention, **change(attention)) for attention in decoder.layers)  # type: ignore[arg-type]
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


class Faulty:
    """ONNX Runtime, lowering something else than it was given."""

    def __init__(self, fault: Fault, weights: Callable[[Weights], Weights] = lambda weights: weights):
        self.fault, self.weights = fault, weights

    def devices(self) -> list[str]:
        return backends.get("onnx").devices()

    def missing(self) -> str:
        return ""

    def signature(self) -> str:
        return "faulty"

    def lower(self, decoder: Decoder, weights: Weights, folder: Path, *, precision: str) -> None:
        backends.get("onnx").lower(self.fault(decoder), self.weights(weights), folder, precision=precision)

    def load(self, folder: Path, *, device: str) -> backends.Session:
        return backends.get("onnx").load(folder, device=device)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Faulty], None]:
    """Make a faulty backend known as `faulty`."""

    def do(faulty: Faulty) -> None:
        monkeypatch.setattr(backends, "NAMES", ("onnx", "faulty"))
        monkeypatch.setitem(sys.modules, "backends.faulty", faulty)

    return do


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
    decoder, weights = decoder_and_weights(model)
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
    def top(self) -> Top | None:  # type: ignore[override]  # the reference has none
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
    decoder, weights = decoder_and_weights(model)
    prompts = prompts_for(model, decoder)
    expected = Expected("original", compute(decoder, weights, prompts), EXACT.kept)
    found = compare(kind(decoder, weights), prompts, [expected])
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

    assert all(tolerance(name) for name in PRECISIONS)
    lost = [tolerance(name).kept.get("lost", 0.0) for name in ("f32", "f16", "int8", "mxfp6-e2m3", "int4-32")]
    assert lost == sorted(lost)
    assert tolerance("mx9") == tolerance("int8")
    assert tolerance("mxfp4") == tolerance("int4")
    assert tolerance("bf16").computed["error"] > tolerance("f16").computed["error"]


# Prompts


def test_prompts_are_fixed_and_fit(store: Store) -> None:
    model = store.get("builtin")
    decoder, _ = decoder_and_weights(model)
    first, again = prompts_for(model, decoder), prompts_for(model, decoder)
    assert len(first) == 1
    assert first[0].tokens.shape == (6, LENGTH)
    assert (first[0].tokens == again[0].tokens).all()
    assert first[0].tokens.min() >= 0 and first[0].tokens.max() < decoder.vocab_size
    short = prompts_for(model, replace(decoder, context_length=16, vocab_size=50))[0].tokens
    assert short.shape == (6, 16)
    assert short.max() < 50


def test_a_long_prompt_goes_past_the_window_where_it_is_affordable(store: Store) -> None:
    model = store.get("builtin")
    decoder, _ = decoder_and_weights(model)

    def windowed(window: int) -> Decoder:
        return replace(decoder, layers=(replace(decoder.layers[0], window=window), *decoder.layers[1:]))

    past = prompts_for(model, windowed(256))[1]
    assert past.tokens.shape == (1, 256 + PAST)
    assert past.first < 256 < 256 + PAST
    assert len(prompts_for(model, windowed(8))) == 1  # the ordinary ones go past it
    assert len(prompts_for(model, windowed(1020))) == 1  # the context ends before
    assert len(prompts_for(replace(model, parameters=7_000_000_000), windowed(512))) == 1  # it would take too long


def test_what_stands_past_a_window_is_compared(store: Store, golden: Make) -> None:
    model = golden("gpt2")
    decoder, weights = decoder_and_weights(model)
    layers = tuple(replace(attention, window=52) for attention in decoder.layers)
    decoder, wrong = replace(decoder, layers=layers), decoder
    prompts = (Prompts(np.random.default_rng(0).integers(0, 96, (1, 62)), 40),)
    expected = [Expected("original", compute(decoder, weights, prompts), EXACT.kept)]
    assert all(one.passed for one in compare(reference.Session(decoder, weights), prompts, expected))
    found = compare(reference.Session(wrong, weights), prompts, expected)
    differing = [one.first_difference for one in found if not one.passed]
    assert differing


# The cut


def test_the_cut_has_a_layer_of_each_kind_and_computes_like_them(golden: Make) -> None:
    decoder, weights = decoder_and_weights(golden("gemma3_text"))
    decoder = replace(decoder, layers=tuple(replace(a, window=a.window and 40) for a in decoder.layers))
    small, kept = cut(decoder, weights)
    assert [attention.window for attention in small.layers] == [WINDOW, 0]
    assert small.vocab_size == decoder.vocab_size
    assert kept["layers.1.qkv_proj"] is not kept["layers.0.qkv_proj"]
    assert (np.asarray(kept["layers.1.qkv_proj"].values) == weights["layers.1.qkv_proj"].values).all()
    assert "layers.2.qkv_proj" not in kept
    assert len(kept) == len(list(kept)) < len(weights)


def test_the_cut_of_a_large_vocabulary_is_small(store: Store) -> None:
    decoder, weights = decoder_and_weights(store.get("builtin"))
    small, kept = cut(decoder, weights)
    assert small.vocab_size == 1024 == len(np.asarray(kept["embedding"].values)) == len(kept["lm_head"].values)  # type: ignore[arg-type]
    assert len(small.layers) == 1


def test_a_backend_without_f32_says_that_the_graph_was_not_checked(
    store: Store, golden: Make, install: Callable[[Faulty], None]
) -> None:
    class OnlyRounded(Faulty):
        def lower(self, decoder: Decoder, weights: Weights, folder: Path, *, precision: str) -> None:
            if precision == "f32":
                raise BackendError("this device knows no float32")
            super().lower(decoder, weights, folder, precision=precision)

    install(OnlyRounded(lambda decoder: decoder))
    model = golden("gpt2")
    verdict = verify(store, model, store.lowered(model, "faulty", "int8"))
    assert verdict.passed
    assert verdict.notes == ("the graph could not be checked at f32: this device knows no float32",)


def test_of_an_encoder_decoder_both_are_cut(golden: Make) -> None:
    decoder, weights = decoder_and_weights(golden("t5-flan"))
    small, kept = cut(decoder, weights)
    assert (len(small.layers), len(small.encoder)) == (1, 1) != (len(decoder.layers), len(decoder.encoder))
    assert {name for name in kept if ".1." in name} == set() and "encoder.layers.0.qkv_proj" in kept


# A part of a large model


@pytest.mark.parametrize("precision", ["f32", "int8", "int4"])
@pytest.mark.parametrize("case", ["gpt2", "gemma2", "t5"])
def test_of_a_large_model_a_part_is_compared(store: Store, golden: Make, case: str, precision: str) -> None:
    model = golden(case)
    variant, told = store.lowered(model, "onnx", precision), []
    verdict = verify_part(
        store, model, variant, device="cpu", on_progress=lambda step, share: told.append((step, share))
    )
    assert verdict.passed, verdict.failures
    assert [step for step, _ in told] == ["comparing a part"] * (1 if precision == "f32" else 2)
    assert {comparison.against.partition(",")[0] for comparison in verdict.comparisons} == {"f32", precision}
    assert "only a part of the model was compared; for all of it: chatapp verify" in verdict.notes[0]
    assert store.get(model.name).variants[0].verdicts["cpu"]["notes"] == list(verdict.notes)


def test_a_wrong_graph_fails_in_a_part_too(store: Store, golden: Make, install: Callable[[Faulty], None]) -> None:
    install(Faulty(lambda decoder: replace(decoder, activation="relu")))
    model = golden("gpt2")
    verdict = verify_part(store, model, store.lowered(model, "faulty", "int8"), device="cpu")
    assert not verdict.passed


# The reference


def test_the_reference_reads_one_weight_at_a_time_and_tells_how_far_it_is(golden: Make) -> None:
    told: list[tuple[str, float]] = []
    reference = from_numpy(golden("llama"), "int8", lambda step, share: told.append((step, share)))
    assert isinstance(reference, Reference)
    assert {step for step, _ in told} == {"reference", "reference at int8"}
    shares = [share for step, share in told if step == "reference"]
    assert shares == sorted(shares)


def test_a_matrix_is_multiplied_in_parts(golden: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = golden("llama")
    decoder, weights = decoder_and_weights(model)
    prompts = prompts_for(model, decoder)
    whole = compute(decoder, weights, prompts)
    monkeypatch.setattr(reference, "PART", 1000)
    assert compute(decoder, weights, prompts)[0] == pytest.approx(whole[0], abs=1e-4)


def test_a_verdict_is_a_verdict_on_one_device(store: Store, golden: Make) -> None:
    model = golden("gpt2")
    verdict = verify(store, model, store.lowered(model, "onnx", "f32"), device="cpu")
    assert isinstance(verdict, Verdict)
    assert (verdict.backend, verdict.device, verdict.precision) == ("onnx", "cpu", "f32")
    assert verdict.reference == "NumPy decoder"
    assert verdict.date[4] == "-" and verdict.date.endswith("+00:00")
    assert verdict.versions.keys() == {"chatapp", "onnx"}
