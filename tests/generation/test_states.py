"""What the disk has of conversations: put back whole, or not at all."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from backends import Placement
from chatapp.generation import Message, Options
from chatapp.generation.engine import Engine
from chatapp.generation.prompt_cache import Prefix
from chatapp.generation.resuming import ResumingEngine
from chatapp.generation.states import States, forget
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import CHATML, ScriptedSession, hashed, text_of, usage_of, write_tokenizer

GREEDY = Options(temperature=0, max_tokens=12, logit_bias={0: -100})
PLACE = Placement("scripted", "cpu", "f32")
FACTS = {"digest": "d", "backend": "scripted"}
LONG = [Message("user", "The quick brown fox jumps over the lazy dog, and says hello to the world. " * 8)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), chat_template=CHATML, eos_token="<|im_end|>")


def make(model: Path, home: Path, digest: str = "d") -> tuple[ResumingEngine, ScriptedSession]:
    session = ScriptedSession(hashed, vocab_size=400, context_length=2000)
    engine = Engine(session, Tokenizer(model), ChatTemplate(model), hold=0.0, origin=lambda: {"digest": digest})
    return ResumingEngine(engine, States(home / "states")), session


def prefix(count: int = 64) -> Prefix:
    chance = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {
        "key": chance.normal(size=(2, count, 4)).astype(np.float32),
        "value": np.arange(count, dtype=np.uint8),
    }
    return Prefix(list(range(count)), found, PLACE)


def test_a_conversation_is_not_read_again_after_the_model_was_let_go(model: Path, tmp_path: Path) -> None:
    engine, _ = make(model, tmp_path)
    reply = text_of(engine.chat(LONG, GREEDY))
    now = [*LONG, Message("assistant", reply), Message("user", "and now?")]
    engine.retain("7", now[:2])
    engine.write_states(lambda name: True)
    [file] = (tmp_path / "states").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    again, session = make(model, tmp_path)
    again.recall("7")
    deltas = list(again.chat(now, GREEDY))
    usage = usage_of(deltas)
    assert usage.prompt_tokens - 128 < usage.cached_tokens < usage.prompt_tokens
    assert session.calls[0] == (1, usage.prompt_tokens - usage.cached_tokens)
    fresh, _ = make(model, tmp_path)
    assert text_of(iter(deltas)) == text_of(fresh.chat(now, GREEDY))
    before = file.stat().st_mtime_ns
    again.retain("7", now[:1])
    again.write_states(lambda name: True)
    assert file.stat().st_mtime_ns == before  # the disk has more of it already


def test_only_what_was_said_in_the_conversation_is_written(model: Path, tmp_path: Path) -> None:
    engine, _ = make(model, tmp_path)
    list(engine.chat([Message("user", LONG[0].text + "something that is not to be kept " * 20)], GREEDY))
    engine.retain("7", LONG)
    engine.write_states(lambda name: True)
    [file] = (tmp_path / "states").iterdir()
    kept = json.loads(json.loads(file.read_bytes().split(b"\n")[0])[1])["tokens"]
    assert kept == engine._prompts.of_chat(LONG)[: len(kept)] and len(kept) >= 64
    engine.retain("8", LONG)
    engine.write_states(lambda name: False)  # it was deleted meanwhile
    assert len(list((tmp_path / "states").iterdir())) == 1


def test_another_model_or_version_does_not_believe_it(model: Path, tmp_path: Path) -> None:
    engine, _ = make(model, tmp_path)
    list(engine.chat(LONG, GREEDY))
    engine.retain("7", LONG)
    engine.write_states(lambda name: True)
    other, _ = make(model, tmp_path, digest="another")
    other.recall("7")
    assert usage_of(list(other.chat(LONG, GREEDY))).cached_tokens == 0
    assert not list((tmp_path / "states").iterdir())


def flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "the last byte": lambda data: flip(data, -1 % len(data)),
    "a byte of the middle": lambda data: flip(data, len(data) - 300),
    "a token": lambda data: data.replace(b"[0, 1, 2,", b"[0, 1, 3,", 1),
    "a shape": lambda data: data.replace(b"[2, 64, 4]", b"[64, 2, 4]", 1),
    "cut off": lambda data: data[:-10],
    "half of the first line": lambda data: data[:100],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"x",
    "no line": lambda data: b"\x00" * len(data),
    "deep": lambda data: b"[" * 100000,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_ignored_and_deleted(damage: str, tmp_path: Path) -> None:
    states = States(tmp_path / "states")
    states.write("1", prefix(), FACTS)
    found = states.read("1", PLACE, FACTS)
    assert found and found.tokens == prefix().tokens
    assert all((found.found[name] == values).all() for name, values in prefix().found.items())
    file = tmp_path / "states" / "1.state"
    changed = DAMAGES[damage](file.read_bytes())
    assert changed != file.read_bytes()
    file.write_bytes(changed)
    assert states.read("1", PLACE, FACTS) is None
    assert not file.exists()
    assert states.read("1", PLACE, FACTS) is None


def test_the_states_used_least_recently_give_way(tmp_path: Path) -> None:
    states = States(tmp_path / "states", most=8000)
    for name in ("1", "2", "3"):
        states.write(name, prefix(), FACTS)
        assert name == "1" or states.read("1", PLACE, FACTS)
    states.write("4", prefix(1000), FACTS)  # more than half of the room
    assert sorted(path.name for path in (tmp_path / "states").iterdir()) == ["1.state", "3.state"]
    forget(tmp_path / "states", ["1", "9"])
    assert [path.name for path in (tmp_path / "states").iterdir()] == ["3.state"]


def test_where_a_state_cannot_be_written_the_model_is_let_go_all_the_same(model: Path, tmp_path: Path) -> None:
    engine, _ = make(model, tmp_path)
    list(engine.chat(LONG, GREEDY))
    (tmp_path / "states").write_text("a file in its place")
    engine.retain("7", LONG)
    engine.write_states(lambda name: True)
    engine.retain("8", [Message("user", "hello " * 20000)])  # no prompt of this model
    engine.write_states(lambda name: True)
    assert (tmp_path / "states").is_file() and engine.turns.idle
    assert list(engine.chat(LONG, GREEDY))
