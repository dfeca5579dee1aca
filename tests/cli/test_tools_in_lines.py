"""Calls of tools in the loop in lines: asked about in the terminal, refused without one, switched by /tools."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatapp.cli import tool_calls
from chatapp.cli.repl import LineView
from chatapp.conversation import Setup
from chatapp.conversation.tools.connection import CONNECTIONS
from chatapp.settings import tool_servers
from chatapp.settings.tool_servers import ToolServer
from chatapp.text.errors import InputError
from chatapp.workspace import Workspace
from support.scripted_engine import ScriptedEngine

pytest.importorskip("mcp")
HOSTILE = str(Path(__file__).parents[1] / "support" / "hostile_tool_server.py")
CALL = 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"city": "B\\u001b[2Jern"}}\n</tool_call>'


@pytest.fixture
def view(home: Path) -> Iterator[LineView]:
    tool_servers.add(home / "settings.toml", ToolServer("sky", (sys.executable, HOSTILE, "good")))
    engine: Any = ScriptedEngine("That is all.", can_chat=True, turns=[CALL])
    open_none: Any = None
    yield LineView(engine, Setup("scripted"), Workspace(), open_none, history=None, plain=True)
    CONNECTIONS.close()


def typing(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    left = list(lines)
    monkeypatch.setattr(tool_calls, "is_terminal", lambda: True)
    monkeypatch.setattr("builtins.input", lambda: left.pop(0))


def test_a_call_is_asked_about_and_what_it_gives_is_shown_harmlessly(
    view: LineView, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    view.take("/tools on")
    assert "1 tool: weather." in capsys.readouterr().err
    typing(monkeypatch, "what?", "o")
    view.take("Weather?")
    out, err = capsys.readouterr()
    assert "Let me see." in out and "That is all." in out and "tool_call" not in out
    assert 'The model calls weather of sky: {"city": "B' in err and "Type o, c, r or s." in err
    assert "weather gave, after" in err and "after 0.00 ms" not in err
    assert "sky over B" in err and "\x1b" not in out + err
    view.take("/tools ALLOW weather")
    view.take("/tools")
    assert "weather: runs without asking; The weather now." in capsys.readouterr().err
    view.take("/tools off")
    assert not view.dialogue.setup.tools


def test_without_a_terminal_nothing_runs(view: LineView, capsys: pytest.CaptureFixture[str]) -> None:
    view.take("/tools on sky")
    view.take("Weather?")
    assert "Refused: no terminal to ask on." in capsys.readouterr().err
    assert view.dialogue.branch()[2].usage["outcome"] == "refused"
    assert view.dialogue.branch()[3].text == "That is all."


def test_nothing_is_started_before_the_conversation_uses_tools(view: LineView) -> None:
    view.take("Weather?")
    view.take("/tools")
    assert not CONNECTIONS._open and view.dialogue.branch()[1].calls == ()


def test_a_user_who_leaves_stops_it(view: LineView, monkeypatch: pytest.MonkeyPatch) -> None:
    view.take("/tools on sky")
    monkeypatch.setattr(tool_calls, "is_terminal", lambda: True)

    def leave() -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", leave)
    view.take("Weather?")
    assert [one.role for one in view.dialogue.branch()] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/tools onn", "did you mean"),
        ("/tools allow", "use /tools"),
        ("/tools on clouds", "unknown MCP server 'clouds'"),
        ("/tools off sky", "does not use 'sky'"),
        ("/tools allow weather", "there is no tool 'weather' here"),
    ],
)
def test_what_cannot_be_is_refused(view: LineView, line: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        view.take(line)


def test_a_model_that_knows_no_tools_cannot_have_any(view: LineView) -> None:
    engine: Any = view.engine
    engine.knows_tools = False
    with pytest.raises(InputError, match="cannot call tools"):
        view.take("/tools on")
