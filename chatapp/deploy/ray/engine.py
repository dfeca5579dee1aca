"""The engine of a model that replicas compute: where one is lost in the middle of an answer, another goes on."""

import secrets
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from chatapp.generation import Delta, Deltas, Options
from chatapp.generation.contract import Wanted, yes
from chatapp.generation.partial_reply import can_resume
from chatapp.generation.proxy import ProxyEngine
from chatapp.generation.wire import Json, read_delta, write_options
from chatapp.server.refusals import UNAVAILABLE, Refusal

TRIES = 5
"""Replicas that may be lost one after the other without having said anything new."""
PAUSE = 0.2


class ReplicaLost(Exception):
    """The replica that was asked has ended, or the way to it."""


class Replicas(Protocol):
    """Those of one version, any of which may be asked."""

    def draw(self, asked: Json) -> Generator[Any, None, None]:
        """What one of them says to a call, as `Replica.draw` has it, up to None; ReplicaLost."""

    def look(self, asked: Json) -> Any:
        """What one of them tells without writing; ReplicaLost."""


class Diverged(Exception):
    """A replica says something else than the one before it: another processor rounds otherwise."""


@dataclass
class Heard:
    """What was told of an answer, completion by completion; of what is said again, only the rest is told."""

    tokens: dict[int, list[int]] = field(default_factory=dict)
    text: dict[int, int] = field(default_factory=dict)
    """Characters."""
    finished: set[int] = field(default_factory=set)
    """Completions whose end was told."""
    _tokens: dict[int, int] = field(default_factory=dict)
    """How many tokens the replica that is asked now has said."""
    _text: dict[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Tokens of all completions."""
        return sum(map(len, self.tokens.values()))

    def begin(self) -> None:
        """Another replica begins."""
        self._tokens, self._text = {}, {}

    def take(self, delta: Delta) -> Delta | None:
        """What of a delta was not told before; None, if that is nothing."""
        index = delta.index
        if index in self.finished:
            return None
        known, said = self.tokens.setdefault(index, []), self._tokens.get(index, 0)
        ids = [token.id for token in delta.tokens]
        old = known[said : said + len(ids)]
        if ids[: len(old)] != old:
            raise Diverged
        # Whether this replica has yet to say again what was told before.
        again = any(self._tokens.get(one, 0) < len(tokens) for one, tokens in self.tokens.items())
        known += ids[len(old) :]
        self._tokens[index] = said + len(ids)
        begun, told = self._text.get(index, 0), self.text.get(index, 0)
        text = delta.text[max(0, told - begun) :]
        self._text[index] = begun + len(delta.text)
        self.text[index] = max(told, self._text[index])
        if delta.finish_reason:
            self.finished.add(index)
        elif not text and (again if not ids else len(old) == len(ids)):
            return None
        return replace(delta, text=text, tokens=delta.tokens[len(old) :])


class DeployedEngine(ProxyEngine):
    """A model of which replicas compute; its texts and tokens are counted here."""

    def __init__(
        self,
        replicas: Replicas,
        folder: Path,
        tokenizer: Path,
        *,
        chats: bool,
        digest: str = "",
        on_failover: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        """`digest` is the version's.

        `on_failover` is told the seconds from the last word of a replica that was lost to the next one.
        """
        self._replicas, self._on_failover = replicas, on_failover
        super().__init__(self._look({"call": "facts"}), folder, tokenizer, chats=chats)
        self._origin = lambda: {"digest": digest}

    def _look(self, asked: Json, wanted: Wanted = yes) -> Any:  # Any: JSON
        """What a replica says to a call; another one, where that is lost."""
        for place in range(1, TRIES + 1):
            if not wanted():
                break
            try:
                return accept(self._replicas.look(asked))
            except ReplicaLost as error:
                if place == TRIES:
                    raise nobody(str(error)) from None
                time.sleep(PAUSE * place)
        return None

    def _draw(self, asked: Json, options: Options) -> Deltas:
        """The deltas of a call, whichever replicas say them.

        Where the request has a seed, its text is computed again to where it had come, step by step: then it is the
        same to the last bit. Else its tokens are read at once.
        """
        resumable = can_resume(options)
        if options.seed is None and not resumable:
            options = replace(options, seed=secrets.randbits(32))
        exact = options.seed is not None
        seed = secrets.randbits(32)
        heard, failed, lost, last = Heard(), 0, 0.0, time.perf_counter()
        while True:
            more = {} if exact else {"partial": heard.tokens.get(0, []), "seed": seed}
            count = heard.count
            heard.begin()
            try:
                with closing(self._replicas.draw({**asked, **more, "options": write_options(options)})) as messages:
                    for message in messages:
                        if message is None:
                            return
                        for one in accept(message):
                            if delta := heard.take(read_delta(one)):
                                if lost and heard.count > count:
                                    self._on_failover(time.perf_counter() - lost)
                                    lost = 0.0
                                self.turns.last_usage = delta.usage or self.last_usage
                                yield delta
                                last = time.perf_counter()
                raise ReplicaLost("it ended without its end mark")
            except Diverged:
                if not (exact and resumable):
                    raise nobody("another replica computes otherwise") from None
                exact = False
            except ReplicaLost as error:
                failed = 0 if heard.count > count else failed + 1
                if failed == TRIES:
                    raise nobody(str(error)) from None
                time.sleep(PAUSE * failed)
            lost = lost or last


def accept(message: Any) -> Any:  # Any: as a replica says it
    """What a replica says; Refusal where it refuses, ReplicaLost where it fails."""
    if isinstance(message, dict) and (told := message.get("refused")):
        refusal = Refusal(told["status"], told["message"], param=told["param"], code=told["code"])
        raise refusal if refusal.status < 500 else ReplicaLost(refusal.message)
    return message


def nobody(why: str) -> Refusal:
    """The refusal of what no replica has answered."""
    return Refusal(UNAVAILABLE, f"no replica can answer now ({why}); ask again later", code="no_replica", retry_after=5)
