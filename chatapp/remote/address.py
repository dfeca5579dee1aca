"""Names of servers and their models: a URL or a saved name, and MODEL@SERVER."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from chatapp.remote.errors import RemoteError
from chatapp.settings import offline

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""A valid name of a server."""
AT = re.compile(r"@(?=https?://)")
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Remote:
    """A server, and what is known about it."""

    name: str
    """Its saved name, or its URL."""
    url: str
    """Without user, query, fragment or final slash."""
    protocol: str = ""
    """openai, ollama or kserve; empty: to be detected."""
    models: tuple[str, ...] = ()
    """The models it had when it was added, its default first."""
    key_variable: str = ""
    """The environment variable with its key; empty: the key file, if there is one."""
    context: int = 0
    """Context length of its models in tokens, if the user gave it."""

    @property
    def host(self) -> str:
        """The host and, unless it is the default, the port."""
        return urlsplit(self.url).netloc

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine, so that no text leaves."""
        return offline.is_loopback(urlsplit(self.url).hostname or "")

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection is encrypted."""
        return self.url.startswith("https:")

    def refuse_readable_key(self) -> None:
        """Raise RemoteError if a key would be sent unencrypted to another machine."""
        if not (self.is_encrypted or self.is_here):
            raise RemoteError(f"{self.url} is not encrypted: anyone on the network could read the key; use https://")

    @property
    def elsewhere(self) -> str:
        """The host that text is sent to, marked if unencrypted; empty for this machine."""
        if self.is_here:
            return ""
        return self.host if self.is_encrypted else f"{self.host}, unencrypted"


def parse_url(text: str) -> str:
    """The normalised URL of a server; RemoteError says what is wrong with it."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise RemoteError(f"{text!r} is not a URL: {error}") from error
    if parts.scheme not in PORTS or not parts.hostname or port == 0 or re.search(r"[\s\x00-\x1f\\]", text):
        raise RemoteError(f"{text!r} is not a URL, such as http://localhost:8000")
    if "@" in parts.netloc:
        raise RemoteError("a URL must not contain a user or password; use a key instead: see chatapp remote --help")
    if parts.query or parts.fragment:
        raise RemoteError(f"{text!r} must not contain ? or #; end it with the path")
    return text.rstrip("/")


def split_model(name: str) -> tuple[str, str] | None:
    """Model and server of MODEL@SERVER; None for the name of a local model."""
    if found := AT.search(name):
        return name[: found.start()], name[found.end() :]
    model, at, server = name.rpartition("@")
    return (model, server) if at and NAME.fullmatch(server) else None


def join_model(model: str, server: str) -> str:
    """The name of a server's model; an empty model means its default."""
    return f"{model}@{server}"


def check_online(remote: Remote) -> None:
    """Raise Offline for a server on another machine if the network is forbidden."""
    if offline.wanted() and not remote.is_here:
        raise offline.Offline(
            f"{remote.host} is another machine, which --offline or {offline.VARIABLE} forbids; nothing was sent"
        )
