"""Servers written with the protocol's own package, over pipes and over HTTP on loopback."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatapp.conversation.tools import Result
from chatapp.conversation.tools.connection import Connections
from chatapp.conversation.tools.http import leaves
from chatapp.conversation.tools.stdio import USUAL
from chatapp.conversation.tools.toolset import Toolset
from chatapp.generation import ToolCall
from chatapp.settings.tool_servers import ToolServer
from support.patience import PATIENCE

pytest.importorskip("mcp")
SCRIPT = str(Path(__file__).parents[2] / "support" / "tool_server.py")


@pytest.fixture(scope="module", params=["stdio", "http"])
def toolset(request: pytest.FixtureRequest) -> Iterator[Toolset]:
    connections, told = Connections(), list[str]()
    if request.param == "stdio":
        server = ToolServer("demo", (sys.executable, SCRIPT), seconds=PATIENCE)
        yield Toolset(lambda: {"demo": server}, told.append, connections=connections)
    else:
        with socket.create_server(("127.0.0.1", 0)) as listening:  # or a port that was free would be somebody's by now
            handle, port = listening.fileno(), listening.getsockname()[1]
            server = ToolServer("demo", url=f"http://127.0.0.1:{port}/mcp", seconds=PATIENCE)
            command = [sys.executable, SCRIPT, str(handle)]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL, pass_fds=[handle])
        with process:
            try:
                yield Toolset(lambda: {"demo": server}, told.append, connections=connections)
                connections.close()
            finally:
                process.kill()
    connections.close()
    assert not told


def call(toolset: Toolset, name: str, **arguments: object) -> Result:
    assert any(one.name == name for one in toolset.look(["demo"]))
    tool = toolset.find(name)
    assert tool
    return toolset.call(tool, ToolCall(name, json.dumps(arguments))).result(PATIENCE)


def test_tools_are_listed_and_called(toolset: Toolset) -> None:
    assert call(toolset, "add", a=20, b=3) == Result("23")
    assert [one.name for one in toolset.offered] == ["add", "variables", "fail", "flood", "hang", "die"]
    assert toolset.offered[0].function.description == "Add two numbers."
    failed = call(toolset, "add", a="x")
    assert failed.outcome == "failed" and "valid integer" in failed.text
    assert call(toolset, "fail").outcome == "failed"


def test_a_flood_ends_the_call_only(toolset: Toolset) -> None:
    assert "sent a message of more than 4 MB" in call(toolset, "flood").text
    assert call(toolset, "add", a=1, b=1) == Result("2")


def test_a_program_sees_few_variables(toolset: Toolset, monkeypatch: pytest.MonkeyPatch) -> None:
    if toolset.servers()["demo"].command:
        assert set(call(toolset, "variables").text.split()) <= {*USUAL}


def test_a_call_can_be_left(toolset: Toolset) -> None:
    toolset.look(["demo"])
    hang, add = toolset.find("hang"), toolset.find("add")
    assert hang and add
    running = toolset.call(hang, ToolCall("hang", "{}"))
    time.sleep(0.2)
    assert running.cancel()
    assert toolset.call(add, ToolCall("add", '{"a": 2, "b": 2}')).result(30) == Result("4")


def test_a_server_that_dies_is_told_of(toolset: Toolset) -> None:
    stdio = bool(toolset.servers()["demo"].command)
    died = call(toolset, "die")
    expected = "demo ended (exit code 3): out of luck" if stdio else "demo gave no result: it closed the connection"
    assert died == Result(f"The call failed: {expected}", "failed")


def test_where_text_goes() -> None:
    assert leaves(ToolServer("x", ("y",))) == leaves(ToolServer("x", url="http://[::1]:8/mcp")) == ""
    assert leaves(ToolServer("x", url="https://tools.example.org/mcp")) == "tools.example.org"
    assert leaves(ToolServer("x", url="http://tools.example.org:81/mcp")) == "tools.example.org:81, unencrypted"
