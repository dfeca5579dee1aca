"""A model that the user's own server has open already: asked there, so that it is not loaded twice."""

from __future__ import annotations

import base64
import json
import math
import os
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from hmac import compare_digest
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from backends import Placement
from chatapp.generation.contract import Engine as EngineContract
from chatapp.generation.decoding.lines import Line
from chatapp.generation.decoding.preview import Distribution
from chatapp.generation.delta import Delta, Timings
from chatapp.generation.engine import Engine
from chatapp.generation.errors import GenerationError
from chatapp.generation.options import Options, published_options
from chatapp.generation.spoken import read_delta, write_message, write_options, write_surroundings
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.message import Message
from chatapp.generation.text.surroundings import Surroundings
from chatapp.generation.text.tokenizer import open_tokenizer
from chatapp.placement.selection import PlacementOptions
from chatapp.remote.address import Remote
from chatapp.remote.connection import Connection, Refused, Unreachable
from chatapp.remote.errors import RemoteError
from chatapp.settings import running
from model_store import Store, StoredModel

SMALL = 30_000_000
"""Weights up to which a model is opened here all the same: that is sooner done than a server asked."""
WAITING = Delta("", 0, (), None, Timings(0.0, 0.0, 0.0, 0.0), None)


class Elsewhere:
    """The facts of a session that is in another process; what computes is asked there."""

    def __init__(self, context_length: int, vocab_size: int, whole_prompts: bool, placement: Placement) -> None:
        self.context_length, self.vocab_size, self.whole_prompts = context_length, vocab_size, whole_prompts
        self.batch, self.length, self.placement = 1, 0, placement

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        raise AssertionError("the server computes")

    def open_batch(self) -> None: ...
    def rewind(self, length: int) -> None: ...
    def reorder(self, parents: Sequence[int]) -> None: ...


