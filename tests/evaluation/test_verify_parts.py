"""What verification compares: its prompts, the cut model, a part of a large one, and the reference."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends import BackendError, reference
from backends.decoder import Decoder, Weights
from chatapp.evaluation.verify.comparison import EXACT
from chatapp.evaluation.verify.cut import WINDOW, cut
from chatapp.evaluation.verify.prompts import LENGTH, PAST, Prompts, make_prompts
from chatapp.evaluation.verify.reference import Reference, compute, from_numpy, open_weights
from chatapp.evaluation.verify.verdict import Expected, Verdict, compare, verify, verify_part
from model_store import Store
from support.arrays import near
from support.golden_models import Faulty, Make

# Prompts


def test_prompts_are_fixed_and_fit(store: Store) -> None:
    model = store.get("builtin")
    decoder, _ = open_weights(model)
    first, again = make_prompts(model, decoder), make_prompts(model, decoder)
    assert len(first) == 1
    assert first[0].tokens.shape == (6, LENGTH)
    assert (first[0].tokens == again[0].tokens).all()
    assert first[0].tokens.min() >= 0 and first[0].tokens.max() < decoder.vocab_size
    short = make_prompts(model, replace(decoder, context_length=16, vocab_size=50))[0].tokens
    assert short.shape == (6, 16)
    assert short.max() < 50


def test_a_long_prompt_goes_past_the_window_where_it_is_affordable(store: Store) -> None:
    model = store.get("builtin")
    decoder, _ = open_weights(model)

    def windowed(window: int) -> Decoder:
        return replace(decoder, layers=(replace(decoder.layers[0], window=window), *decoder.layers[1:]))

    past = make_prompts(model, windowed(256))[1]
    assert past.tokens.shape == (1, 256 + PAST)
    assert past.first < 256 < 256 + PAST
    assert len(make_prompts(model, windowed(8))) == 1  # the ordinary ones go past it
    assert len(make_prompts(model, windowed(1020))) == 1  # the context ends before
    assert len(make_prompts(replace(model, parameters=7_000_000_000), windowed(512))) == 1  # it would take too long


def test_what_stands_past_a_window_is_compared(store: Store, golden: Make) -> None:
    decoder, read = open_weights(golden("gpt2"))
    weights = dict(read)
    layers = tuple(replace(layer, window=52) for layer in decoder.layers)
    decoder, wrong = replace(decoder, layers=layers), decoder
    prompts = (Prompts(np.random.default_rng(0).integers(0, 96, (1, 62)), 40),)
    expected = [Expected("original", compute(decoder, weights, prompts), EXACT.kept)]
    assert all(one.passed for one in compare(reference.Session(decoder, weights), prompts, expected))
    found = compare(reference.Session(wrong, weights), prompts, expected)
    differing = [one.first_difference for one in found if not one.passed]
    assert differing


# The cut


def test_the_cut_has_a_layer_of_each_kind_and_computes_like_them(golden: Make) -> None:
    decoder, weights = open_weights(golden("gemma3_text"))
    decoder = replace(decoder, layers=tuple(replace(layer, window=layer.window and 40) for layer in decoder.layers))
    small, kept = cut(decoder, weights)
    assert [layer.window for layer in small.layers] == [WINDOW, 0]
    assert small.vocab_size == decoder.vocab_size
    assert kept["layers.1.qkv_proj"] is not kept["layers.0.qkv_proj"]
    assert (np.asarray(kept["layers.1.qkv_proj"].values) == weights["layers.1.qkv_proj"].values).all()
    assert "layers.2.qkv_proj" not in kept
    assert len(kept) == len(list(kept)) < len(weights)


def test_the_cut_of_a_large_vocabulary_is_small(store: Store) -> None:
    decoder, weights = open_weights(store.get("builtin"))
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
    decoder, weights = open_weights(golden("t5-flan"))
    small, kept = cut(decoder, weights)
    assert (len(small.layers), len(small.encoder)) == (1, 1) != (len(decoder.layers), len(decoder.encoder))
    assert {name for name in kept if ".1." in name} == set() and "encoder.layers.0.qkv_proj" in kept


def test_the_cut_of_layers_that_share_keys_has_those_keys_and_their_embeddings(golden: Make) -> None:
    decoder, weights = open_weights(golden("gemma4_text"))
    small, kept = cut(decoder, weights)
    assert [layer.kv_layer for layer in small.layers] == [None, None, 0, 1]
    whole = np.asarray(weights["per_layer_embedding"].values).reshape(96, 6, 16)
    assert (np.asarray(kept["per_layer_embedding"].values).reshape(96, 4, 16) == whole[:, [0, 1, 4, 5]]).all()
    tokens = np.random.default_rng(0).integers(0, 96, (1, 12))
    assert np.isfinite(reference.Session(small, kept).forward(tokens, last=12)).all()


# A part of a large model


@pytest.mark.parametrize("precision", ["f32", "int8", "int4"])
@pytest.mark.parametrize("case", ["gpt2", "gemma2", "gemma4_text", "t5"])
def test_of_a_large_model_a_part_is_compared(store: Store, golden: Make, case: str, precision: str) -> None:
    model = golden(case)
    variant, told = store.lowered(model, "onnx", precision), []
    verdict = verify_part(
        store, model, variant, device="cpu", on_progress=lambda step, share: told.append((step, share))
    )
    assert verdict.passed, verdict.failures
    assert [step for step, _ in told] == ["comparing a part"] * (1 if precision == "f32" else 2)
    assert {comparison.against.partition(",")[0] for comparison in verdict.comparisons} == {"f32", precision}
    assert "only part of the model was compared; to compare all of it: chatapp verify" in verdict.notes[0]
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
    decoder, weights = open_weights(model)
    prompts = make_prompts(model, decoder)
    whole = compute(decoder, weights, prompts)
    monkeypatch.setattr(reference, "PART", 1000)
    assert compute(decoder, weights, prompts)[0] == near(whole[0], abs=1e-4)


def test_a_verdict_is_a_verdict_on_one_device(store: Store, golden: Make) -> None:
    model = golden("gpt2")
    verdict = verify(store, model, store.lowered(model, "onnx", "f32"), device="cpu")
    assert isinstance(verdict, Verdict)
    assert (verdict.backend, verdict.device, verdict.precision) == ("onnx", "cpu", "f32")
    assert verdict.reference == "NumPy decoder"
    assert verdict.date[4] == "-" and verdict.date.endswith("+00:00")
    assert verdict.versions.keys() == {"chatapp", "onnx"}
