"""Servers of tools in settings.toml: what is read, what is refused, and how one is added and taken away."""

from pathlib import Path

import pytest

from chatapp.settings import settings, tool_servers
from chatapp.settings.tool_servers import ToolServer, ToolServerError

MINE = 'theme = "paper"  # mine\n\n[mcp.old]\ncommand = ["a"]\n# a word on it\n\n[mcp.old.env]\nX = "1"\n'
FILES = ToolServer("files", ("npx", "-y", 'a "b"'), env=(("A", 'b"c'),), passed=("HOME",), seconds=5.0)


def test_servers_are_added_and_taken_away_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "home" / "settings.toml"
    tool_servers.add(path, FILES)
    web = ToolServer("web", url="https://x.org/mcp", key_variable="KEY", tools=("a", "b"))
    tool_servers.add(path, web)
    assert settings.read(path).mcp == {"files": FILES, "web": web}
    tool_servers.remove(path, "files")
    assert settings.read(path).mcp == {"web": web}
    path.write_text(MINE)
    tool_servers.add(path, web)
    assert path.read_text().startswith(MINE) and list(settings.read(path).mcp) == ["old", "web"]
    tool_servers.remove(path, "old")
    assert path.read_text().startswith('theme = "paper"  # mine\n') and list(settings.read(path).mcp) == ["web"]


def test_what_cannot_be_changed_line_by_line_is_left(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('mcp = { old = { command = ["a"] } }\n')
    with pytest.raises(ToolServerError, match="change the table"):
        tool_servers.add(path, FILES)
    with pytest.raises(ToolServerError, match="change the table"):
        tool_servers.remove(path, "old")
    assert path.read_text() == 'mcp = { old = { command = ["a"] } }\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcp = 1", "must be tables"),
        ("[mcp.'a b']\ncommand = ['x']", "is not a server"),
        ("[mcp.a]", "needs either command"),
        ("[mcp.a]\ncommand = ['x']\nurl = 'http://x'", "needs either command"),
        ("[mcp.a]\ncomand = ['x']", "unknown line 'comand'.*command"),
        ("[mcp.a]\ncommand = 'x y'", "must be a list of texts"),
        ("[mcp.a]\ncommand = ['x']\nseconds = 0", "from 1 to 3600"),
        ("[mcp.a]\ncommand = ['x']\nenv = { 'a b' = 'c' }", "must be a table of texts"),
        ("[mcp.a]\ncommand = ['x']\npass = ['a=b']", "names of environment variables"),
        ("[mcp.a]\ncommand = ['x']\nkey_variable = 'K'", "is for a url"),
        ("[mcp.a]\nurl = 'http://x'\nenv = { A = 'b' }", "takes no environment"),
    ],
)
def test_what_is_no_server_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "settings.toml").write_text(text)
    with pytest.raises(ToolServerError, match=message):
        settings.read(tmp_path / "settings.toml")


def test_the_same_name_is_not_given_twice(tmp_path: Path) -> None:
    tool_servers.add(tmp_path / "settings.toml", FILES)
    with pytest.raises(ToolServerError, match="already"):
        tool_servers.add(tmp_path / "settings.toml", FILES)
    with pytest.raises(ToolServerError, match="choose from files|did you mean"):
        tool_servers.remove(tmp_path / "settings.toml", "nothing")
