"""What an answer was computed with is kept beside it; computed again, it is the same, or it is told what differs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chatapp.conversation import Dialogue, Setup, Turn
from chatapp.conversation.replay import Comparison, replay
from chatapp.generation.engine import Engine
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.history import History, HistoryError, Kind
from support.scripted_session import CHATML, hashed, make_engine, write_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), chat_template=CHATML)


def engine_in(folder: Path, shift: float = 0.0, context_length: int = 256) -> Engine:
    """An engine whose logits are `shift` higher for every second token."""

    def logits(tokens: Sequence[int], out: np.ndarray) -> None:
        hashed(tokens, out)
        out[::2] += shift

    session = make_engine(Tokenizer(folder), logits, context_length)[1]
    origin = {"digest": f"sha256-{shift}", "signature": "scripted 1"}
    return Engine(session, Tokenizer(folder), ChatTemplate(folder), origin=lambda: origin)


def begin(history: History, kind: Kind, **options: Any) -> Dialogue:
    setup = Setup(model="scripted", options={"max_tokens": 12, **options}, system="Be brief.")
    return Dialogue(history, kind=kind, setup=setup, warn=print, logprobs=0)


def draw(turn: Turn) -> Turn:
    list(turn.deltas)
    return turn


def again(history: History, dialogue: Dialogue, engine: Engine, message: int) -> Comparison:
    """Replay an answer as somebody else does who finds it in the history."""
    conversation = history.get(dialogue.conversation or 0)
    reader = Dialogue(history, conversation, kind=dialogue.kind, setup=Setup(), warn=print)
    return replay(reader, engine, dialogue.message(message).id)


@pytest.mark.parametrize("options", [{}, {"seed": 7}, {"temperature": 0.0}, {"num_beams": 3}, {"dry_breakers": ()}])
@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_every_kind_of_answer_is_identical_when_it_is_computed_again(
    folder: Path, tmp_path: Path, kind: Kind, options: dict[str, Any]
) -> None:
    engine = engine_in(folder)
    with History(tmp_path / "history.db") as history:
        dialogue = begin(history, kind, **options)
        if kind == "chat":
            turns = [draw(dialogue.ask(engine, "hello")), draw(dialogue.ask(engine, "and then?", n=2))]
        else:
            turns = [draw(dialogue.continue_text(engine, [("user", "def add(")], n=2))]
            turns.append(draw(dialogue.fill(engine, [("user", "def add(")], "return 1\n")))
        for turn in turns:
            for reply in turn.replies:
                found = again(history, dialogue, engine_in(folder), reply.id)
                assert found.identical and found.changed == {}
                assert found.tokens == len(dialogue.tokens(reply.id)) > 0
                assert options.get("num_beams") or found.drift == 0


def test_answers_that_began_with_given_tokens_or_went_on_are_compared_from_there(folder: Path, tmp_path: Path) -> None:
    engine = engine_in(folder)
    with History(tmp_path / "history.db") as history:
        dialogue = begin(history, "chat", max_tokens=4, seed=7)  # without one the end is drawn now and then
        first = draw(dialogue.ask(engine, "hello")).replies[0]
        begun = dialogue.tokens(first.id)[:2]
        other = draw(dialogue.go_on(engine, first.id, begun)).replies[0]
        assert again(history, dialogue, engine_in(folder), other.id).tokens == 4
        dialogue.change(replace(dialogue.setup, options={"max_tokens": 3, "seed": 7}))
        resumed = draw(dialogue.resume(engine, other.id)).replies[0]
        found = again(history, dialogue, engine_in(folder), resumed.id)
        assert (found.identical, found.tokens) == (True, 3)


def test_what_was_left_out_of_a_full_context_is_left_out_again(folder: Path, tmp_path: Path) -> None:
    engine = engine_in(folder, context_length=120)
    with History(tmp_path / "history.db") as history:
        dialogue = begin(history, "chat")
        dialogue.change(replace(dialogue.setup, when_full="slide"))
        turns = [draw(dialogue.ask(engine, f"question {i} " * 3)) for i in range(6)]
        assert turns[-1].left_out
        found = again(history, dialogue, engine_in(folder, context_length=120), turns[-1].replies[0].id)
        assert found.identical and found.changed == {}


def test_the_first_token_that_differs_is_told_with_what_has_changed(folder: Path, tmp_path: Path) -> None:
    with History(tmp_path / "history.db") as history:
        dialogue = begin(history, "chat", temperature=0.0)
        reply = draw(dialogue.ask(engine_in(folder), "hello")).replies[0]
        tokens = dialogue.tokens(reply.id)
        place = next(i for i, one in enumerate(tokens) if one.id % 2)
        found = again(history, dialogue, engine_in(folder, 50.0), reply.id)
        assert found.place is not None and found.place <= place
        assert found.was == tokens[found.place]
        assert found.now and found.now.id % 2 == 0
        assert found.changed == {"digest": ("sha256-0.0", "sha256-50.0")}
        slight = again(history, dialogue, engine_in(folder, 0.001), reply.id)
        assert slight.identical and slight.drift and 1e-6 < slight.drift < 0.01


def test_an_answer_that_was_stopped_is_compared_as_far_as_it_came(folder: Path, tmp_path: Path) -> None:
    engine = engine_in(folder)
    with History(tmp_path / "history.db") as history:
        dialogue = begin(history, "chat", max_tokens=40)
        turn = dialogue.ask(engine, "hello")
        while len(turn.replies) and not any(delta.tokens for delta in [next(turn.deltas)]):
            pass
        turn.deltas.close()
        kept = dialogue.message(turn.replies[0].id)
        assert kept.finish_reason == "cancelled"
        found = again(history, dialogue, engine_in(folder), kept.id)
        assert found.identical and found.tokens == len(dialogue.tokens(kept.id))


def test_another_prompt_is_told(folder: Path, tmp_path: Path) -> None:
    with History(tmp_path / "history.db") as history:
        dialogue = begin(history, "chat")
        question = dialogue.ask(engine_in(folder), "hello")
        reply = draw(question).replies[0]
        assert question.question
        history.connection.execute(
            "UPDATE messages SET text = 'hallo' WHERE id = ?", (dialogue.message(question.question.id).id,)
        )
        found = again(history, dialogue, engine_in(folder), reply.id)
        assert "prompt_digest" in found.changed and not found.identical


@pytest.mark.parametrize("receipt", [None, "nonsense", {}, {"index": "x"}])
def test_an_answer_without_a_receipt_says_so(folder: Path, tmp_path: Path, receipt: object) -> None:
    with History(tmp_path / "history.db") as history:
        dialogue = begin(history, "chat")
        reply = draw(dialogue.ask(engine_in(folder), "hello")).replies[0]
        kept = dialogue.message(reply.id)
        history.change(replace(kept, usage={**kept.usage, "receipt": receipt}))
        with pytest.raises(HistoryError, match="receipt"):
            again(history, dialogue, engine_in(folder), reply.id)
