"""What the engine needs of a protocol: requests from messages and options, what events say, and what is refused."""

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
"""Options that servers have defaults of their own for."""


@dataclass(frozen=True, slots=True)
class SaidToken:
    """A token, where a server tells them one by one."""

    text: str
    logprob: float | None = None
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """What a server has counted; None where it tells nothing."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    prefill: float | None = None
    """Seconds, by the server's own clock."""


@dataclass(frozen=True, slots=True)
class Said:
    """What an event says of one of the completions."""

    text: str = ""
    index: int = 0
    channel: Channel = "text"
    tokens: tuple[SaidToken, ...] = ()
    calls: tuple[CallPart, ...] = ()
    finish_reason: FinishReason | None = None
    counts: Counts | None = None
    is_last: bool = False
    """Whether it is the mark that ends the stream."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent for one stream."""

    path: str
    body: Json


@dataclass(frozen=True)
class RemoteModel:
    """A model of a server, as far as that tells about it."""

    name: str
    context_length: int = 0
    """0: the server does not tell."""
    can_chat: bool = True
    can_infill: bool = False
    thinking_choices: tuple[Think, ...] = ()
    knows_tools: bool = False


class Dialect(Protocol):
    """How one kind of server is asked."""

    name: str
    kind: Literal["events", "lines"] = "events"
    several: bool = False
    """Whether one request may ask for several completions."""
    tells_logprobs: bool = True
    """Whether it tells how likely the tokens of a text are that it goes on with."""
    ends_silently: bool = False
    """Whether a stream has no mark of its end."""
    defaults: Options = Options()
    """The options to start from."""
    called: str
    """What the user is told that it is."""
    knobs: Mapping[str, str]
    """Numbers that it knows, by their names in Options."""
    limits: Sequence[Limit]
    """Other options that it knows."""
    max_tokens: str = "max_tokens"
    """Its name for that."""
    seeds: int = 2**63
    """How many it knows: most servers read them as signed numbers."""

    def list_models(self, connection: Connection) -> list[RemoteModel]: ...
    def find_model(self, connection: Connection, name: str) -> RemoteModel: ...
    def chat(self, model: str, messages: Sequence[Message], options: Options, begun: str) -> Request: ...
    def complete(self, model: str, text: str, options: Options) -> Request: ...
    def infill(self, model: str, prefix: str, suffix: str, options: Options) -> Request: ...
    def parse(self, data: str) -> Iterator[Said]: ...

    def read_options(self, options: Options) -> Json:
        """The options by the server's names; OptionError names the first that it does not know.

        Numbers that do nothing are sent only where the server might do something otherwise.
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
    """The messages; of those of the model without what it thought, and with what its answer has `begun` with.

    The arguments of calls are texts, or `parsed`; what answers one has its number, and there its name.
    """
    told = [describe_message(one, parsed=parsed) for one in messages]
    return [*told, {"role": "assistant", "content": begun}] if begun else told


def describe_message(message: Message, *, parsed: bool) -> Json:
    """A message."""
    text = split(message.text).answer if message.role == "assistant" else message.text
    told: Json = {"role": message.role, "content": text}
    if message.calls:
        told["tool_calls"] = [describe_call(call, parsed=parsed) for call in message.calls]
    if (call := message.answers) and parsed:
        told["tool_name"] = spell_name(call.name)
    elif call:
        told["tool_call_id"] = call.id
    return told
