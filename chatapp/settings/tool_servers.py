"""Tool servers in settings.toml: how each is started or reached."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.errors import UserError
from backends.suggest import suggest
from chatapp.settings import toml_files
from chatapp.text.files import write_whole

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
KINDS = {
    "command": "a list of texts, the program first",
    "url": "a text in quotes",
    "env": "a table of texts",
    "pass": "a list of names of environment variables",
    "key_variable": "the name of an environment variable",
    "tools": "a list of names of tools",
    "seconds": "a number from 1 to 3600",
}
"""The lines a server's table may have, and what each must be."""


class ToolServerError(UserError):
    """The description of a tool server is invalid."""


@dataclass(frozen=True)
class ToolServer:
    """A tool server: a program to start, or a URL."""

    name: str
    command: tuple[str, ...] = ()
    """The program and its arguments; empty if there is a URL."""
    url: str = ""
    env: tuple[tuple[str, str], ...] = ()
    """Variables that the program gets besides the usual few."""
    passed: tuple[str, ...] = ()
    """Variables of chatapp's own environment that it gets as well."""
    key_variable: str = ""
    """The environment variable that holds the key for the URL."""
    tools: tuple[str, ...] = ()
    """The tools to offer; empty: all."""
    seconds: float = 60.0
    """The time limit of a call."""

    @property
    def place(self) -> str:
        """Its URL, or its command line."""
        return self.url or " ".join(self.command)


def read(table: object, where: str) -> dict[str, ToolServer]:
    """The servers of the table `mcp`, by name; ToolServerError says what is wrong."""
    if not isinstance(table, dict):
        raise ToolServerError(f"mcp in {where} must be tables: write [mcp.NAME] and, below it, command = [...]")
    return {name: _read_one(name, one, where) for name, one in table.items()}


def _read_one(name: str, table: object, where: str) -> ToolServer:
    if not isinstance(table, dict) or not NAME.fullmatch(name):
        raise ToolServerError(
            f"{name!r} in {where} is not a server: write [mcp.NAME], of up to 40 letters, digits, - and _"
        )
    for line, value in table.items():
        if line not in KINDS:
            hint = suggest(line, KINDS, f"choose from {', '.join(KINDS)}")
            raise ToolServerError(f"unknown line {line!r} in [mcp.{name}] of {where}; {hint}")
        if not _fits(line, value):
            raise ToolServerError(f"{line} in [mcp.{name}] of {where} must be {KINDS[line]}, not {value!r}")
    if bool(table.get("command")) == bool(table.get("url")):
        raise ToolServerError(f"[mcp.{name}] of {where} needs either command = [...] or url = ...")
    if table.get("url") and ("env" in table or "pass" in table):
        raise ToolServerError(f"[mcp.{name}] of {where} has a url, which takes no environment; leave out env and pass")
    if table.get("command") and "key_variable" in table:
        raise ToolServerError(f"key_variable in [mcp.{name}] of {where} is for a url; for a command, use pass = [...]")
    return ToolServer(
        name,
        tuple(table.get("command", ())),
        table.get("url", ""),
        tuple(table.get("env", {}).items()),
        tuple(table.get("pass", ())),
        table.get("key_variable", ""),
        tuple(table.get("tools", ())),
        float(table.get("seconds", ToolServer.seconds)),
    )


def _fits(line: str, value: object) -> bool:
    """Whether the value of a line is valid."""
    match line:
        case "command" | "tools" | "pass":
            names = VARIABLE if line == "pass" else re.compile(r"[^\0]+")
            return isinstance(value, list) and all(isinstance(one, str) and names.fullmatch(one) for one in value)
        case "env":
            return isinstance(value, dict) and all(
                isinstance(text, str) and VARIABLE.fullmatch(name) and "\0" not in text for name, text in value.items()
            )
        case "seconds":
            return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 3600
    return isinstance(value, str) and (line != "key_variable" or bool(VARIABLE.fullmatch(value)))


def add(path: Path, server: ToolServer) -> None:
    """Append a server to a settings file without changing any other line."""
    text = toml_files.read_text(path) if path.exists() else ""
    found = toml_files.parse(text)
    if server.name in found.get("mcp", {}):
        raise ToolServerError(f"server {server.name} already exists; to remove it: chatapp mcp remove {server.name}")
    lines = [f"[mcp.{server.name}]", *toml_files.write_lines(_lines(server))]
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    _replace(
        path,
        text + gap + "\n".join(lines) + "\n",
        found | {"mcp": found.get("mcp", {}) | {server.name: _lines(server)}},
    )


def remove(path: Path, name: str) -> None:
    """Remove a server's table from a settings file without changing any other line."""
    text = toml_files.read_text(path) if path.exists() else ""
    found = toml_files.parse(text)
    servers = dict(found.get("mcp", {}))
    if name not in servers:
        known = suggest(name, servers, f"choose from {', '.join(servers)}" if servers else "there are none")
        raise ToolServerError(f"unknown server {name!r}; {known}")
    del servers[name]
    tables = re.compile(rf"(?ms)^[ \t]*\[mcp\.([\"']?){re.escape(name)}\1(?:\.env)?\][^\n]*\n?.*?(?=^[ \t]*\[|\Z)")
    rest = {key: value for key, value in found.items() if key != "mcp"} | ({"mcp": servers} if servers else {})
    _replace(path, tables.sub("", text), rest)


def _lines(server: ToolServer) -> dict[str, Any]:  # Any: TOML
    """The lines of a server's table, without defaults."""
    told: dict[str, Any] = {
        "command": list(server.command),
        "url": server.url,
        "env": dict(server.env),
        "pass": list(server.passed),
        "key_variable": server.key_variable,
        "tools": list(server.tools),
    }
    return {line: value for line, value in told.items() if value} | (
        {"seconds": server.seconds} if server.seconds != ToolServer.seconds else {}
    )


def _replace(path: Path, text: str, wanted: Mapping[str, object]) -> None:
    """Write an edited settings file, unless it no longer parses to the wanted settings."""
    try:
        fits = toml_files.parse(text) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise ToolServerError(f"cannot change the table [mcp.NAME] in {path}; edit it by hand")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
