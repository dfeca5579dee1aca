"""A conversation in lines that keeps what it tells, instead of printing it."""

from typing import Any

from chatapp.cli.repl import LineView
from chatapp.conversation import Setup, Turn
from chatapp.history import History
from chatapp.workspace import Opened, Workspace
from support.scripted_engine import ScriptedEngine


class Desk(LineView):
    """The loop's own view, with a scripted engine; another model is another scripted engine."""

    def __init__(self, engine: ScriptedEngine, setup: Setup, history: History | None = None) -> None:
        self.told, self.scripted = list[str](), engine
        contract: Any = engine  # the stand-in meets it
        super().__init__(contract, setup, Workspace(), self.open_another, history=history)

    def open_another(self, name: str) -> Opened:
        """Another scripted engine, under the name that the store has for a model."""
        engine: Any = ScriptedEngine("Another one speaks.", can_chat="base" not in name)
        return Opened(engine, self.workspace.open_store().get(name).name, 0, 0.0)

    def say(self, text: str, brief: str = "") -> None:
        self.told.append(text)

    def answer(self, turn: Turn) -> None:
        texts = [reply.text for reply in turn.replies]
        for delta in turn.deltas:
            texts[delta.index] += delta.text
        self.told += texts

    def do(self, line: str) -> str:
        """What is told after a line: the answer, or what the command says."""
        self.told.clear()
        self.take(line)
        return "\n".join(self.told)

    @property
    def branch(self) -> list[str]:
        """The texts of the messages that are shown."""
        return [message.text for message in self.dialogue.branch()]
