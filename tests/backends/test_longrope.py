"""LongRoPE: texts up to the original context and beyond turn otherwise, however they have come to be as long."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import Session
from backends.reference import PlainSession
from backends.reference import Session as ReferenceSession
from backends.rereading import PART, RereadingSession, parts
from chatapp.evaluation.verify.prompts import make_prompts
from chatapp.evaluation.verify.verdict import verify
from chatapp.generation import Options
from chatapp.generation.decoding.generate import split_prompt
from chatapp.generation.engine import Engine
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.placement.opening import FallbackSession
from model_store import Store, StoredModel
from model_store.checkpoint.rope import rope
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from model_store.gguf import open_gguf
from support.arrays import near
from support.checkpoints import HERE, MakeCheckpoint
from support.gguf_conversion import converted
from support.golden_logits import GOLDEN, open_case
from support.scripted_session import text_of

CASE, FIRST, BORDER, LAST = "phi3-longrope", 20, 24, 32


@pytest.fixture(params=["reference", *HERE])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return open_case(CASE, request.param, tmp_path)


def texts() -> tuple[np.ndarray, Callable[[int, int], np.ndarray]]:
    """Two texts, and the logits of each one's last token, (1, vocab), when it has so many."""
    arrays = np.load(GOLDEN / CASE / "golden.npz")
    logits = arrays["border_logits"]
    return arrays["border_tokens"], lambda row, length: logits[row, [length - FIRST]]


def test_a_text_that_grows_is_read_again_once_it_is_long(session: Session) -> None:
    tokens, logits = texts()
    assert session.forward(tokens[:1, :FIRST])[0] == near(logits(0, FIRST), abs=1e-4)
    for length in range(FIRST + 1, LAST + 1):
        found = session.forward(tokens[:1, length - 1 : length])
        assert found[0] == near(logits(0, length), abs=1e-4), length
        assert session.length == length


@pytest.mark.parametrize("length", [BORDER, BORDER + 1, LAST])
def test_a_prompt_is_read_as_what_it_is(session: Session, length: int) -> None:
    tokens, logits = texts()
    assert session.forward(tokens[:1, :length])[0] == near(logits(0, length), abs=1e-4)


def test_a_prompt_in_parts_is_as_one_in_one(session: Session) -> None:
    tokens, logits = texts()
    for start in range(0, LAST, 7):
        found = session.forward(tokens[:1, start : start + 7], last=1)
    assert found[0] == near(logits(0, LAST), abs=1e-4)


def test_guesses_that_cross_the_border_get_the_logits_of_each_token_alone(session: Session) -> None:
    tokens, _ = texts()
    begun, guessed = tokens[:1, : BORDER - 3], tokens[:1, BORDER - 3 : BORDER + 4]
    session.forward(begun)
    alone = [session.forward(guessed[:, place : place + 1]).copy() for place in range(7)]
    session.rewind(BORDER - 3)
    for last in 7, 5, 4, 3:
        assert session.forward(guessed, last=last) == near(np.concatenate(alone[-last:], axis=1), abs=1e-4)
        assert session.top is None or session.top.tokens.shape[1] == last
        session.rewind(BORDER - 3)


class Counting(PlainSession):
    """The reference within its ranges, and how many tokens it has read."""

    counted = 0

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        self.counted += tokens.size
        return super().forward(tokens, last)


def test_a_long_prompt_in_parts_is_read_once_where_its_length_is_told() -> None:
    tokens, logits = texts()
    checkpoint, family, decoder = open_checkpoint(GOLDEN / CASE)
    counting = Counting(decoder, Canonical(checkpoint, family, decoder))
    session = FallbackSession([lambda: RereadingSession(counting)], pytest.fail)
    [whole] = split_prompt(session, tokens[0].tolist())  # which tells it
    for part in np.split(whole, 8, axis=1):
        found = session.forward(part)
    assert found[0] == near(logits(0, LAST), abs=1e-4)
    assert counting.counted == LAST
    session.rewind(FIRST)
    assert session.forward(tokens[:1, FIRST : FIRST + 1])[0] == near(logits(0, FIRST + 1), abs=1e-4)


def test_turns_that_share_a_beginning_say_what_they_would_say_alone(checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    scaling = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.5] * 8}
    folder = checkpoint(max_position_embeddings=90, original_max_position_embeddings=40, rope_scaling=scaling)
    opened, family, decoder = open_checkpoint(folder)
    backends.get("onnx").lower(decoder, Canonical(opened, family, decoder), tmp_path, precision="f32")

    def engine() -> Engine:
        return Engine(backends.get("onnx").load(tmp_path, device="cpu"), Tokenizer(folder))

    kept = engine()
    short, crossing, long = (
        "The licensor grants",
        "The licensor grants you a licence",
        "The licensor grants " + "you " * 12,
    )
    for text, count, n in (
        (short, 12, 1),
        (crossing, 60, 1),
        (crossing, 60, 2),
        (short, 6, 1),
        (long, 9, 1),
        (short, 9, 2),
    ):
        options = Options(temperature=0, max_tokens=count, n=n, logit_bias={0: -100})
        assert text_of(kept.complete(text, options)) == text_of(engine().complete(text, options)), (text, count)


