"""A protocol and its endpoints, and the call that an endpoint answers."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from pydantic_core import PydanticSerializationError, to_json

from chatapp.generation import Engine
from chatapp.server.asks import Ask
from chatapp.server.bodies import Anything, Body
from chatapp.server.refusals import Refusal
from chatapp.server.service import Result, Service, Stream

Json = Mapping[str, Any]  # Any: what JSON can hold
EVENTS, LINES = "text/event-stream", "application/x-ndjson"
Event = MutableMapping[str, Any]  # Any: as ASGI has it
Scope = MutableMapping[str, Any]  # Any: as ASGI has it
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


def compact(value: object) -> bytes:
    """JSON on one line without spaces, which llama.vim requires."""
    try:
        return to_json(value)
    except PydanticSerializationError:  # an unpaired surrogate, which a request may contain
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def event(value: object, name: str = "") -> bytes:
    """A server-sent event."""
    return b"%sdata: %s\n\n" % (f"event: {name}\n".encode() if name else b"", compact(value))


def line(value: object) -> bytes:
    """A line of a stream of JSON lines."""
    return compact(value) + b"\n"


@dataclass
class Call:
    """A request, and the means to answer it."""

    service: Service
    scope: Scope
    send: Send
    client: str
    """Identifies the client for fair queueing: a key, or address and program."""
    sent: Mapping[str, str] = field(default_factory=dict)
    """The request's headers."""
    raw: bytes = b""
    """The request's body."""
    headers: Headers = field(default_factory=list)
    """Headers for every answer."""
    media: str = ""
    """The media type of the answer, once begun."""
    complete: bool = False
    """Whether the whole answer was sent."""

    def answer(self, model: str, ask: Ask, keep_alive: float | None = None) -> AbstractAsyncContextManager[Stream]:
        """The stream of an answer, from Service.answer."""
        return self.service.answer(model, ask, self.client, keep_alive=keep_alive)

    async def ask(self, model: str, act: Callable[[Engine], Result]) -> Result:
        """The result of `act` on a model's engine, run in a thread."""
        async with self.service.use(model, self.client) as loaded:
            return await self.service.work(lambda: act(loaded.engine))

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters."""
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1")))

    def path_part(self, name: str) -> str:
        """A named part of the path."""
        return str(self.scope["path_params"][name])

    async def begin(self, status: int, media: str, more: Headers | None = None) -> None:
        """Send the head of the answer."""
        self.media = media
        headers = [(b"content-type", media.encode()), *self.headers, *(more or [])]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, chunk: bytes, *, more: bool = True) -> None:
        """Send a part of the answer."""
        self.complete = not more
        await self.send({"type": "http.response.body", "body": chunk, "more_body": more})

    async def send_bytes(self, content: bytes, media: str, status: int = 200, more: Headers | None = None) -> None:
        """Send a complete answer."""
        length = (b"content-length", str(len(content)).encode())
        await self.begin(status, media, [length, *(more or [])])
        await self.write(content, more=False)

    async def send_json(self, value: object, status: int = 200, more: Headers | None = None) -> None:
        """Send a complete answer as JSON."""
        await self.send_bytes(compact(value), "application/json", status, more)

    async def send_stream(self, media: str, chunks: AsyncIterator[bytes]) -> None:
        """Send an answer in chunks as they come."""
        await self.begin(200, media)
        async for chunk in chunks:
            await self.write(chunk)
        await self.write(b"", more=False)


Handle = Callable[[Call, Any], Awaitable[None]]  # Any: the body, of the endpoint's own kind


@dataclass(frozen=True)
class Endpoint:
    """A path, a method and its handler; `handle` gets None if there is no body."""

    method: str
    path: str
    handle: Handle
    body: type[Body] | None = None
    about: str = ""
    """Its summary in OpenAPI."""
    open: bool = False
    """Whether it needs no key."""
    raw: bool = False
    """Whether `handle` parses the body itself, from `call.raw`."""


@dataclass(frozen=True)
class Protocol:
    """The protocol of one family of clients."""

    name: str
    endpoints: Sequence[Endpoint]
    form_error: Callable[[Refusal], Json]
    form_late: Callable[[Json], bytes] = event
    """Formats an error at the end of a stream that had begun."""


async def refuse_embedding(call: Call, body: Anything) -> None:
    """Refuse: generative models have no embeddings worth comparing."""
    message = "no model here is an embedding model: they write text"
    raise Refusal(400, message, param="model", code="model_not_supported")
