"""Dialogues in tests: how they begin, whom they ask, and what they say."""

from collections.abc import Callable
from typing import Any

import pytest

from chatapp.conversation import Dialogue, Setup, Turn
from chatapp.history import Conversation, History, Kind
from support.scripted_engine import ScriptedEngine

Begin = Callable[..., Dialogue]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def begin(history: History, told: list[str]) -> Begin:
    """Begin a dialogue in the history, or open one of it."""

    def make(conversation: int | None = None, *, kind: Kind = "chat", **setup: Any) -> Dialogue:
        opened: Conversation | None = history.get(conversation) if conversation else None
        wanted = Setup("scripted", **setup)
        return Dialogue(history, opened, kind=kind, setup=wanted, warn=told.append, logprobs=5)

    return make


def chatty(text: str = "Good day to you", **facts: Any) -> ScriptedEngine:
    return ScriptedEngine(text, can_chat=True, **facts)


def heard(turn: Turn) -> list[str]:
    """What the replies say that a turn gives, each with what it began with."""
    texts = [reply.text for reply in turn.replies]
    for delta in turn.deltas:
        texts[delta.index] += delta.text
    return texts


def texts(dialogue: Dialogue) -> list[str]:
    return [message.text for message in dialogue.branch()]


def fill_the_disk(history: History) -> None:
    pages = history.connection.execute("PRAGMA page_count").fetchone()[0]
    history.connection.execute(f"PRAGMA max_page_count = {pages}")


def make_room(history: History) -> None:
    history.connection.execute("PRAGMA max_page_count = 1000000")


def talk(dialogue: Dialogue, engine: ScriptedEngine, *questions: str) -> list[Turn]:
    """Ask one question after the other."""
    turns: list[Turn] = []
    for question in questions:
        turns.append(dialogue.ask(engine, question))
        heard(turns[-1])
    return turns