class ServedEngine(Engine):
    """A model of the user's running server: texts and tokens are counted here, and all else is asked there.

    Where the server has ended, the model is opened here, and goes on.
    """

    def __init__(
        self,
        connection: Connection,
        token: str,
        store: Store,
        model: StoredModel,
        open_here: Callable[[], EngineContract],
    ) -> None:
        """`open_here` opens the model in this process."""
        start = perf_counter()
        self._connection, self._token, self._name, self._open_here = connection, token, model.name, open_here
        self._here: EngineContract | None = None
        """The model, where it had to be opened here."""
        facts = self._ask("facts")
        session: Any = Elsewhere(  # Any: it computes nothing
            facts["context_length"], facts["vocab_size"], facts["whole_prompts"], Placement(*facts["placement"])
        )
        tokenizer = open_tokenizer(model.folder, store.tokenizer(model))
        template = ChatTemplate(model.folder) if model.chats else None
        super().__init__(session, tokenizer, template, defaults=published_options(model.folder))
        self.load_seconds = perf_counter() - start

    @property
    def placement(self) -> Placement:
        """Where it runs."""
        return self._here.placement if self._here else self.session.placement

    def chat(
        self, messages: Sequence[Message], options: Options, begun: Sequence[int] = ()
    ) -> Generator[Delta, None, None]:
        """The assistant's reply to a conversation, as Engine.chat."""
        asked = {"messages": list(map(write_message, messages)), "begun": list(begun)}
        return self._draw("chat", asked, options, lambda here: here.chat(messages, options, begun))

    def complete(self, text: str | Sequence[int], options: Options) -> Generator[Delta, None, None]:
        """What may follow a text, as Engine.complete."""
        told = text if isinstance(text, str) else list(text)
        return self._draw("complete", {"text": told}, options, lambda here: here.complete(text, options))

    def infill(
        self, prefix: str, suffix: str, options: Options, around: Surroundings | None = None
    ) -> Generator[Delta, None, None]:
        """What may stand between two texts, as Engine.infill."""
        asked = {"text": prefix, "suffix": suffix, "around": write_surroundings(around)}
        return self._draw("infill", asked, options, lambda here: here.infill(prefix, suffix, options, around))

    def find_lines(
        self,
        prefix: str,
        suffix: str,
        around: Surroundings | None = None,
        *,
        width: int = 4,
        count: int = 4,
        wanted: Callable[[], bool] = lambda: True,
    ) -> list[Line] | None:
        """The likeliest rests of a line, as Engine.find_lines."""
        asked = {"text": prefix, "suffix": suffix, "around": write_surroundings(around), "width": width, "count": count}
        found = self._look("find_lines", asked, wanted)
        if self._here:
            return self._here.find_lines(prefix, suffix, around, width=width, count=count, wanted=wanted)
        lines = found and found["lines"]
        return lines and [Line(text, tuple(tokens), logprob) for text, tokens, logprob in lines]

    def score_lines(
        self,
        prefix: str,
        suffix: str,
        texts: Sequence[str],
        around: Surroundings | None = None,
        *,
        wanted: Callable[[], bool] = lambda: True,
    ) -> list[float] | None:
        """The log-probabilities of lines, as Engine.score_lines."""
        asked = {"text": prefix, "suffix": suffix, "around": write_surroundings(around), "texts": list(texts)}
        found = self._look("score_lines", asked, wanted)
        if self._here:
            return self._here.score_lines(prefix, suffix, texts, around, wanted=wanted)
        scores = found and found["scores"]
        return scores and [-math.inf if score is None else score for score in scores]

    def next_token(
        self, prompt: Sequence[Message] | str, wanted: Callable[[], bool] = lambda: True, *, file_start: bool = False
    ) -> Distribution | None:
        """What the model says about the token that comes next, as Engine.next_token."""
        text = {"text": prompt} if isinstance(prompt, str) else {"messages": list(map(write_message, prompt))}
        found = self._look("next_token", {**text, "file_start": file_start}, wanted)
        if self._here:
            return self._here.next_token(prompt, wanted, file_start=file_start)
        if not found or found["logits"] is None:
            return None
        logits = np.frombuffer(base64.b64decode(found["logits"]), "<f4")
        return Distribution(logits, found["prompt"], self.tokenizer.detokenizer().describe, self.tokenizer)

    # The way to the server

    def _body(self, call: str, asked: Mapping[str, object]) -> dict[str, object]:
        return {"model": self._name, "call": call, **asked}

    def _ask(self, call: str) -> Any:  # Any: JSON
        with closing(self._connection.stream("/engine", self._body(call, {}), "lines", self._headers)) as events:
            return json.loads(next(event for event in events if event).data)

    @property
    def _headers(self) -> dict[str, str]:
        return {"X-Chatapp-Token": self._token}

    def _look(self, call: str, asked: Mapping[str, object], wanted: Callable[[], bool]) -> Any:  # Any: JSON
        """What the server says to a call; None where it is not wanted any more, or has to be asked here."""
        if self._here:
            return None
        try:
            with closing(self._connection.stream("/engine", self._body(call, asked), "lines", self._headers)) as events:
                for event in events:
                    if not wanted():
                        return None
                    if event:
                        return json.loads(event.data)
            raise RemoteError(ENDED)
        except Unreachable:
            self._here = self._open_here()
            return None
        except Refused as error:
            raise GenerationError(error.said) from error

    def _draw(
        self,
        call: str,
        asked: Mapping[str, object],
        options: Options,
        draw_here: Callable[[EngineContract], Generator[Delta, None, None]],
    ) -> Generator[Delta, None, None]:
        """The deltas of a call: from the server, or from here, where that has ended before it was asked."""
        if not self._here:
            body = self._body(call, {**asked, "options": write_options(options)})
            try:
                yield from self._read(body)
                return
            except Unreachable:
                self._here = self._open_here()
            except Refused as error:
                raise GenerationError(error.said) from error
        try:
            yield from draw_here(self._here)
        finally:
            self.turns.last_usage = self._here.last_usage

    def _read(self, body: Mapping[str, object]) -> Generator[Delta, None, None]:
        self.turns.last_usage = None
        try:
            with closing(self._connection.stream("/engine", body, "lines", self._headers)) as events:
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
        except (Refused, Unreachable):
            raise
        except (RemoteError, json.JSONDecodeError) as error:  # a line of which only the beginning came
            raise RemoteError(ENDED) from error
        raise RemoteError(ENDED)


ENDED = "the server ended in the middle of the answer; what it had written stays: /continue goes on with it"


def find_server(home: Path, options: PlacementOptions, model: StoredModel) -> tuple[Connection, str] | None:
    """A connection to the server that has models where `options` want them, and its token; None where there is none.

    What listens at its port must show that it can read the token before it is told anything.
    """
    found = running.read(home)
    if not found or model.parameters < SMALL or found.pid == os.getpid():
        return None
    if (options.backend or "", options.device or "", options.precision or "") != found.place:
        return None
    connection = Connection(Remote("chatapp", f"http://127.0.0.1:{found.port}"), reaching=1.0)
    nonce = secrets.token_urlsafe(24)
    try:
        proof = connection.post("/engine/hello", {"nonce": nonce})
    except RemoteError:
        return None
    told = proof.get("proof") if isinstance(proof, dict) else None
    return (connection, found.token) if isinstance(told, str) and compare_digest(told, found.prove(nonce)) else None


def open_served(
    home: Path,
    store: Store,
    model: StoredModel,
    options: PlacementOptions,
    open_here: Callable[[], EngineContract],
) -> ServedEngine | None:
    """A model of the user's running server; None where there is none, or it has no room for the model."""
    if not (found := find_server(home, options, model)):
        return None
    try:
        return ServedEngine(*found, store, model, open_here)
    except RemoteError:
        return None
