"""Servers of tools as real processes: what they offer, what calls give, and what becomes of those that mean no good."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chatapp.conversation.tools import Result, ToolError, connection
from chatapp.conversation.tools.connection import Connections
from chatapp.conversation.tools.toolset import Tool, Toolset
from chatapp.generation import ToolCall
from chatapp.settings.offline import VARIABLE, Offline
from chatapp.settings.tool_servers import ToolServer
from support.patience import PATIENCE, until

pytest.importorskip("mcp")
HOSTILE = Path(__file__).parents[2] / "support" / "hostile_tool_server.py"
BERN = {"city": "Bern"}
Open = Callable[..., Toolset]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def hostile(told: list[str]) -> Iterator[Open]:
    """A toolset with a server that is hostile in a way."""
    connections = Connections()

    def make(way: str, *more: str, seconds: float = PATIENCE) -> Toolset:
        server = ToolServer("bad", (sys.executable, str(HOSTILE), way, *more), seconds=seconds)
        return Toolset(lambda: {"bad": server}, told.append, connections=connections)

    yield make
    connections.close()


def look(toolset: Toolset) -> list[Tool]:
    return list(toolset.look(["bad"]))


def call(toolset: Toolset, name: str = "weather", **arguments: object) -> Result:
    """What a call gives, after the tools were listed."""
    toolset.look(["bad"])
    tool = toolset.find(name)
    assert tool
    return toolset.call(tool, ToolCall(name, json.dumps(arguments or BERN))).result(PATIENCE)


def test_a_tool_is_listed_and_called(hostile: Open, told: list[str]) -> None:
    toolset = hostile("good")
    (tool,) = look(toolset)
    assert (tool.name, tool.function.description) == ("weather", "The weather now.") and not told
    assert call(toolset) == Result("blue \x1b[31msky over Bern")
    assert not toolset.is_allowed(tool)


@pytest.mark.parametrize(
    ("way", "seconds", "message"),
    [
        ("hangs", 1.0, "The call failed: bad gave no result within 1 seconds, so it was stopped"),
        ("dies", PATIENCE, "The call failed: bad ended (exit code 7): a last word"),
        ("floods", PATIENCE, "The call failed: bad sent a message of more than 4 MB; it was stopped"),
        ("chatters", PATIENCE, "The call failed: bad sent more than 2,000 messages in 10 seconds; it was stopped"),
        ("lies", PATIENCE, "The call failed: bad gave no result: its answer breaks the protocol (content: Input"),
        ("promises", PATIENCE, "The call failed: bad broke its word: Invalid structured content returned by tool"),
    ],
)
def test_a_call_that_fails_is_told_and_the_next_one_goes_on(
    hostile: Open, way: str, seconds: float, message: str, told: list[str]
) -> None:
    toolset, began = hostile(way, seconds=seconds), time.monotonic()
    result = call(toolset)
    assert result.outcome == "failed" and result.text.startswith(message), result.text
    assert [one.name for one in look(toolset)] == ["weather"] and not told
    assert time.monotonic() < began + PATIENCE


@pytest.mark.parametrize("way", ["ids", "rubbish", "asks"])
def test_what_nobody_asked_for_is_passed_over(hostile: Open, way: str) -> None:
    assert call(hostile(way)).text.endswith("sky over Bern")


def test_a_large_result_is_cut_and_a_picture_named(hostile: Open) -> None:
    result = call(hostile("large"))
    assert len(result.text) < 31_000 and "more characters were left out" in result.text


def test_ten_thousand_tools_are_refused_until_some_are_named(hostile: Open, told: list[str]) -> None:
    assert not look(hostile("many", "10000"))
    assert told == [
        "bad offers more than 128 tools, the limit; choose some with tools = [...] in [mcp.bad]; "
        "continuing without its tools"
    ]
    server = ToolServer("bad", (sys.executable, str(HOSTILE), "many", "200"), tools=("tool7", "tool99"))
    toolset = Toolset(lambda: {"bad": server}, told.append)
    assert [one.name for one in toolset.look(["bad"])] == ["tool7", "tool99"]
    toolset.close(["bad"])


def test_a_list_without_an_end_is_left(hostile: Open, told: list[str]) -> None:
    assert [one.name for one in look(hostile("endless"))] == ["weather"]
    assert set(told) == {"bad has two tools weather; the first is taken"}


def test_names_that_nobody_could_read_are_left_out(hostile: Open, told: list[str]) -> None:
    assert [one.name for one in look(hostile("names"))] == ["weather"]
    assert all(text.isprintable() for text in told) and len(told) == 6


def test_descriptions_are_harmless_and_bounded(hostile: Open, told: list[str]) -> None:
    (tool,) = look(hostile("escapes"))
    assert tool.function.description and "\x1b" not in tool.function.description
    assert not {"\x9b", "\u202e", "\x07"} & set(tool.function.description)
    (tool,) = look(hostile("huge"))
    assert len(tool.function.description or "") == 2_000 and "arguments of z" in told[0]
    assert "slow only as a task" in told[1]


def test_a_tool_that_changes_after_it_was_allowed_is_asked_about_again(hostile: Open, tmp_path: Path) -> None:
    toolset = hostile("changes", str(tmp_path / "times"))
    (first,) = look(toolset)
    toolset.allow(first)
    (same,) = look(toolset)
    assert toolset.is_allowed(same) and not toolset.has_changed(same)
    (other,) = look(toolset)
    assert other.name == first.name and not toolset.is_allowed(other) and toolset.has_changed(other)


def test_a_server_that_is_none_is_told_of(told: list[str]) -> None:
    servers = {
        "prints": ToolServer("prints", (sys.executable, str(HOSTILE), "prints")),
        "gone": ToolServer("gone", ("no-such-program",)),
        "ends": ToolServer("ends", (sys.executable, "-c", "raise SystemExit('nothing here')")),
        "bare": ToolServer("bare", (sys.executable, str(HOSTILE)), passed=("NO_SUCH_VARIABLE",)),
    }

    class Quick(Connections):
        def __getitem__(self, server: ToolServer) -> connection.Connection:
            opening = 1.0 if server is servers["prints"] else PATIENCE
            return self._open.setdefault(server, connection.Connection(server, opening=opening))

    toolset = Toolset(lambda: servers, told.append, connections=Quick())
    assert not toolset.look([*servers, "none"])
    assert "prints listed no tools within 1 seconds, so it was stopped; it wrote 'Welcome to my server!'" in told[0]
    assert told[1].startswith("cannot start gone: no-such-program: no such file or directory")
    assert told[2].startswith("ends ended (exit code 1): nothing here")
    assert "NO_SUCH_VARIABLE, which is not set" in told[3]
    assert told[4].startswith("unknown MCP server 'none' in settings.toml")
    before = len(told)
    toolset.look([*servers, "none"])
    assert len(told) == before, "the same is not told again"


def test_two_servers_with_the_same_tool_are_told_apart(told: list[str]) -> None:
    command = (sys.executable, str(HOSTILE))
    servers = {name: ToolServer(name, (*command, name)) for name in ("one", "two")}
    connections = Connections()
    toolset = Toolset(lambda: servers, told.append, connections=connections)
    assert [one.name for one in toolset.look(["one", "two"])] == ["one.weather", "two.weather"]
    toolset.allow(toolset.offered[0])
    assert not toolset.is_allowed(toolset.offered[1])
    connections.close()


def test_two_conversations_that_begin_at_once_share_a_server() -> None:
    server = connection.Connection(ToolServer("good", (sys.executable, str(HOSTILE), "good")), opening=PATIENCE)
    listed = [server.list_tools() for _ in range(2)]
    assert [[tool.name for tool in tools.result(PATIENCE)] for tools in listed] == [["weather"], ["weather"]]
    server.close().result(PATIENCE)


def test_a_server_ends_with_us_also_one_that_would_stay(hostile: Open, told: list[str]) -> None:
    connections = Connections()
    server = ToolServer("bad", (sys.executable, str(HOSTILE), "stays"))
    toolset = Toolset(lambda: {"bad": server}, told.append, connections=connections)
    assert look(toolset)
    task = int(subprocess.check_output(["pgrep", "-P", str(os.getpid()), "-f", "stays"]))  # others have such, too
    connections.close()
    assert b"stays" not in read(Path(f"/proc/{task}/cmdline"))


@pytest.mark.skipif(sys.platform == "win32", reason="it outlives a chatapp that is ended by force there, as docs say")
def test_a_server_ends_when_we_are_killed_also_what_it_started_and_one_that_would_stay() -> None:
    wrapped = ("/bin/sh", "-c", f'"{sys.executable}" "{HOSTILE}" stays; true')  # as npx starts another program
    ours = (
        "from chatapp.conversation.tools.connection import CONNECTIONS\n"
        "from chatapp.settings.tool_servers import ToolServer\n"
        f"CONNECTIONS[ToolServer('bad', {wrapped!r})].list_tools().result()\n"
        "print('listed', flush=True)\n"
        "input()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", ours], stdin=pipe, stdout=pipe) as process:
        assert process.stdout and process.stdout.readline() == b"listed\n"
        group = int(subprocess.check_output(["pgrep", "-P", str(process.pid), "-f", "stays"]))
        process.kill()
        process.wait()
    until(lambda: not is_group(group))


def is_group(number: int) -> bool:
    """Whether a process of a group runs; one that only waits to be buried does not."""
    rows = subprocess.check_output(["ps", "-A", "-o", "pgid=,stat="], text=True).splitlines()
    return any(int(group) == number and state[0] != "Z" for group, state in map(str.split, rows))


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_offline_refuses_another_machine_and_keys_are_not_sent_in_the_clear(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    servers = {
        "far": ToolServer("far", url="http://192.0.2.1/mcp", key_variable="TOOL_KEY"),
        "odd": ToolServer("odd", url="ftp://x"),
    }
    toolset = Toolset(lambda: servers, told.append)
    toolset.look(["far"])
    monkeypatch.setenv("TOOL_KEY", "secret")
    toolset.retry_failed()
    toolset.look(["far", "odd"])
    monkeypatch.setenv(VARIABLE, "1")
    toolset.retry_failed()
    toolset.look(["far"])
    assert "TOOL_KEY, which is not set" in told[0] and "is not encrypted" in told[1] and "is not a URL" in told[2]
    assert "192.0.2.1 is another machine" in told[3] and "secret" not in "".join(told)
    assert issubclass(Offline, Exception) and issubclass(ToolError, Exception)


def test_only_few_variables_reach_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    from chatapp.conversation.tools.stdio import USUAL, environment

    monkeypatch.setenv("SECRET_TOKEN", "1")
    monkeypatch.setenv("WANTED", "2")
    server = ToolServer("x", ("y",), env=(("OWN", "3"),), passed=("WANTED",))
    found = environment(server)
    assert found.keys() <= {*USUAL, "OWN", "WANTED"} and (found["OWN"], found["WANTED"]) == ("3", "2")
    assert found["PATH"] == os.environ["PATH"] and "SECRET_TOKEN" not in found
