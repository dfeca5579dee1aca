"""What a server is called: an address, or a name that its user gave it; a model of it is MODEL@SERVER."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from chatapp.remote.errors import RemoteError
from chatapp.settings import offline

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""What a server may be called."""
AT = re.compile(r"@(?=https?://)")
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Remote:
    """A server, and what is known of it."""

    name: str
    """As its user calls it, or its address."""
    url: str
    """Without a slash at its end, a user, a query or a fragment."""
    protocol: str = ""
    """openai, ollama or kserve; nothing: to be found out."""
    models: tuple[str, ...] = ()
    """Those it had when it was named, the usual one first."""
    key_variable: str = ""
    """The environment variable that its key is in; nothing: the file with its name, where there is one."""
    context: int = 0
    """Tokens that its models hold, where its user says so."""

    @property
    def host(self) -> str:
        """The host and, where it is not the usual one, the port."""
        return urlsplit(self.url).netloc

    @property
    def is_here(self) -> bool:
        """Whether it is this machine: then no text leaves."""
        return offline.is_loopback(urlsplit(self.url).hostname or "")

    @property
    def is_encrypted(self) -> bool:
        """Whether nobody on the way can read along."""
        return self.url.startswith("https:")

    def refuse_readable_key(self) -> None:
        """Refuse to send it a key that others could read on the way."""
        if not (self.is_encrypted or self.is_here):
            raise RemoteError(f"{self.url} is not encrypted: anybody on the way could read the key; use https://")

    @property
    def elsewhere(self) -> str:
        """The host that texts leave for, and whether others can read along; nothing, where it is this machine."""
        if self.is_here:
            return ""
        return self.host if self.is_encrypted else f"{self.host}, unencrypted"


def parse_url(text: str) -> str:
    """The address of a server; RemoteError tells what is wrong with it."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise RemoteError(f"{text!r} is no web address: {error}") from error
    if parts.scheme not in PORTS or not parts.hostname or port == 0 or re.search(r"[\s\x00-\x1f\\]", text):
        raise RemoteError(f"{text!r} is no web address; write it like http://localhost:8000")
    if "@" in parts.netloc:
        raise RemoteError("an address must not have a user or a password in it; give a key: see chatapp remote --help")
    if parts.query or parts.fragment:
        raise RemoteError(f"{text!r} must end with its path: leave out what begins with ? or #")
    return text.rstrip("/")


def split_model(name: str) -> tuple[str, str] | None:
    """The model and the server of MODEL@SERVER; None of a model that is here."""
    if found := AT.search(name):
        return name[: found.start()], name[found.end() :]
    model, at, server = name.rpartition("@")
    return (model, server) if at and NAME.fullmatch(server) else None


def join_model(model: str, server: str) -> str:
    """The name of a server's model; of its usual one, where none is named."""
    return f"{model}@{server}"


def check_online(remote: Remote) -> None:
    """Refuse a server on another machine where the network must not be used."""
    if offline.wanted() and not remote.is_here:
        raise offline.Offline(
            f"{remote.host} is another machine, and --offline or {offline.VARIABLE} forbids to ask it; nothing was sent"
        )
