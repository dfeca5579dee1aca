"""The saved servers in remotes.toml; their keys are in files of their own, or in the environment."""

import os
import re
import stat
from pathlib import Path
from typing import Any

from backends.suggest import suggest
from chatapp.remote.address import NAME, Remote, parse_url
from chatapp.remote.errors import RemoteError
from chatapp.settings import toml_files
from chatapp.text.files import write_whole

PROTOCOLS = ("openai", "ollama", "kserve")
KEY = "CHATAPP_REMOTE_KEY"
"""The environment variable with the key for a server given by its URL."""
KEY_FORM = re.compile(r"[\x21-\x7e]{1,4096}")
LINES = {"url": "", "protocol": "", "models": (), "key_variable": "", "context": 0}
"""The lines of a server's table, with the defaults, which are not written."""


def read(home: Path) -> dict[str, Remote]:
    """The servers by name; RemoteError says what is wrong with the file."""
    path = home / "remotes.toml"
    found = toml_files.read(path, "servers", RemoteError)
    return {name: _check(path, name, table) for name, table in found.items()}


def _check(path: Path, name: str, table: object) -> Remote:
    """The server that a table describes."""
    if not isinstance(table, dict) or not NAME.fullmatch(name):
        raise RemoteError(f"{name!r} in {path} is not a server; write [NAME] and, below it, url = ...")
    for key, value in table.items():
        if key not in LINES:
            raise RemoteError(f"unknown line {key!r} for {name} in {path}; {suggest(key, LINES, 'use url, ...')}")
        kind: type = list if key == "models" else type(LINES[key])
        texts = value if key == "models" and isinstance(value, list) else ()
        if type(value) is not kind or not all(isinstance(one, str) for one in texts):
            raise RemoteError(f"{key} of {name} in {path} must be {kind.__name__}, not {value!r}")
    if table.get("protocol", "") not in ("", *PROTOCOLS):
        raise RemoteError(f"unknown protocol {table['protocol']!r}; choose from {', '.join(PROTOCOLS)}")
    known: dict[str, Any] = {**table, "models": tuple(table.get("models", ()))}  # Any: checked above
    return Remote(**known | {"name": name, "url": parse_url(known.get("url", ""))})


def find(home: Path, server: str) -> Remote:
    """The server of this name or URL."""
    if "://" in server:
        url = parse_url(server)
        return Remote(url, url, key_variable=KEY)
    known = read(home)
    if server not in known:
        near = suggest(server, known, f"choose from {', '.join(known)}" if known else "to add one: chatapp remote add")
        raise RemoteError(f"unknown server {server!r}; {near}")
    return known[server]


def add(home: Path, remote: Remote, key: str = "") -> None:
    """Save a server, replacing one of the same name, and its key in a private file."""
    if not NAME.fullmatch(remote.name):
        raise RemoteError(f"invalid name {remote.name!r}; use up to 40 letters, digits, dots, - and _")
    known = read(home) | {remote.name: remote}
    if key:
        _check_key(key, f"the key of {remote.name}")
        home.mkdir(parents=True, exist_ok=True)
        path = key_file(home, remote.name)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)  # an existing file would keep its mode
        write_whole(path, key, mode=0o600)
    _write(home, known)


def remove(home: Path, name: str) -> None:
    """Remove a server and its key."""
    known = read(home)
    if find(home, name).name not in known:
        raise RemoteError(f"{name} is not a saved server; to see them: chatapp remote list")
    key_file(home, name).unlink(missing_ok=True)
    _write(home, {other: one for other, one in known.items() if other != name})


def _write(home: Path, known: dict[str, Remote]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    lines = list[str]()
    for name, remote in sorted(known.items()):
        lines.append(f"[{toml_files.write_value(name)}]")
        told = {line: getattr(remote, line) for line in LINES}
        lines += toml_files.write_lines({line: value for line, value in told.items() if value != LINES[line]})
        lines.append("")
    write_whole(home / "remotes.toml", "\n".join(lines), mode=0o600)


# Keys


def key_file(home: Path, name: str) -> Path:
    """The file of a server's key."""
    return home / "keys" / name


def read_key(home: Path, remote: Remote) -> str:
    """A server's key from its variable or its file; empty if it has none."""
    if remote.key_variable:
        key = os.environ.get(remote.key_variable, "").strip()
        if not key and remote.key_variable != KEY:
            raise RemoteError(f"the key of {remote.name} should be in {remote.key_variable}, which is not set")
        source = remote.key_variable
    else:
        path = key_file(home, remote.name)
        try:
            facts = path.stat()
            if os.name != "nt" and (stat.S_IMODE(facts.st_mode) & 0o077 or facts.st_uid != os.getuid()):
                raise RemoteError(f"other users can read the key in {path}; run: chmod 600 {path}")
            key = path.read_text("utf-8").strip()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise RemoteError(f"cannot read the key in {path}: {error}") from error
        source = str(path)
    if key:
        _check_key(key, source)
        remote.refuse_readable_key()
    return key


def _check_key(key: str, source: str) -> None:
    if not KEY_FORM.fullmatch(key):
        raise RemoteError(f"{source} is not a key, which is one line of ASCII without spaces")
