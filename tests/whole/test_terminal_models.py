"""The whole of chatapp in real terminals: the model that comes with it, one pulled from a hub, and the plain mode."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from chatapp.history import History, Message
from support.checkpoints import MakeCheckpoint
from support.loopback_hub import LoopbackHub
from support.patience import PATIENCE, until
from support.tmux import Terminal

SMOLLM = "smollm2-135m-instruct"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: MakeCheckpoint) -> Iterator[LoopbackHub]:
    """A hub with a tiny stand-in for a chat model of the catalogue."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    with LoopbackHub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
        hub.publish("HuggingFaceTB/SmolLM2-135M-Instruct", checkpoint("published", chats=True))
        yield hub


def saved(home: Path, enough: Callable[[Sequence[Message]], object]) -> Sequence[Message]:
    """The first conversation, when another process finds enough: what is shown is saved a moment later."""
    end = time.monotonic() + PATIENCE
    while True:
        with History(home / "history.db") as history:
            messages = history.messages(1)
        if enough(messages):
            return messages
        assert time.monotonic() < end, f"not saved: {messages}"
        time.sleep(0.1)


def text_of(messages: Sequence[Message]) -> str:
    return "".join(message.text for message in messages)


def test_the_built_in_model_writes_is_killed_and_goes_on_where_it_was(home: Path) -> None:
    with Terminal("-m", "chatapp", size=(100, 30)) as terminal:
        terminal.wait_for("● ready", "continues your text")
        terminal.type("def fibonacci(n):")
        terminal.press("C-j")
        terminal.wait_for("tok/s", "onnx · cpu")
        terminal.wait_for("first token")
        saved(home, lambda messages: len(text_of(messages)) > 40)
        terminal.press("C-j")
        terminal.kill()
    text = text_of(saved(home, bool))
    assert text.startswith("def fibonacci(n):") and len(text) > 40
    with Terminal("-m", "chatapp", size=(100, 30)) as terminal:
        terminal.wait_for("● ready", *text.strip().splitlines()[-1].strip()[:40].split())  # it may be wrapped
        terminal.press("C-j")
        terminal.wait_for("first token")
        terminal.press("C-q")
        assert terminal.left() == 0


def test_a_model_is_pulled_from_the_list_of_models_and_answers(home: Path, hub: LoopbackHub) -> None:
    with Terminal("-m", "chatapp", size=(120, 40)) as terminal:
        terminal.wait_for("● ready")
        terminal.press("C-o")
        terminal.wait_for("/ Find")
        terminal.press("/")
        terminal.type(SMOLLM)
        terminal.wait_for("Catalogue, chat · 1")
        terminal.press("Enter")
        terminal.wait_for("p Pull")
        terminal.press("p")
        terminal.wait_for(f"Pull {SMOLLM}?", "It fits this machine.")
        terminal.press("y")
        terminal.wait_for("pull: ready")
        terminal.press("Enter")
        terminal.wait_for(f" {SMOLLM}", "● ready", "answers your messages", gone="/ Find")
        terminal.type("why?")
        terminal.press("Enter")
        terminal.wait_for("first token")  # a few words: nothing but chance is in this model
        question, answer = saved(home, lambda messages: messages[-1].role == "assistant" and messages[-1].text)
        assert (question.text, answer.model) == ("why?", SMOLLM)


def test_the_plain_mode_answers_in_lines_and_ctrl_c_does_not_leave(checkpoint: MakeCheckpoint) -> None:
    with Terminal("-m", "chatapp", "chat", "--plain", checkpoint("tiny", chats=True)) as terminal:
        terminal.wait_for("You:")
        terminal.type("/set parameter num_predict 20")
        terminal.press("Enter")
        terminal.type("why?")
        terminal.press("Enter")
        terminal.wait_for("why?", "context used.\nYou:")
        until(terminal.rests)
        terminal.press("C-c")
        terminal.wait_for("You:\nYou:")  # or two signals might be one
        until(terminal.rests)
        terminal.press("C-c")
        terminal.wait_for("To quit: /bye or Ctrl+D.")
        terminal.type("/bye")
        terminal.press("Enter")
        assert terminal.left() == 0
