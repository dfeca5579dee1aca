"""A protocol and its endpoints, and what an endpoint is given to answer one request."""

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
    """JSON in one line without spaces: llama.vim takes no other."""
    try:
        return to_json(value)
    except PydanticSerializationError:  # half a character of UTF-16, which a request may spell
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def event(value: object, name: str = "") -> bytes:
    """An event of a stream of server-sent events."""
    return b"%sdata: %s\n\n" % (f"event: {name}\n".encode() if name else b"", compact(value))


def line(value: object) -> bytes:
    """A line of a stream of lines of JSON."""
    return compact(value) + b"\n"


@dataclass
class Call:
    """A request, and the way to answer it."""

    service: Service
    scope: Scope
    send: Send
    client: str
    """Whose it is, as far as shares are fair: a key, or an address and a program."""
    sent: Mapping[str, str] = field(default_factory=dict)
    """Headers of the request."""
    raw: bytes = b""
    """The body of the request."""
    headers: Headers = field(default_factory=list)
    """Of every answer to it."""
    media: str = ""
    """Of the answer that has begun."""
    complete: bool = False
    """Whether all of the answer was sent."""

    def answer(self, model: str, ask: Ask, keep_alive: float | None = None) -> AbstractAsyncContextManager[Stream]:
        """The stream that answers, as Service.answer gives it."""
        return self.service.answer(model, ask, self.client, keep_alive=keep_alive)

    async def ask(self, model: str, act: Callable[[Engine], Result]) -> Result:
        """What `act` gives of the engine of a model, in a thread."""
        async with self.service.use(model, self.client) as loaded:
            return await self.service.work(lambda: act(loaded.engine))

    @property
    def query(self) -> Mapping[str, str]:
        """What stands behind the question mark of the path."""
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1")))

    def path_part(self, name: str) -> str:
        """A part of the path that the endpoint has named."""
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
        """Send an answer that is all there."""
        length = (b"content-length", str(len(content)).encode())
        await self.begin(status, media, [length, *(more or [])])
        await self.write(content, more=False)

    async def send_json(self, value: object, status: int = 200, more: Headers | None = None) -> None:
        """Send an answer in JSON."""
        await self.send_bytes(compact(value), "application/json", status, more)

    async def send_stream(self, media: str, chunks: AsyncIterator[bytes]) -> None:
        """Send an answer as it is written."""
        await self.begin(200, media)
        async for chunk in chunks:
            await self.write(chunk)
        await self.write(b"", more=False)


Handle = Callable[[Call, Any], Awaitable[None]]  # Any: the body, of the endpoint's own kind


@dataclass(frozen=True)
class Endpoint:
    """A path, a method and what answers; `handle` is given None where there is no body."""

    method: str
    path: str
    handle: Handle
    body: type[Body] | None = None
    about: str = ""
    """For the description in OpenAPI."""
    open: bool = False
    """Whether no key is needed."""
    raw: bool = False
    """Whether the body is left to `handle`, which finds it in the call."""


@dataclass(frozen=True)
class Protocol:
    """What one family of clients speaks."""

    name: str
    endpoints: Sequence[Endpoint]
    form_error: Callable[[Refusal], Json]
    form_late: Callable[[Json], bytes] = event
    """How an error is written at the end of a stream that had begun."""


async def refuse_embedding(call: Call, body: Anything) -> None:
    """Refuse: a model that writes has no embeddings worth comparing."""
    message = "no model here is an embedding model: they write text"
    raise Refusal(400, message, param="model", code="model_not_supported")
