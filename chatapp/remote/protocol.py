"""What the engine needs of a server's protocol: how to build requests and parse events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, Protocol

from chatapp.generation import FinishReason, Message, OptionError, Options
from chatapp.generation.options import KNOBS
from chatapp.generation.text.thinking import Channel, Think, split
from chatapp.remote.calls import CallPart, describe_call, spell_name
from chatapp.remote.connection import Connection
from chatapp.remote.reading import Json

Limit = Literal["max_tokens", "stop", "seed", "n", "logprobs", "logit_bias", "tools"]

ALWAYS_SENT = ("temperature", "top_k", "top_p", "min_p")
"""Options for which servers have their own defaults."""


@dataclass(frozen=True, slots=True)
class ChunkToken:
    """A token, if the server reports tokens."""

    text: str
    logprob: float | None = None
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """The server's own counts; None for what it does not report."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    prefill: float | None = None
    """Seconds by the server's clock."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one event says about one completion."""

    text: str = ""
    index: int = 0
    channel: Channel = "text"
    tokens: tuple[ChunkToken, ...] = ()
    calls: tuple[CallPart, ...] = ()
    finish_reason: FinishReason | None = None
    counts: Counts | None = None
    is_last: bool = False
    """Whether it marks the end of the stream."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request for one stream."""

    path: str
    body: Json


@dataclass(frozen=True)
class RemoteModel:
    """A model as its server describes it."""

    name: str
    context_length: int = 0
    """In tokens; 0 if the server does not say."""
    can_chat: bool = True
    can_infill: bool = False
    thinking_choices: tuple[Think, ...] = ()
    knows_tools: bool = False


class Dialect(Protocol):
    """The protocol of one kind of server."""

    name: str
    kind: Literal["events", "lines"] = "events"
    several: bool = False
    """Whether one request can ask for several completions."""
    tells_logprobs: bool = True
    """Whether it reports log-probabilities."""
    ends_silently: bool = False
    """Whether its streams have no end mark."""
    defaults: Options = Options()
    """Options before the user's choices."""
    called: str
    """Its name in messages to the user."""
    knobs: Mapping[str, str]
    """Numeric options that it takes: name in Options -> its name."""
    limits: Sequence[Limit]
    """Other options that it takes."""
    max_tokens: str = "max_tokens"
    """Its name for max_tokens."""
    seeds: int = 2**63
    """How many seeds it takes: most servers read them as signed integers."""

    def list_models(self, connection: Connection) -> list[RemoteModel]: ...
    def find_model(self, connection: Connection, name: str) -> RemoteModel: ...
    def chat(self, model: str, messages: Sequence[Message], options: Options, begun: str) -> Request: ...
    def complete(self, model: str, text: str, options: Options) -> Request: ...
    def infill(self, model: str, prefix: str, suffix: str, options: Options) -> Request: ...
    def parse(self, data: str) -> Iterator[Chunk]: ...

    def read_options(self, options: Options) -> Json:
        """The options under the server's names; OptionError names the first one it does not take.

        Neutral values are sent only if the server's own default might not be neutral.
        """
        usual = Options()
        body: Json = {}
        for field in fields(Options):
            name, value = field.name, getattr(options, field.name)
            if knob := KNOBS.get(name):
                neutral = knob.off if knob.off >= 0 else knob.default
                if name in self.knobs and (name in ALWAYS_SENT or value != neutral):
                    body[self.knobs[name]] = value
                wrong = name not in self.knobs and value != neutral
            else:
                wrong = name not in ("think", "n", *self.limits) and value != getattr(usual, name)
            if wrong:
                raise OptionError(f"{name} is not passed on to {self.called}: leave it out", name)
        if options.max_tokens is not None:
            body[self.max_tokens] = options.max_tokens
        if options.stop:
            body["stop"] = list(options.stop)
        if options.seed is not None:
            body["seed"] = options.seed % self.seeds
        return body


def describe_messages(messages: Sequence[Message], begun: str = "", *, parsed: bool = False) -> list[Json]:
    """Messages as JSON, those of the model without thinking; `begun` is the start of its next reply.

    `parsed` (Ollama): arguments of calls are objects instead of texts, and results name the tool instead of the call.
    """
    told = [describe_message(one, parsed=parsed) for one in messages]
    return [*told, {"role": "assistant", "content": begun}] if begun else told


def describe_message(message: Message, *, parsed: bool) -> Json:
    """A message as JSON."""
    text = split(message.text).answer if message.role == "assistant" else message.text
    told: Json = {"role": message.role, "content": text}
    if message.calls:
        told["tool_calls"] = [describe_call(call, parsed=parsed) for call in message.calls]
    if (call := message.answers) and parsed:
        told["tool_name"] = spell_name(call.name)
    elif call:
        told["tool_call_id"] = call.id
    return told
