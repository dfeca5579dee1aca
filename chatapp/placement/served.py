"""Use a model that the user's own server has open, so that it is not loaded twice."""

import json
import os
import secrets
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from hmac import compare_digest
from pathlib import Path
from time import perf_counter
from typing import Any

from backends import Placement
from chatapp.generation.contract import Engine as EngineContract
from chatapp.generation.contract import Wanted
from chatapp.generation.delta import WAITING, Deltas
from chatapp.generation.errors import GenerationError
from chatapp.generation.options import Options
from chatapp.generation.proxy import ProxyEngine, draw, look
from chatapp.generation.wire import read_delta, write_options
from chatapp.placement.record import UNREADABLE
from chatapp.placement.selection import PlacementOptions
from chatapp.remote.address import Remote
from chatapp.remote.connection import Arrived, Connection, Refused
from chatapp.remote.errors import RemoteError
from chatapp.settings import running
from model_store import Store, StoredModel

Open = Callable[[], EngineContract]
SMALL = 30_000_000
"""Models with up to this many weights are loaded here anyway, which is faster than asking."""


class ServedEngine(ProxyEngine):
    """A model in the user's running server; tokens are counted here, everything else is asked there.

    If the server ends, the model is opened here.
    """

    def __init__(self, connection: Connection, token: str, store: Store, model: StoredModel, open_here: Open) -> None:
        """`open_here` opens the model in this process."""
        start = perf_counter()
        self._connection, self._token, self._name, self._open_here = connection, token, model.name, open_here
        self._here: EngineContract | None = None
        """The model, if it had to be opened here."""
        with self._ask({"call": "facts"}) as events:
            facts = json.loads(next(event for event in events if event).data)
        super().__init__(facts, model.folder, store.tokenizer(model), chats=model.chats)
        self.load_seconds = perf_counter() - start

    @property
    def placement(self) -> Placement:
        """Where it runs."""
        return self._here.placement if self._here else self.session.placement

    # The way to the server

    def _ask(self, asked: Mapping[str, object]) -> closing[Generator[Arrived | None, None, None]]:
        body = {"model": self._name, **asked}
        return closing(self._connection.stream("/engine", body, "lines", {"X-Chatapp-Token": self._token}))

    def _look(self, asked: Mapping[str, Any], wanted: Wanted) -> Any:  # Any: JSON
        """The result of a call, from the server or from here; None if no longer wanted."""
        if not self._here:
            try:
                with self._ask(asked) as events:
                    for event in events:
                        if not wanted():
                            return None
                        if event:
                            return json.loads(event.data)
                self._here = self._open_here()
            except Refused as error:
                raise GenerationError(error.said) from error
            except (RemoteError, json.JSONDecodeError):
                self._here = self._open_here()
        return look(self._here, asked, wanted)

    def _draw(self, asked: Mapping[str, Any], options: Options) -> Deltas:
        """The deltas of a call, from the server, or from here if that ended before the first one."""
        if not self._here:
            told = False
            try:
                for delta in self._read({**asked, "options": write_options(options)}):
                    told = told or delta is not WAITING
                    yield delta
                return
            except Refused as error:
                raise GenerationError(error.said) from error
            except RemoteError:
                if told:
                    raise
                self._here = self._open_here()
        try:
            yield from draw(self._here, asked, options)
        finally:
            self.turns.last_usage = self._here.last_usage

    def _read(self, asked: Mapping[str, object]) -> Deltas:
        self.turns.last_usage = None
        try:
            with self._ask(asked) as events:
                for event in events:
                    if event is None:
                        yield WAITING
                        continue
                    told = json.loads(event.data)
                    if isinstance(told, list):
                        delta = read_delta(told)
                        self.turns.last_usage = delta.usage or self.last_usage
                        yield delta
                    elif "done" in told:
                        return
                    else:
                        raise GenerationError(told["error"]["message"])
        except Refused:
            raise
        except (RemoteError, json.JSONDecodeError) as error:  # an incomplete line
            raise RemoteError(ENDED) from error
        raise RemoteError(ENDED)


ENDED = "the server stopped in the middle of the answer; the text so far is kept; ask again to answer without it"


def find_server(home: Path, options: PlacementOptions, model: StoredModel) -> tuple[Connection, str] | None:
    """A connection to a server that places models as `options` want, and its token; None if there is none.

    What listens at its port must prove that it can read the token before it is told anything.
    """
    found = running.read(home)
    if not found or model.parameters < SMALL or found.pid == os.getpid():
        return None
    if (options.backend or "", options.device or "", options.precision or "") != found.place:
        return None
    connection = Connection(Remote("chatapp", f"http://127.0.0.1:{found.port}"), reaching=1.0)
    nonce = secrets.token_urlsafe(24)
    try:
        proof = connection.ask("/engine/hello", {"nonce": nonce})
    except RemoteError:
        return None
    told = proof.get("proof") if isinstance(proof, dict) else None
    return (connection, found.token) if isinstance(told, str) and compare_digest(told, found.prove(nonce)) else None


def open_served(
    home: Path, store: Store, model: StoredModel, options: PlacementOptions, open_here: Open
) -> ServedEngine | None:
    """Open a model of the user's running server; None if there is none, or it does not offer the model."""
    if not (found := find_server(home, options, model)):
        return None
    try:
        return ServedEngine(*found, store, model, open_here)
    except (RemoteError, StopIteration, *UNREADABLE):
        return None
