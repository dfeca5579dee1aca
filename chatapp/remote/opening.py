"""Detects a server's protocol and opens one of its models."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter

from chatapp.remote import remotes
from chatapp.remote.address import Remote, check_online, join_model
from chatapp.remote.connection import Connection
from chatapp.remote.engine import RemoteEngine
from chatapp.remote.errors import RemoteError
from chatapp.remote.kserve import KServe
from chatapp.remote.ollama import Ollama
from chatapp.remote.openai import OpenAI, find_flavour
from chatapp.remote.protocol import Dialect
from chatapp.remote.reading import as_object, rows_in, text_in

OTHERS = {"ollama": Ollama, "kserve": KServe}
"""Dialects besides OpenAI's."""
OLLAMA = "library"
"""The `owned_by` of Ollama's models."""


def connect(home: Path, remote: Remote, key: str = "") -> tuple[Connection, Dialect]:
    """A connection to a server and its dialect; `key` overrides the saved one."""
    check_online(remote)
    key = key or remotes.read_key(home, remote)
    connection = Connection(remote, key)
    return (connection, OTHERS[remote.protocol]()) if remote.protocol in OTHERS else find_out(connection)


def find_out(connection: Connection) -> tuple[Connection, Dialect]:
    """Detect a server's protocol by the path at which it lists models."""
    remote, only = connection.remote, connection.remote.protocol
    tails = ("",) if remote.url.endswith(("/v1", "/v3")) else ("/v1", "/v3", "")
    for tail in tails:
        rows = rows_in(connection.find(f"{tail}/models"), "data")
        if rows is None:
            continue
        owner = text_in(rows[0], "owned_by") if rows else ""
        if owner == OLLAMA and not only:
            return connection.below(remote.url.removesuffix("/v1")), Ollama()
        if not owner and tail == "/v3":
            owner = "ovms"
        return connection.below(remote.url + tail), OpenAI(find_flavour(owner))
    if only:
        raise RemoteError(f"{remote.host} does not list models as OpenAI's protocol does; check the URL {remote.url}")
    if as_object(connection.find("/api/tags")):
        return connection, Ollama()
    if as_object(connection.find("//v2")):
        return connection, KServe()
    raise RemoteError(
        f"{remote.url} speaks none of the protocols of OpenAI, Ollama and KServe; "
        "check the URL, which often ends in /v1"
    )


def open_remote(home: Path, model: str, server: str) -> tuple[RemoteEngine, str]:
    """Open a server's model (empty: its default); returns the engine and the full name."""
    start = perf_counter()
    remote = remotes.find(home, server)
    connection, dialect = connect(home, remote)
    known = () if model else remote.models or tuple(one.name for one in dialect.list_models(connection))
    if not (model := model or next(iter(known), "")):
        raise RemoteError(f"{remote.host} lists no models; name one: MODEL@{remote.name}")
    found = dialect.find_model(connection, model)
    return RemoteEngine(connection, dialect, found, load_seconds=perf_counter() - start), join_model(model, server)


def look_at(home: Path, remote: Remote, key: str = "") -> Remote:
    """The server with its detected protocol and its list of models."""
    connection, dialect = connect(home, remote, key)
    models = tuple(one.name for one in dialect.list_models(connection))
    protocol = dialect.name if dialect.name in OTHERS else "openai"
    return replace(remote, url=connection.remote.url, protocol=protocol, models=remote.models or models)
