"""KServe's second protocol with its generate extension, as Triton speaks it: a text goes in, and goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from chatapp.generation import GenerationError, Message, Options
from chatapp.remote.connection import Connection, Refused
from chatapp.remote.openai import read_reason
from chatapp.remote.protocol import (
    Counts,
    Limit,
    RemoteModel,
    Request,
    Said,
    SaidToken,
    number_in,
    parse_object,
    read_options,
    text_in,
)

KNOBS = {
    name: name
    for name in ("temperature", "top_k", "top_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
}
LIMITS: tuple[Limit, ...] = ("max_tokens", "stop", "seed")


@dataclass(frozen=True)
class KServe:
    """A server that speaks KServe's protocol."""

    name: str = "kserve"
    kind: Literal["events", "lines"] = "events"
    several: bool = False
    tells_logprobs: bool = False
    ends_silently: bool = True
    """Its streams end with the connection's own mark: an answer that is cut off is told from a whole one by that."""

    def defaults(self) -> Options:
        """The options to start from."""
        return Options()

    def list_models(self, connection: Connection) -> list[RemoteModel]:
        """The models of the server, where it has an index of them."""
        try:
            found = connection.post("//v2/repository/index", {})
        except Refused as error:
            if error.status in (401, 403):
                raise
            return []
        rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
        ready = [text_in(row, "name") for row in rows if row.get("state") in (None, "", "READY")]
        return [RemoteModel(name, can_chat=False) for name in ready if name]

    def find_model(self, connection: Connection, name: str) -> RemoteModel:
        """A model, of which the server tells nothing that matters here; Refused where it is not there."""
        connection.get(f"//v2/models/{quote(name, safe='')}")
        return RemoteModel(name, can_chat=False)

    # Requests

    def chat(self, model: str, messages: Sequence[Message], options: Options, begun: str) -> Request:
        """Refused: the protocol has texts, and no messages."""
        raise GenerationError(
            "KServe's protocol goes on with texts, and has no messages: it cannot hold a conversation"
        )

    def complete(self, model: str, text: str, options: Options) -> Request:
        """The request for what follows a text."""
        chosen = read_options(options, KNOBS, LIMITS, "a server with KServe's protocol")
        if options.max_tokens is not None:
            chosen["max_tokens"] = options.max_tokens
        if options.stop:
            chosen["stop"] = list(options.stop)
        if options.seed is not None:
            chosen["seed"] = options.seed % 2**63
        body = {"text_input": text, "parameters": chosen | {"stream": True}}
        return Request(f"//v2/models/{quote(model, safe='')}/generate_stream", body)

    def infill(self, model: str, prefix: str, suffix: str, options: Options) -> Request:
        """Refused: the protocol has no gaps."""
        raise GenerationError("KServe's protocol cannot fill gaps; choose another model")

    # Events

    def parse(self, data: str) -> Iterator[Said]:
        """What an event says; how it ended, where the server tells."""
        event = parse_object(data)
        details = event.get("details")
        details = details if isinstance(details, dict) else {}
        rows = details.get("logprobs")
        listed = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        tokens = tuple(SaidToken(text_in(row, "text"), _logprob(row)) for row in listed)
        if (text := text_in(event, "text_output")) or tokens:
            yield Said(text, tokens=tokens)
        if (told := event.get("usage")) and isinstance(told, str):  # of our exports: JSON
            usage = parse_object(told)
            yield Said(counts=Counts(number_in(usage, "prompt_tokens"), number_in(usage, "completion_tokens")))
        if reason := details.get("finish_reason") or event.get("finish_reason"):
            yield Said(finish_reason=read_reason(reason))


def _logprob(row: dict[str, object]) -> float | None:
    value = row.get("logprob")
    return float(value) if isinstance(value, int | float) else None
