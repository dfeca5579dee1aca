"""Core ML off the Mac: every package is read back from the disk and interpreted, and must agree with the reference."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends import BackendError, ContextExceeded
from backends.coreml import trial
from backends.coreml.inputs import Package
from backends.coreml.packages import ALL, lower, tokens_at_once
from backends.coreml.runtime import Functions
from backends.coreml.session import Session
from backends.decoder import Decoder
from backends.quantize import PRECISIONS, Rounded
from backends.reference import Session as ReferenceSession
from support.coreml_cases import (
    ANSWERS,
    CASES,
    CHUNK,
    CLOSE,
    EXACT,
    GOLDEN,
    SLICE,
    Lowered,
    distance,
    interpreted,
    open_case,
    reference,
    tokens_of,
)
from support.coreml_interpreter import Interpreter, stored
from support.golden_logits import every_feature, every_pair_of_features


@pytest.mark.parametrize("case", every_pair_of_features(CASES))
class TestEveryPairOfFeatures:
    def test_prefill_in_chunks_then_steps(self, case: str, lowered: Lowered) -> None:
        session, tokens = interpreted(lowered(case)), tokens_of(case)
        expected = reference(case).forward(tokens[:1], last=24)
        found = [session.forward(tokens[:1, :14], last=2)]  # a whole chunk, a padded one, two steps
        found += [session.forward(tokens[:1, i : i + 1]) for i in range(14, 24)]
        assert distance(np.concatenate(found, axis=1), expected[:, 12:]) < EXACT


@pytest.mark.parametrize("case", every_feature(CASES), scope="class")
class TestEveryFeature:
    def test_three_rows_rewound_and_reordered(self, case: str, lowered: Lowered) -> None:
        session, tokens = interpreted(lowered(case)), tokens_of(case)
        expected = reference(case).forward(tokens, last=24)
        assert distance(session.forward(tokens[:, :16], last=2), expected[:, 14:16]) < EXACT
        session.rewind(11)
        assert distance(session.forward(tokens[:, 11:15]), expected[:, 14:15]) < EXACT
        session.reorder([2, 1, 2, 2])
        session.forward(tokens[[0, 1, 2, 2], 15:16])
        session.reorder([3, 1])  # the first row took another turn
        assert distance(session.forward(tokens[[2, 1], 16:17]), expected[[2, 1], 16:17]) < EXACT

    def test_the_unrounded_model_is_near(self, case: str, lowered: Lowered) -> None:
        session, arrays = interpreted(lowered(case)), np.load(GOLDEN / case / "golden.npz")
        found = session.forward(arrays["tokens"][:1, :20], last=4)
        expected = arrays["logits"][:1, 16:20]
        assert np.abs(found - expected).mean() < CLOSE * expected.std()


def test_the_context_ends_where_positions_of_long_texts_turn_otherwise(lowered: Lowered) -> None:
    session = interpreted(lowered("phi3-longrope"))
    assert session.context_length == open_case("phi3-longrope")[0].border == 24
    with pytest.raises(ContextExceeded):
        session.forward(np.zeros((1, 25), np.int64))


@pytest.mark.parametrize("package", [package for package in ALL if package != SLICE], ids=str)
@pytest.mark.parametrize("case", ["llama", "bloom", "gemma2"])
def test_every_cache_policy_and_layout(case: str, package: Package, lowered: Lowered) -> None:
    session, tokens = interpreted(lowered(case, packages=(package,)), package), tokens_of(case)
    expected = reference(case).forward(tokens, last=24)
    assert distance(session.forward(tokens[:, :12]), expected[:, 11:12]) < EXACT
    session.rewind(9)
    session.reorder([2, 2])
    assert distance(session.forward(tokens[[2, 2], 9:20], last=2), expected[[2, 2], 18:20]) < EXACT
    session.reorder([1])
    assert distance(session.forward(tokens[2:, 20:21]), expected[2:, 20:21]) < EXACT


@pytest.mark.parametrize("package", [Package("channels", "io"), Package("plain", "io")], ids=str, scope="class")
@pytest.mark.parametrize("case", sorted(path.name for path in ANSWERS.iterdir()), scope="class")
class TestEncoders:
    def test_prompts_are_read_whole_and_answered(self, case: str, package: Package, lowered: Lowered) -> None:
        arrays = np.load(ANSWERS / case / "golden.npz")
        prompts, answers = arrays["prompts"], arrays["answers"]
        session, right = interpreted(lowered(case, packages=(package,)), package), reference(case)
        assert session.whole_prompts
        with pytest.raises(BackendError, match="only the answer's first token has logits"):
            session.forward(prompts, last=2)
        assert distance(session.forward(prompts), right.forward(prompts)) < EXACT
        expected = right.forward(answers[:, :24], last=24)
        assert distance(session.forward(answers[:, :14], last=2), expected[:, 12:14]) < EXACT
        assert session.length == prompts.shape[1] + 14
        with pytest.raises(BackendError, match="an encoder has read the first"):
            session.rewind(5)
        session.rewind(prompts.shape[1] + 9)
        assert distance(session.forward(answers[:, 9:15]), expected[:, 14:15]) < EXACT
        session.reorder([2, 0, 2])
        assert distance(session.forward(answers[[2, 0, 2], 15:16]), expected[[2, 0, 2], 15:16]) < EXACT
        session.rewind(0)
        assert (session.length, session.batch) == (0, 0)
        right.rewind(0)
        assert distance(session.forward(prompts[1:2, :7]), right.forward(prompts[1:2, :7])) < EXACT

    def test_the_context_holds_prompt_and_answer(self, case: str, package: Package, lowered: Lowered) -> None:
        arrays = np.load(ANSWERS / case / "golden.npz")
        session, right = interpreted(lowered(case, packages=(package,)), package), reference(case)
        size = session.context_length - 4
        prompt, answer = np.resize(arrays["prompts"][:1], (1, size)), arrays["answers"][:1, :4]
        for one in session, right:
            one.forward(prompt)
        assert distance(session.forward(answer), right.forward(answer)) < EXACT
        with pytest.raises(ContextExceeded, match="do not fit the context"):
            session.forward(answer[:, :1])


@pytest.mark.parametrize("package", [Package("channels", "io"), Package("plain", "io")], ids=str)
def test_trials_compare_and_time_encoders_too(
    package: Package, lowered: Lowered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "STEPS", 90)  # past the end of the context
    session = interpreted(lowered("t5-flan", packages=(package,)), package)
    reason, error = trial.compared(session, lowered("t5-flan", packages=(package,)))
    assert not reason and error < CLOSE
    assert session.context_length == 80
    assert min(trial.timed(session)) > 0


ROUNDED = ["int8", "int8-asym-32", "int4", "int4-asym", "mxint8", "mxfp6-e3m2", "mxfp4", "mx9", "mx4"]


ROUNDED_CASES = ("gpt2", Package("plain", "io")), ("llama-tied_scaled", SLICE)
MIXED = {"int8": Package("plain", "slice"), "int8-asym-32": SLICE, "int4": SLICE, "int4-asym": Package("plain", "io")}
"""How matrices of experts, which are gathered before they are scaled, are stored."""


@pytest.mark.parametrize(
    ("precision", "case", "package"),
    [
        (precision, *one)
        for place, precision in enumerate(ROUNDED)
        for one in (ROUNDED_CASES if precision == "int4" else ROUNDED_CASES[place % 2 : place % 2 + 1])
    ]
    + [(precision, "gpt_oss", package) for precision, package in MIXED.items()],
)
def test_rounded_weights_are_computed_with(case: str, precision: str, package: Package, lowered: Lowered) -> None:
    session, tokens = interpreted(lowered(case, precision, (package,)), package), tokens_of(case)[:1]
    found = session.forward(tokens, last=8)
    assert session.placement.precision == precision
    assert distance(found, reference(case, precision).forward(tokens, last=8)) < EXACT
    decoder, weights = open_case(case)
    near = ReferenceSession(decoder, Rounded(weights, PRECISIONS[precision])).forward(tokens, last=8)
    assert np.abs(found - near).mean() < CLOSE * near.std()


@pytest.mark.parametrize("precision", ["f16", "int4"])
def test_of_experts_only_those_that_a_token_chose_are_read(precision: str, lowered: Lowered) -> None:
    experts, decode = open_case("gpt_oss")[0].experts, interpreted(lowered("gpt_oss", precision)).functions.decode
    assert experts and isinstance(decode, Interpreter)
    given = [(step.kind, array) for step in decode.steps for array in step.inputs.values()]
    stacks = [kind for kind, array in given if isinstance(array, np.ndarray) and len(array.shape) == 3]
    assert set(stacks) == {"gather"} and len(stacks) >= 2 * len(experts.layers)


def test_a_prefill_gathers_experts_of_few_tokens_at_once() -> None:
    decoder, _ = open_case("gpt_oss")
    assert decoder.experts and tokens_at_once(decoder, 64) == 64
    wide = replace(decoder, hidden_size=2880, experts=replace(decoder.experts, size=2880, chosen=2))
    assert tokens_at_once(wide, 64) == 5  # of 100 MB each
    assert tokens_at_once(replace(wide, hidden_size=1 << 20), 64) == 2


@pytest.mark.parametrize("case", ["gpt2", "llama", "gemma2"])
def test_float16_arithmetic_and_states_cost_little(case: str, lowered: Lowered) -> None:
    path = lowered(case) / f"{SLICE}.mlpackage"
    functions = Functions(Interpreter(path, "prefill", stored), Interpreter(path, "decode", stored))
    session, tokens = Session(lowered(case), SLICE, functions, device="cpu"), tokens_of(case)[:1]
    expected = reference(case).forward(tokens, last=8)
    error = np.abs(session.forward(tokens, last=8) - expected) / expected.std()
    assert error.max() > EXACT
    assert error.mean() < CLOSE


def same(decoder: Decoder) -> Decoder:
    return decoder


def other_gelu(decoder: Decoder) -> Decoder:
    return replace(decoder, activation="gelu")


def unscaled(decoder: Decoder) -> Decoder:
    return replace(decoder, layers=tuple(replace(a, scale=1.001 * a.scale) for a in decoder.layers))


def other_epsilon(decoder: Decoder) -> Decoder:
    return replace(decoder, epsilon=10 * decoder.epsilon)


def narrower(decoder: Decoder) -> Decoder:
    return replace(decoder, layers=tuple(replace(a, window=12) for a in decoder.layers))


@pytest.mark.parametrize(
    ("mutation", "right"),
    [(same, True), (other_gelu, False), (unscaled, False), (other_epsilon, False), (narrower, False)],
)
def test_small_mistakes_are_seen(mutation: Callable[[Decoder], Decoder], right: bool, tmp_path: Path) -> None:
    decoder, weights = open_case("gpt2")
    lower(mutation(decoder), weights, tmp_path, precision_name="f16", packages=[SLICE], chunk=CHUNK)
    tokens = tokens_of("gpt2")[:1]
    found = interpreted(tmp_path).forward(tokens, last=8)
    assert (distance(found, reference("gpt2").forward(tokens, last=8)) < EXACT) is right


def test_the_context_is_used_up_to_its_end_and_not_overrun(lowered: Lowered) -> None:
    session = interpreted(lowered("llama"))
    tokens = np.resize(tokens_of("llama")[:1], (1, session.context_length))
    expected = reference("llama").forward(tokens, last=1)
    session.forward(tokens[:, :3])
    assert distance(session.forward(tokens[:, 3:]), expected) < EXACT  # no room for the last whole chunk
    with pytest.raises(ContextExceeded, match="do not fit the context"):
        session.forward(tokens[:, :1])
    session.rewind(session.length - 1)
    assert distance(session.forward(tokens[:, -1:]), expected) < EXACT


def test_impossible_calls_are_refused_and_change_nothing(lowered: Lowered) -> None:
    session, tokens = interpreted(lowered("llama")), tokens_of("llama")
    session.forward(tokens[:1, :10])
    impossible: list[Callable[[], object]] = [
        lambda: session.rewind(11),
        lambda: session.reorder([1]),
        lambda: session.forward(tokens[:2, :1]),
        lambda: session.forward(tokens[:1, :2], last=3),
    ]
    for call in impossible:
        with pytest.raises(BackendError):
            call()
    expected = reference("llama").forward(tokens[:1, :11])
    assert distance(session.forward(tokens[:1, 10:11]), expected) < EXACT


def test_nothing_reaches_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lower(*open_case("gpt2"), tmp_path, precision_name="int8", packages=[SLICE], chunk=CHUNK)
    interpreted(tmp_path).forward(tokens_of("gpt2"))
    assert capfd.readouterr() == ("", "")
