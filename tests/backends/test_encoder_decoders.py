"""Encoder-decoders against golden logits of PyTorch transformers: a prompt read, answers of many kinds of calls."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import Session
from backends.decoder import Decoder, Layer
from backends.onnx.session import Session as OnnxSession
from backends.quantize import PRECISIONS, Rounded
from backends.reference import Session as ReferenceSession
from chatapp.placement.opening import FallbackSession
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from support.arrays import near
from support.checkpoints import HERE
from support.golden_logits import EVERYWHERE
from support.neighbours import Crowd

GOLDEN = Path(__file__).parents[1] / "golden_answers"
CASES = sorted(path.name for path in GOLDEN.iterdir())
TOLERANCE = 1e-4
"""Absolute, in float32."""
ROUNDED_TOLERANCE = 0.12
"""Mean error in standard deviations, as in test_backends; a gate multiplies two rounded halves."""
FIXED = "openvino with fixed shapes"
BACKENDS = ("reference", *HERE, *([FIXED] if "openvino" in HERE else []))


def open_case(case: str, backend: str, folder: Path) -> Session:
    """A session of the golden checkpoint `case` in float32."""
    checkpoint, family, decoder = open_checkpoint(GOLDEN / case)
    weights = Canonical(checkpoint, family, decoder)
    if backend == "reference":
        return ReferenceSession(decoder, dict(weights))
    name = "openvino" if backend == FIXED else backend
    backends.get(name).lower(decoder, weights, folder, precision="f32")
    if backend == FIXED:
        from backends.openvino.fixed import FixedSession

        return FixedSession(folder, "CPU")
    return backends.get(name).load(folder, device="cpu")


class Golden:
    """Prompts (3, P), answers (3, A), and the logits after the last 24 tokens of [start, *answer]."""

    def __init__(self, case: str):
        arrays = np.load(GOLDEN / case / "golden.npz")
        self.prompts, self.answers, self.logits = arrays["prompts"], arrays["answers"], arrays["logits"]
        self.told = self.answers.shape[1] - 23
        """Tokens of the answers before the first that has logits."""

    def after(self, count: int) -> np.ndarray:
        """Logits (3, vocab) when `count` tokens of the answers have been fed."""
        return np.asarray(self.logits[:, count - self.told])


@pytest.fixture
def golden(case: str) -> Golden:
    return Golden(case)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Session]:
    """Open a golden checkpoint; the last one is given again."""
    return lru_cache(maxsize=1)(lambda case, backend: open_case(case, backend, tmp_path_factory.mktemp("lowered")))


@pytest.fixture
def session(case: str, backend: str, opened: Callable[[str, str], Session]) -> Session:
    session = opened(case, backend)
    session.rewind(0)
    return session


@pytest.mark.parametrize("backend", BACKENDS, scope="class")
@pytest.mark.parametrize("case", CASES, scope="class")
class TestLogits:
    def test_a_prompt_then_the_answer_in_one_call_and_in_steps(self, golden: Golden, session: Session) -> None:
        prompt, answer, told = golden.prompts[:1], golden.answers[:1], golden.told
        assert session.whole_prompts
        session.forward(prompt)
        assert session.length == prompt.shape[1]
        found = session.forward(answer[:, :-8], last=16)
        assert found == near(golden.logits[:1, :16], abs=TOLERANCE)
        for i in range(told + 15, answer.shape[1]):
            found = session.forward(answer[:, i : i + 1])
            assert found[0, 0] == near(golden.after(i + 1)[0], abs=TOLERANCE)
        assert session.length == prompt.shape[1] + answer.shape[1]

    def test_three_rows(self, golden: Golden, session: Session) -> None:
        session.forward(golden.prompts)
        found = session.forward(golden.answers[:, : golden.told + 2], last=2)
        assert found == near(golden.logits[:, 1:3], abs=TOLERANCE)
        found = session.forward(golden.answers[:, golden.told + 2 : golden.told + 3])
        assert found == near(golden.logits[:, 3:4], abs=TOLERANCE)

    def test_the_answer_is_rewound_and_the_prompt_stays(self, golden: Golden, session: Session) -> None:
        prompt, answer, told = golden.prompts[:1], golden.answers[:1], golden.told
        first = session.forward(prompt).copy()
        session.forward(np.roll(answer, 3, axis=1))
        session.rewind(prompt.shape[1])
        assert session.forward(answer[:, :told])[0, 0] == near(golden.after(told)[0], abs=TOLERANCE)
        session.rewind(prompt.shape[1] + 5)
        found = session.forward(answer[:, 5 : told + 1])[0, 0]
        assert found == near(golden.after(told + 1)[0], abs=TOLERANCE)
        session.rewind(0)
        assert (session.length, session.batch) == (0, 0)
        assert session.forward(prompt) == near(first, abs=TOLERANCE)

    def test_another_prompt_of_another_length_and_more_rows(self, golden: Golden, session: Session) -> None:
        for prompt in (golden.prompts[:1, :7], golden.prompts[1:2, :30], golden.prompts[2:]):
            session.rewind(0)
            session.forward(prompt)
            found = session.forward(golden.answers[2:, : golden.told])[0, 0]
        assert found == near(golden.after(golden.told)[2], abs=TOLERANCE)
        session.rewind(0)
        session.forward(golden.prompts)
        found = session.forward(golden.answers[:, : golden.told])[:, 0]
        assert found == near(golden.after(golden.told), abs=TOLERANCE)

    def test_rows_share_a_prompt_and_are_reordered(self, golden: Golden, session: Session) -> None:
        told = golden.told
        session.forward(golden.prompts[2:])
        session.reorder([0, 0, 0])
        assert session.batch == 3
        mixed = golden.answers[[1, 2, 0]]
        assert session.forward(mixed[:, :told])[1, 0] == near(golden.after(told)[2], abs=TOLERANCE)
        session.reorder([1, 0])
        found = session.forward(golden.answers[[2, 1], told : told + 1])
        assert found[0, 0] == near(golden.after(told + 1)[2], abs=TOLERANCE)
        session.reorder([0])
        found = session.forward(golden.answers[2:, told + 1 : told + 2])
        assert found[0, 0] == near(golden.after(told + 2)[2], abs=TOLERANCE)

    def test_rows_with_prompts_of_their_own_are_reordered(self, golden: Golden, session: Session) -> None:
        told = golden.told
        session.forward(golden.prompts)
        session.forward(golden.answers[:, :told])
        session.reorder([2, 0])
        found = session.forward(golden.answers[[2, 0], told : told + 1])[:, 0]
        assert found == near(golden.after(told + 1)[[2, 0]], abs=TOLERANCE)

    def test_the_context_holds_prompt_and_answer(self, golden: Golden, session: Session) -> None:
        with pytest.raises(backends.ContextExceeded, match="do not fit the context"):
            session.forward(np.zeros((1, session.context_length + 1), np.int64))
        session.forward(np.resize(golden.prompts[:1], (1, session.context_length - 4)))
        session.forward(golden.answers[:1, :4])
        with pytest.raises(backends.ContextExceeded, match="do not fit the context"):
            session.forward(golden.answers[:1, 4:5])

    def test_impossible_calls_are_refused_and_change_nothing(self, golden: Golden, session: Session) -> None:
        prompt, answer, told = golden.prompts[:1], golden.answers[:1], golden.told
        with pytest.raises(backends.BackendError, match="only the answer's first token has logits"):
            session.forward(prompt, last=2)
        assert session.length == 0
        session.forward(prompt)
        session.forward(answer[:, : told - 1])
        impossible: list[Callable[[], object]] = [
            lambda: session.rewind(prompt.shape[1] - 1),
            lambda: session.rewind(1),
            lambda: session.rewind(prompt.shape[1] + told),
            lambda: session.reorder([1]),
            lambda: session.forward(golden.prompts),
            lambda: session.forward(answer[:, :2], last=3),
        ]
        for call in impossible:
            with pytest.raises(backends.BackendError):
                call()
        found = session.forward(answer[:, told - 1 : told])[0, 0]
        assert found == near(golden.after(told)[0], abs=TOLERANCE)


def change_layers(decoder: Decoder, change: Callable[[Layer], Layer]) -> Decoder:
    return replace(decoder, layers=tuple(map(change, decoder.layers)), encoder=tuple(map(change, decoder.encoder)))


def nearer(a: Layer) -> Layer:
    """What is far away counts as a little nearer."""
    near = len(a.buckets) // 4
    return replace(a, buckets=a.buckets[: -2 * near] if a.causal else a.buckets[near:-near])


def without_biases_of(layer: int) -> Callable[[Decoder], Decoder]:
    """A layer, by its number, that knows no distances."""

    def change(decoder: Decoder) -> Decoder:
        layers = (replace(a, buckets=(0,) * len(a.buckets)) if i == layer else a for i, a in enumerate(decoder.layers))
        return replace(decoder, layers=tuple(layers))

    return change


WRONG: dict[str, Callable[[Decoder], Decoder]] = {
    "scores scaled": lambda d: change_layers(d, lambda a: replace(a, scale=a.head_dim**-0.5)),
    "one bucket for all": lambda d: change_layers(d, lambda a: replace(a, buckets=(0,) * len(a.buckets))),
    "sides exchanged": lambda d: change_layers(d, lambda a: replace(a, buckets=a.buckets[::-1])),
    "one bucket for all in the first layer": without_biases_of(0),
    "one bucket for all in the second layer": without_biases_of(1),
    "buckets end early": lambda d: change_layers(d, nearer),
    "the encoder looks back only": lambda d: replace(d, encoder=tuple(replace(a, causal=True) for a in d.encoder)),
    "another start": lambda d: replace(d, start_token=7),
    "output not scaled, or scaled": lambda d: replace(d, output_scale=32**-0.5 if d.output_scale == 1 else 1.0),
    "another activation": lambda d: replace(d, activation="gelu" if d.activation == "relu" else "relu"),
    "a layer left out": lambda d: replace(d, encoder=d.encoder[1:]),
    "another epsilon": lambda d: replace(d, epsilon=1e-2),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wrong", WRONG)
def test_each_part_of_the_description_matters(case: str, wrong: str, golden: Golden) -> None:
    checkpoint, family, decoder = open_checkpoint(GOLDEN / case)
    session = ReferenceSession(WRONG[wrong](decoder), Canonical(checkpoint, family, decoder))
    session.forward(golden.prompts[:1])
    found = session.forward(golden.answers[:1], last=24)
    assert np.abs(found - golden.logits[:1]).max() > 10 * TOLERANCE


ROUNDED = [
    (backend, name, case)
    for backend in HERE
    for name in PRECISIONS
    for case in CASES
    if name in (EVERYWHERE if backend == "onnx" else ("int8", "int4"))
    or (case == "t5-flan" and name != "f32" and (backend == "onnx" or name in EVERYWHERE))
]
"""OpenVINO compiles for long."""


@pytest.mark.parametrize(("backend", "precision", "case"), ROUNDED)
def test_rounded_weights_are_computed_with(
    tmp_path: Path, backend: str, precision: str, case: str, golden: Golden
) -> None:
    checkpoint, family, decoder = open_checkpoint(GOLDEN / case)
    weights = Canonical(checkpoint, family, decoder)
    backends.get(backend).lower(decoder, weights, tmp_path, precision=precision)
    session = backends.get(backend).load(tmp_path, device="cpu")
    assert session.placement.precision == precision
    expected = ReferenceSession(decoder, dict(Rounded(weights, PRECISIONS[precision])))
    logits = []
    for one in session, expected:
        found = [one.forward(golden.prompts).copy(), one.forward(golden.answers[:, :20], last=20).copy()]
        found += [one.forward(golden.answers[:, i : i + 1]).copy() for i in range(20, 24)]
        logits.append(np.concatenate(found, axis=1))
    error = np.abs(logits[0] - logits[1])
    assert error.mean() < ROUNDED_TOLERANCE * logits[1].std()


@pytest.mark.skipif("openvino" not in HERE, reason="OpenVINO has no package for this machine")
@pytest.mark.parametrize(("case", "precision"), [("t5-flan", "f32"), *((case, "int8") for case in CASES)])
def test_fixed_shapes_change_next_to_nothing(tmp_path: Path, precision: str, case: str, golden: Golden) -> None:
    from backends.openvino.fixed import FixedSession

    checkpoint, family, decoder = open_checkpoint(GOLDEN / case)
    weights = Canonical(checkpoint, family, decoder)
    backends.get("openvino").lower(decoder, weights, tmp_path, precision=precision)
    session, expected = (
        FixedSession(tmp_path, "CPU"),
        ReferenceSession(decoder, dict(Rounded(weights, PRECISIONS[precision]))),
    )
    for prompts in golden.prompts, golden.prompts[:2, :9]:  # the second is padded where the first had tokens
        for one in session, expected:
            one.rewind(0)
        assert session.forward(prompts) == near(expected.forward(prompts), abs=2e-5)
        answers = golden.answers[: len(prompts)]
        found = session.forward(answers, last=answers.shape[1])
        assert found == near(expected.forward(answers, last=answers.shape[1]), abs=2e-5)
    for request in (*session.requests.values(), session.encoder):
        nodes = request.get_compiled_model().get_runtime_model().get_ops()
        assert not any(output.get_partial_shape().is_dynamic for node in nodes for output in node.outputs())


def test_when_others_want_the_cores_both_graphs_are_loaded_anew(tmp_path: Path) -> None:
    checkpoint, family, decoder = open_checkpoint(GOLDEN / "t5-flan")
    backends.get("onnx").lower(decoder, Canonical(checkpoint, family, decoder), tmp_path, precision="f32")
    session, golden = OnnxSession(tmp_path), Golden("t5-flan")
    for cores in 2.0, 0.0:
        before = session.encoder
        session.rewind(0)
        session.forward(golden.prompts[:1])
        session.patience, session.neighbours, session.computing = 0.001, Crowd(cores), 1.0
        time.sleep(0.0015)
        found = session.forward(golden.answers[:1, : golden.told])[0, 0]
        assert session.crowded is (cores > 1) and session.encoder is not before
        assert found == near(golden.after(golden.told)[0], abs=TOLERANCE)
        session.patience = 1000.0


class Mortal(ReferenceSession):
    """Dies when its cache would hold more than so many tokens."""

    limit = 0

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        if self.length + tokens.shape[1] > self.limit:
            raise RuntimeError("the driver was reset")
        return super().forward(tokens, last)


@pytest.mark.parametrize("own_prompts", [True, False])
@pytest.mark.parametrize("answered", [-1, 0, 7])
def test_another_session_takes_over_in_mid_answer(tmp_path: Path, answered: int, own_prompts: bool) -> None:
    golden = Golden("t5-flan")
    checkpoint, family, decoder = open_checkpoint(GOLDEN / "t5-flan")
    mortal = Mortal(decoder, Canonical(checkpoint, family, decoder))
    mortal.limit = golden.prompts.shape[1] + answered
    reasons: list[str] = []
    session = FallbackSession([lambda: mortal, lambda: open_case("t5-flan", "onnx", tmp_path)], reasons.append)
    if own_prompts:
        session.forward(golden.prompts)
    else:
        session.forward(golden.prompts[1:2])
        session.reorder([0, 0, 0])
    assert session.whole_prompts
    for i in range(golden.told):
        with pytest.raises(backends.BackendError, match="as a whole"):
            session.rewind(5)
        found = session.forward(golden.answers[:, i : i + 1])[:, 0]
    assert reasons == ["reference failed on cpu: the driver was reset"]
    assert session.placement.backend == "onnx"
    same = slice(None) if own_prompts else slice(1, 2)
    assert found[same] == near(golden.after(golden.told)[same], abs=TOLERANCE)
