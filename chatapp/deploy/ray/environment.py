"""Ray's environment: no usage statistics, and the token that lets nodes join."""

import os
import secrets
import socket
from importlib.util import find_spec
from pathlib import Path

from chatapp.text.errors import InputError

TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def check_installed() -> None:
    """Raise InputError if Ray is not installed."""
    if find_spec("ray") is None:
        raise InputError("chatapp deploy ray needs Ray, which is not installed; install chatapp with its extra `ray`")


def prepare(home: Path, address: str) -> None:
    """Set Ray's environment; InputError if no cluster answers at the address, or its token is missing."""
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # a machine may be busy
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_DISABLE_IMPORT_WARNING": "1"}
    if address:
        check_reachable(address)
    if any(os.environ.get(name) for name in TOKENS):
        return
    path = home / "deploy" / "ray-token"
    if address and not path.is_file():
        raise InputError(f"this cluster needs a token; copy it to {path}, or set {TOKENS[1]} to its file")
    os.environ[TOKENS[1]] = str(keep_secret(path))


def check_reachable(address: str) -> None:
    """Raise InputError if nothing listens at an address: Ray would retry for many minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 5).close()
    except OSError as error:
        raise InputError(f"nothing answers at {address} ({error.strerror or error}); check Ray's head node") from error


def keep_secret(path: Path) -> Path:
    """The path of a private file with a secret, created on first use."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
    return path
