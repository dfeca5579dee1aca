"""A backend that dies in mid-answer: the next one takes over, and the turn is not lost."""

from collections.abc import Sequence

import numpy as np
import pytest

from backends import BackendError, ContextExceeded, Placement, Session
from chatapp.generation import Options
from chatapp.generation.engine import Engine
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.placement.opening import FallbackSession, Opener
from model_store import StoreError
from support.scripted_session import ScriptedSession, hashed, make_engine, write_tokenizer

SIZE = 400


class Mortal(ScriptedSession):
    """Dies in the call that is told, and in every one after it."""

    def __init__(self, dies_at: int, error: Exception | None = None):
        super().__init__(hashed, vocab_size=SIZE)
        self.placement = Placement("mortal", "cpu", "f32")
        self.left, self.error = dies_at, error or RuntimeError("the driver was reset")

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return super().forward(tokens, last)


def healthy() -> ScriptedSession:
    return ScriptedSession(hashed, vocab_size=SIZE)


def broken() -> Session:
    raise BackendError("no such device any more")


def fallback(session: Session, others: Sequence[Opener] = (healthy,)) -> tuple[FallbackSession, list[str]]:
    reasons: list[str] = []
    return FallbackSession([lambda: session, *others], reasons.append), reasons


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.mark.parametrize("dies_at", [0, 1, 2, 7])
@pytest.mark.parametrize("n", [1, 3])
def test_the_text_is_the_same_as_if_nothing_had_happened(tokenizer: Tokenizer, dies_at: int, n: int) -> None:
    options = Options(seed=1, n=n, max_tokens=12)
    whole, _ = make_engine(tokenizer)
    expected = [(delta.index, delta.text) for delta in whole.complete("for i in range", options)]
    session, reasons = fallback(Mortal(dies_at))
    engine = Engine(session, tokenizer, hold=0.0)
    deltas = list(engine.complete("for i in range", options))
    assert [(delta.index, delta.text) for delta in deltas] == expected
    assert reasons == ["mortal failed on cpu: the driver was reset"]
    assert deltas[-1].usage and deltas[-1].usage.backend == engine.placement.backend == "scripted"


def test_what_every_backend_would_meet_is_told_once() -> None:
    def full() -> Session:
        raise StoreError("the disk is full")

    reasons: list[str] = []
    with pytest.raises(StoreError, match="the disk is full"):
        FallbackSession([full, healthy], reasons.append)
    assert reasons == []


def test_rows_that_differ_from_the_first_token_are_read_again_too() -> None:
    tokens = np.array([[1, 2, 3], [4, 5, 6], [1, 2, 4]])
    session, reasons = fallback(Mortal(2))
    session.forward(tokens)
    session.rewind(2)
    session.forward(tokens[:, 2:])
    session.reorder([2, 1])
    found = session.forward(np.array([[7], [8]])).copy()
    direct = healthy()
    assert (found == direct.forward(np.array([[1, 2, 4, 7], [4, 5, 6, 8]]))).all()
    assert len(reasons) == 1
    assert session.length == 4 and session.batch == 2


def test_one_that_cannot_be_opened_is_passed_over() -> None:
    session, reasons = fallback(Mortal(0), [broken, lambda: Mortal(0), healthy])
    session.forward(np.array([[1]]))
    session.forward(np.array([[2]]))
    assert session.placement.backend == "scripted"
    died = "mortal failed on cpu: the driver was reset"
    assert reasons == [died, "no such device any more", died]


def test_one_that_cannot_be_opened_at_first_is_passed_over_too() -> None:
    reasons: list[str] = []
    session = FallbackSession([broken, healthy], reasons.append)
    assert session.placement.backend == "scripted"
    assert reasons == ["no such device any more"]


def test_when_none_is_left_the_last_error_is_told() -> None:
    session, _ = fallback(Mortal(0), [broken])
    with pytest.raises(BackendError, match="no such device any more"):
        session.forward(np.array([[1]]))
    with pytest.raises(BackendError, match="no such device any more"):
        FallbackSession([broken], print)
    alone, reasons = fallback(Mortal(0), [])
    with pytest.raises(RuntimeError, match="the driver was reset"):
        alone.forward(np.array([[1]]))
    assert not reasons


def test_a_call_that_no_backend_could_do_is_no_failure_of_this_one() -> None:
    session, reasons = fallback(healthy())
    with pytest.raises(ContextExceeded):
        session.forward(np.ones((1, 257), np.int64))
    session.forward(np.array([[1]]))
    for wrong in (lambda: session.rewind(2), lambda: session.reorder([1]), lambda: session.forward(np.ones((2, 1)))):
        with pytest.raises(BackendError):
            wrong()
    assert not reasons
