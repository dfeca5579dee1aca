"""Dialogues with real engines: answers that go on from chosen tokens, and a gap that is filled."""

from pathlib import Path

import pytest

from chatapp.conversation import Dialogue, Setup
from chatapp.generation import GenerationError, Message, Options
from chatapp.generation.engine import Engine
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.history import History
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from chatapp.settings import settings
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.dialogues import Begin, heard, texts
from support.scripted_session import CHATML, ScriptedSession, hashed, write_tokenizer


@pytest.fixture
def tiny(checkpoint: MakeCheckpoint) -> Engine:
    """A tiny random model that chats."""
    return open_engine(Store(settings.home() / "models"), str(checkpoint(chats=True)), PlacementOptions("onnx"))


def test_going_on_from_its_own_tokens_the_model_says_the_same(tiny: Engine, history: History) -> None:
    setup = Setup("tiny", {"temperature": 0, "max_tokens": 24, "repetition_penalty": 1.3, "presence_penalty": 0.5})
    dialogue = Dialogue(history, kind="chat", setup=setup, warn=print, logprobs=2)
    heard(dialogue.ask(tiny, "Größe 日本語 🙂"))
    reply = dialogue.branch()[-1]
    tokens = dialogue.tokens(reply.id)
    for count in (1, 5, len(tokens) - 1):
        turn = dialogue.go_on(tiny, reply.id, tokens[:count])
        heard(turn)
        version = dialogue.branch()[-1]
        assert [token.id for token in dialogue.tokens(version.id)][: len(tokens)] == [token.id for token in tokens]
        assert version.text.startswith(reply.text.rstrip("\ufffd"))
        assert version.usage["cached_tokens"] > 0


def test_a_character_that_the_chosen_tokens_leave_incomplete_is_told_when_it_is_complete(tiny: Engine) -> None:
    pieces = [
        next(token for token in range(320) if tiny.tokenizer.bytes_of(token) == bytes([byte])) for byte in "🙂".encode()
    ]
    assert tiny.text_of(pieces[:2]) == "" and tiny.text_of(pieces) == "🙂"
    forced = Options(temperature=0, max_tokens=1, logit_bias={pieces[3]: 1000.0})
    [delta] = tiny.chat([Message("user", "hello")], forced, pieces[:3])
    assert delta.text == "🙂"
    assert tiny.count_chat([Message("user", "hello")], pieces) == tiny.count_chat([Message("user", "hello")]) + 4


def test_nothing_follows_a_token_that_ends_the_answer(tiny: Engine) -> None:
    with pytest.raises(GenerationError, match="this token ends the answer, so nothing can follow it"):
        tiny.chat([Message("user", "hello")], Options(), [5, 0])


def test_an_encoder_decoder_cannot_go_on_from_a_token(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "model", chat_template=CHATML)
    session = ScriptedSession(hashed, vocab_size=400)
    session.whole_prompts = True
    engine = Engine(session, Tokenizer(folder), ChatTemplate(folder))
    assert engine.chat([Message("user", "hello")], Options())
    with pytest.raises(GenerationError, match="an encoder-decoder and cannot continue from a token"):
        engine.chat([Message("user", "hello")], Options(), [5])


def test_the_built_in_model_continues_a_text_and_fills_its_gap(history: History, begin: Begin) -> None:
    engine = open_engine(Store(settings.home() / "models"), "builtin", PlacementOptions("onnx"))
    dialogue = begin(kind="completion", options={"temperature": 0, "max_tokens": 12})
    start = "def add(first, second):\n    return"
    heard(dialogue.continue_text(engine, start))
    assert "".join(texts(dialogue)).startswith(f"{start} ")
    heard(dialogue.fill(engine, "def add(first, second):\n    ", "\n\nprint(add(1, 2))\n"))
    assert [one.role for one in dialogue.branch()] == ["user", "assistant", "user"]
    assert list(history.messages(1)) == dialogue.branch()
    assert len(history.tokens(dialogue.branch()[1].id)) == dialogue.branch()[1].usage["completion_tokens"]
