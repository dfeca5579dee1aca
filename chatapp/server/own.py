"""The engine's contract for chatapp's own programs, which have the token of their user's server."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from chatapp.generation import Deltas, Engine, Message, Options
from chatapp.generation.contract import Wanted
from chatapp.generation.proxy import describe, draw, look
from chatapp.generation.wire import read_message, read_options, read_surroundings, write_delta
from chatapp.server.asks import check_local, limit
from chatapp.server.bodies import Body
from chatapp.server.guard import matches
from chatapp.server.protocol import LINES, Call, Endpoint, Json, Protocol, line
from chatapp.server.refusals import Refusal
from chatapp.server.service import Stream


class Hello(Body):
    """A nonce, to which only the server of this user knows the answer."""

    nonce: str = Field(min_length=16, max_length=200)


class Asked(Body):
    """A call of the engine; which of the fields count, it says itself."""

    model: str
    call: Literal["facts", "chat", "complete", "infill", "find_lines", "score_lines", "next_token"]
    messages: list[list[Any]] | None = None
    text: str | list[int] = ""
    suffix: str = ""
    options: dict[str, Any] = Field(default_factory=dict)
    begun: list[int] = Field(default_factory=list)
    around: dict[str, Any] | None = None
    texts: list[str] = Field(default_factory=list)
    width: int = Field(4, ge=1, le=64)
    count: int = Field(4, ge=1, le=64)
    file_start: bool = False


@dataclass(frozen=True)
class OwnAsk:
    """A call that is answered by deltas."""

    asked: Asked

    def count(self, engine: Engine) -> int:
        """The tokens of the prompt."""
        asked, (messages, options) = self.asked, read(self.asked)
        if asked.messages is not None:
            return engine.count_chat(messages, asked.begun, think=options.think, tools=options.tools)
        return engine.count_prompt(asked.text, options) if asked.call == "complete" else 0

    def draw(self, engine: Engine, most: int | None) -> Deltas:
        """The deltas."""
        return draw(engine, self.asked.model_dump(), limit(read(self.asked)[1], most))


def read(asked: Asked) -> tuple[list[Message], Options]:
    """Messages and options of a call; Refusal if they cannot be read."""
    if asked.call != "complete" and not isinstance(asked.text, str):
        raise Refusal(400, "tokens are for complete", param="text")
    try:
        read_surroundings(asked.around)
        return [read_message(one) for one in asked.messages or ()], read_options(asked.options)
    except (TypeError, ValueError, KeyError) as error:
        raise Refusal(400, f"the call cannot be read: {error}") from error


async def hello(call: Call, body: Hello) -> None:
    """Prove that this is the server named in the user's file."""
    if not (own := call.service.own):
        raise Refusal(404, "this server is not shared with other programs of its user", code="not_found")
    await call.send_json({"proof": own.prove(body.nonce)})


async def ask(call: Call, body: Asked) -> None:
    """Call the engine."""
    own, sent = call.service.own, call.sent.get("x-chatapp-token", "")
    if not own or not matches(sent, own.token):
        raise Refusal(401, "only programs of this server's user may use it", code="invalid_api_key")
    if body.call in ("chat", "complete", "infill"):
        async with call.answer(body.model, OwnAsk(body)) as stream:
            await call.send_stream(LINES, write_lines(stream))
        return
    async with call.service.use(body.model, call.client) as loaded:
        found = await call.service.wait_for(lambda wanted: answer(loaded.engine, body, wanted))
    await call.send_json(found)


def answer(engine: Engine, asked: Asked, wanted: Wanted) -> Json:
    """The result of a call that generates nothing; ends early if the client leaves."""
    if asked.call == "facts":
        return describe(check_local(engine))
    read(asked)
    return look(engine, asked.model_dump(), wanted)


async def write_lines(stream: Stream) -> AsyncIterator[bytes]:
    """The deltas in lines, and a final line `done`."""
    async for delta in stream:
        yield line(write_delta(delta))
    yield line({"done": True})


def form_error(refusal: Refusal) -> Json:
    """An error in our own form."""
    return {"error": {"message": refusal.message, "code": refusal.code}}


PROTOCOL = Protocol(
    "chatapp",
    (
        Endpoint("POST", "/engine/hello", hello, Hello, "Show who this server is.", open=True),
        Endpoint("POST", "/engine", ask, Asked, "Call the engine; for programs of this user.", open=True),
    ),
    form_error,
    line,
)
