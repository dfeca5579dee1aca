"""The server's settings: where it listens, who may ask, and limits."""

import re
from dataclasses import dataclass
from pathlib import Path

from chatapp.settings.offline import is_loopback
from chatapp.settings.settings import SettingsError
from chatapp.text.errors import UsageError

PORT = 11434
"""Ollama's port, which most clients try by default."""
HOST = re.compile(r"[\w-]+(\.[\w-]+)*")
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+")
"""The form in which browsers send a web page's origin."""
SHORTEST_KEY = 16
"""Minimum characters of a key, against guessing."""


@dataclass(frozen=True)
class ServerSettings:
    """The server's settings; sizes in bytes, times in seconds."""

    host: str = "127.0.0.1"
    port: int = PORT
    keys: tuple[str, ...] = ()
    """Every request must have one of them, if there are any."""
    origins: tuple[str, ...] = ()
    """Web pages that may ask, besides the server's own."""
    hosts: tuple[str, ...] = ()
    """Host names of the server, besides those of this machine."""
    certificate: Path | None = None
    private_key: Path | None = None
    models: tuple[str, ...] = ()
    """Opened at the start and kept; the first one is the default."""
    places: int = 8
    """Maximum requests answered at the same time."""
    queue: int = 64
    """Maximum waiting requests."""
    patience: float = 120.0
    """How long a request may wait for a place."""
    timeout: float = 600.0
    """How long an answer may take."""
    max_body: int = 16 << 20
    max_prompt: int | None = None
    """Maximum tokens of a prompt; None: the model's context length."""
    max_tokens: int | None = None
    """Maximum tokens of an answer; None: the model's context length."""
    memory: int | None = None
    """For all models together; None: a share of this machine's."""
    keep_alive: float = 1800.0
    """How long an unused model stays open."""
    drain: float = 30.0
    """How long running answers may take when the server ends."""
    log_requests: bool = False
    """Whether request bodies are logged."""

    def __post_init__(self) -> None:
        if not self.host:  # would mean every address of this machine
            raise UsageError("--host is empty; give an address, such as 127.0.0.1, or leave it out")
        if re.fullmatch(r"[^:]*:\d*", self.host):
            raise UsageError(f"--host {self.host} contains a port; give it with --port")
        if self.host.startswith("["):
            raise UsageError(f"--host {self.host} is in URL form; leave out the brackets")
        if not self.is_local and not self.keys:
            raise UsageError(
                f"{self.host} is reachable from other machines and needs keys; add --keys FILE, or listen on 127.0.0.1"
            )
        if bool(self.certificate) != bool(self.private_key):
            raise UsageError("TLS needs a certificate and its key; give both --tls-cert and --tls-key")
        if not self.timeout:
            raise UsageError("--timeout 0 would end every answer before it begins; give a longer time, such as 10m")
        if self.memory == 0:
            raise UsageError("--memory 0 leaves no room for a model; give a size, such as 8GB")
        for host in self.hosts:
            if not HOST.fullmatch(host):
                raise UsageError(f"--allow-host {host!r} is not a host name; write it without http:// and port")
        if "*" in self.origins:
            raise UsageError("--allow-origin * would let every web page use the server; name the pages that may")
        for origin in self.origins:
            if not ORIGIN.fullmatch(origin):
                raise UsageError(
                    f"--allow-origin {origin!r} is not an origin, such as https://chat.example or "
                    "http://localhost:3000: in lower case, with nothing after the host and port"
                )

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        return is_loopback(self.host)


def read_keys(path: Path) -> tuple[str, ...]:
    """The keys in a file, one per line; lines that begin with # are skipped."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not a text file; write one key per line into it") from error
    keys = tuple(key for line in lines if (key := line.strip()) and not key.startswith("#"))
    if not keys:
        raise SettingsError(f"no key in {path}; write one per line into it")
    if short := next((number for number, key in enumerate(keys, 1) if len(key) < SHORTEST_KEY), 0):
        raise SettingsError(f"key {short} of {path} is shorter than {SHORTEST_KEY} characters; choose a longer one")
    return keys