def test_rewinding_below_the_border_makes_a_text_short_again(session: Session) -> None:
    tokens, logits = texts()
    session.forward(tokens[:1, :LAST])
    session.rewind(FIRST)
    assert session.forward(tokens[:1, FIRST : FIRST + 2])[0] == near(logits(0, FIRST + 2), abs=1e-4)
    session.forward(tokens[:1, FIRST + 2 : LAST])
    session.rewind(BORDER)
    assert session.forward(tokens[:1, BORDER : BORDER + 1])[0] == near(logits(0, BORDER + 1), abs=1e-4)
    session.rewind(0)
    assert (session.length, session.batch) == (0, 0)
    assert session.forward(tokens[1:, :BORDER])[0] == near(logits(1, BORDER), abs=1e-4)


def test_rows_cross_the_border_together_and_come_back(session: Session) -> None:
    tokens, logits = texts()
    session.forward(tokens[:, :FIRST])
    for length in range(FIRST + 1, BORDER + 2):
        found = session.forward(tokens[:, length - 1 : length])
    for row in 0, 1:
        assert found[row] == near(logits(row, BORDER + 1), abs=1e-4)
    session.reorder([1, 0, 1])
    found = session.forward(tokens[[1, 0, 1], BORDER + 1 : BORDER + 3])
    for place, row in enumerate([1, 0, 1]):
        assert found[place] == near(logits(row, BORDER + 3), abs=1e-4)
    session.rewind(FIRST)
    found = session.forward(tokens[[1, 0, 1], FIRST : FIRST + 1])
    for place, row in enumerate([1, 0, 1]):
        assert found[place] == near(logits(row, FIRST + 1), abs=1e-4)


def test_whole_caches_of_openvino_are_read_again_too(tmp_path: Path) -> None:
    if "openvino" not in HERE:
        pytest.skip(backends.get("openvino").missing())
    from backends.openvino.fixed import FixedSession
    from backends.openvino.session import StatefulSession

    checkpoint, family, decoder = open_checkpoint(GOLDEN / CASE)
    backends.get("openvino").lower(decoder, Canonical(checkpoint, family, decoder), tmp_path, precision="f32")
    tokens, logits = texts()
    assert FixedSession(tmp_path, "CPU").context_length == BORDER  # an NPU's shapes are for short texts
    session = RereadingSession(StatefulSession(tmp_path, "CPU"))
    for length in range(FIRST, LAST + 1):
        found = session.forward(tokens[:1, session.length : length])
        assert found[0] == near(logits(0, length), abs=1e-4)


def test_a_runtime_that_failed_while_reading_again_reads_all_of_it_the_next_time() -> None:
    tokens, logits = texts()
    session = open_case(CASE, "reference", Path())
    assert isinstance(session, RereadingSession)
    session.forward(tokens[:1, :BORDER])
    session.session.rewind(0)
    session.session.long = True  # as after a failure
    assert session.forward(tokens[:1, BORDER : BORDER + 1])[0] == near(logits(0, BORDER + 1), abs=1e-4)


def test_a_gguf_file_has_both_kinds_of_text(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(converted(GOLDEN / CASE))
    checkpoint, family, decoder = open_gguf(path)
    tokens, logits = texts()
    session = ReferenceSession(decoder, dict(Canonical(checkpoint, family, decoder)))
    for length in FIRST, BORDER, BORDER + 1, LAST:
        found = session.forward(tokens[:1, session.length : length])
        assert found[0] == near(logits(0, length), abs=1e-4)


@pytest.mark.parametrize("backend", HERE)
def test_verification_reads_texts_that_are_short_or_long_in_all_of_its_ways(
    store: Store, golden: Callable[..., StoredModel], backend: str
) -> None:
    model = golden(CASE)
    *_, short, long = make_prompts(model, open_checkpoint(model.folder)[2])
    assert short.tokens.shape[1] == BORDER == long.first < long.tokens.shape[1]
    verdict = verify(store, model, store.lowered(model, backend, "f32"))
    assert verdict.passed, verdict.failures


def test_what_is_read_again_is_read_in_parts() -> None:
    assert parts(2 * PART + 1) == [(0, PART), (PART, 2 * PART), (2 * PART, 2 * PART + 1)]
    assert parts(PART + 9, first=8) == [(0, 8), (8, PART + 8), (PART + 8, PART + 9)]
    assert parts(8, first=8) == [(0, 8)]


@pytest.mark.parametrize(("original", "long"), [(64, [2.0] * 8), (16, [1.5] * 8)])
def test_a_context_that_is_not_stretched_and_factors_that_are_alike_leave_one_kind_of_text(
    original: int, long: list[float]
) -> None:
    scaling = {"rope_type": "longrope", "short_factor": [1.5] * 8, "long_factor": long}
    config = {"max_position_embeddings": 64, "original_max_position_embeddings": original, "rope_scaling": scaling}
    turned = rope(config, 16)
    assert (turned.border, turned.long) == (0, ())
    assert turned.inverse_frequencies[0] == 1 / 1.5
