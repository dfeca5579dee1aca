"""The engine of a deployed model: if a replica is lost during an answer, another one continues it."""

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
"""Replicas that may be lost in a row without any progress."""
PAUSE = 0.2


class ReplicaLost(Exception):
    """The replica, or the connection to it, was lost."""


class Replicas(Protocol):
    """The replicas of one version; each call goes to any of them."""

    def draw(self, asked: Json) -> Generator[Any, None, None]:
        """What a replica sends in answer to a call, as `Replica.draw`, up to None; may raise ReplicaLost."""

    def look(self, asked: Json) -> Any:
        """The result of a call that generates nothing; may raise ReplicaLost."""


class Diverged(Exception):
    """A replica generated something else than the previous one, as processors round differently."""


@dataclass
class Heard:
    """What was received of an answer, by completion; removes what another replica repeats."""

    tokens: dict[int, list[int]] = field(default_factory=dict)
    text: dict[int, int] = field(default_factory=dict)
    """Number of characters."""
    finished: set[int] = field(default_factory=set)
    """Completions that have ended."""
    _tokens: dict[int, int] = field(default_factory=dict)
    """Number of tokens received from the current replica."""
    _text: dict[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Tokens of all completions."""
        return sum(map(len, self.tokens.values()))

    def begin(self) -> None:
        """Another replica starts over."""
        self._tokens, self._text = {}, {}

    def take(self, delta: Delta) -> Delta | None:
        """The new part of a delta; None if there is none."""
        index = delta.index
        if index in self.finished:
            return None
        known, said = self.tokens.setdefault(index, []), self._tokens.get(index, 0)
        ids = [token.id for token in delta.tokens]
        old = known[said : said + len(ids)]
        if ids[: len(old)] != old:
            raise Diverged
        # Whether this replica is still repeating what was received before.
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
    """A model computed by replicas; tokenisation happens here."""

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

        `on_failover` is called with the seconds between the last output of a lost replica and the next output.
        """
        self._replicas, self._on_failover = replicas, on_failover
        super().__init__(self._look({"call": "facts"}), folder, tokenizer, chats=chats)
        self._origin = lambda: {"digest": digest}

    def _look(self, asked: Json, wanted: Wanted = yes) -> Any:  # Any: JSON
        """The result of a call, retried on other replicas."""
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
        """The deltas of a call, from one or more replicas.

        With a seed, another replica generates the text again step by step, so that it is the same to the last bit;
        without one, it reads the tokens so far at once.
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
                raise ReplicaLost("it ended without an end mark")
            except Diverged:
                if not (exact and resumable):
                    raise nobody("another replica computes different text") from None
                exact = False
            except ReplicaLost as error:
                failed = 0 if heard.count > count else failed + 1
                if failed == TRIES:
                    raise nobody(str(error)) from None
                time.sleep(PAUSE * failed)
            lost = lost or last


def accept(message: Any) -> Any:  # Any: as a replica says it
    """A replica's message; raises Refusal if it refuses, ReplicaLost if it failed."""
    if isinstance(message, dict) and (told := message.get("refused")):
        refusal = Refusal(told["status"], told["message"], param=told["param"], code=told["code"])
        raise refusal if refusal.status < 500 else ReplicaLost(refusal.message)
    return message


def nobody(why: str) -> Refusal:
    """The refusal when no replica could answer."""
    return Refusal(UNAVAILABLE, f"no replica can answer now ({why}); try again later", code="no_replica", retry_after=5)
