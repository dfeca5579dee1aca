"""`chatapp mcp`: servers of tools are named, listed, looked at and forgotten."""

import json
import sys
from pathlib import Path

import pytest

from chatapp.cli.main import main

HOSTILE = str(Path(__file__).parents[2] / "support" / "hostile_tool_server.py")


def test_a_server_is_named_and_forgotten(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "list"]) == 0 and "chatapp mcp add" in capsys.readouterr().err
    assert main(["mcp", "add", "far", "https://x.example/mcp", "--key-variable", "K"]) == 0
    assert "go to x.example" in capsys.readouterr().err
    assert main(["mcp", "add", "near", "--env", "A=b=c", "--pass", "HOME", "--", "run", "--fast"]) == 0
    capsys.readouterr()
    assert main(["mcp", "list", "--json"]) == 0
    far, near = json.loads(capsys.readouterr().out)
    assert (far["url"], far["leaves"], near["command"], near["env"]) == (
        "https://x.example/mcp", True, ["run", "--fast"], {"A": "b=c"},
    )  # fmt: skip
    assert main(["mcp", "remove", "far"]) == 0 and main(["mcp", "list"]) == 0
    assert "run --fast" in capsys.readouterr().out


def test_servers_of_other_programs_are_named(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near = {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}, "autoApprove": ["q"]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"near": near, "far": {"url": "http://localhost:9"}}}))
    assert main(["mcp", "import", str(tmp_path / "mcp.json")]) == 0
    assert "autoApprove left out" in capsys.readouterr().err
    assert main(["mcp", "list", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["command"], first["env"], second["url"]) == (["npx", "-y", "x"], {"A": "b"}, "http://localhost:9")
    others = {"a": {"url": "http://b", "headers": {"K": "v"}}, "b": {"command": "x", "env": {"K": "${k}"}}, "c": 1}
    (tmp_path / "mcp.json").write_text(json.dumps({"servers": others}))
    assert main(["mcp", "import", str(tmp_path / "mcp.json")]) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 3 and "headers" in told[0] and "placeholder" in told[1] and "'c'" in told[2]


@pytest.mark.parametrize("text", ["mcp = 1", "[mcp"])
def test_of_damaged_settings_nothing_is_removed(text: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    (home / "settings.toml").write_text(text)
    assert main(["mcp", "remove", "far"]) == 1
    assert "settings.toml" in capsys.readouterr().err and (home / "settings.toml").read_text() == text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["add"], 2, "no server given"),
        (["add", "x"], 2, "no command or URL given"),
        (["add", "x", "http://a/mcp", "b"], 2, "unexpected argument 'b' after the URL"),
        (["add", "x", "ftp://a"], 1, "is not a URL"),
        (["add", "x y", "run"], 1, "is not a server"),
        (["add", "x", "run", "--env", "A"], 2, "--env A has no value"),
        (["add", "x", "http://a.example/mcp", "--key-variable", "K"], 1, "is not encrypted"),
        (["remove", "x"], 1, "unknown server 'x'"),
        (["import"], 2, "no file given"),
        (["import", "pyproject.toml"], 1, "is not valid JSON"),
        (["import", "tests/budgets.json"], 1, "neither mcpServers nor servers"),
        (["tools", "x"], 1, "unknown MCP server 'x'"),
    ],
)
def test_what_cannot_be_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    assert main(["mcp", *words]) == code and message in capsys.readouterr().err


def test_options_of_a_program_are_told_their_place(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["mcp", "add", "x", "npx", "-y", "server"])
    assert end.value.code == 2
    assert "unknown option -y; put the program's own options after --" in capsys.readouterr().err
    assert main(["mcp", "add", "x", "--", "npx", "-y", "server"]) == 0


def test_what_servers_offer_is_listed_harmlessly(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mcp")
    assert main(["mcp", "add", "odd", sys.executable, HOSTILE, "escapes"]) == 0
    capsys.readouterr()
    assert main(["mcp", "add", "gone", "no-such-program"]) == 0
    assert capsys.readouterr().err == "Warning: program 'no-such-program' not found\n"
    capsys.readouterr()
    assert main(["mcp", "tools"]) == 1
    out, err = capsys.readouterr()
    assert "weather" in out and "\x1b" not in out and "cannot start gone" in err
    assert main(["mcp", "tools", "odd", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["parameters"]["required"] == ["city"]


def test_the_package_that_is_missing_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mcp", "mcp.client"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["mcp", "add", "x", sys.executable, HOSTILE]) == 0
    assert main(["mcp", "tools"]) == 1
    assert "pip install mcp" in capsys.readouterr().err
