"""What the engine needs of a protocol: requests from messages and options, what events say, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

from chatapp.generation import FinishReason, Message, OptionError, Options
from chatapp.generation.options import KNOBS
from chatapp.generation.text.thinking import Channel, Think, split
from chatapp.remote.calls import CallPart, describe_call, spell_name
from chatapp.remote.connection import Connection, Unreadable
from chatapp.remote.errors import RemoteError

Json = dict[str, Any]  # Any: JSON
Limit = Literal["max_tokens", "stop", "seed", "n", "logprobs", "logit_bias", "tools"]


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

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> Literal["events", "lines"]: ...
    @property
    def several(self) -> bool:
        """Whether one request may ask for several completions."""

    @property
    def tells_logprobs(self) -> bool:
        """Whether it tells how likely the tokens of a text are that it goes on with."""

    @property
    def ends_silently(self) -> bool:
        """Whether a stream has no mark of its end."""

    def list_models(self, connection: Connection) -> list[RemoteModel]: ...
    def find_model(self, connection: Connection, name: str) -> RemoteModel: ...
    def chat(self, model: str, messages: Sequence[Message], options: Options, begun: str) -> Request: ...
    def complete(self, model: str, text: str, options: Options) -> Request: ...
    def infill(self, model: str, prefix: str, suffix: str, options: Options) -> Request: ...
    def parse(self, data: str) -> Iterator[Said]: ...
    def defaults(self) -> Options: ...


def parse_object(data: str) -> Json:
    """The JSON object of an event; RemoteError where it is none, or tells an error."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable("the server breaks off in the middle of an event, or sends what is no JSON") from error
    if not isinstance(found, dict):
        raise Unreadable("the server sends an event that is no JSON object")
    if problem := found.get("error") or (found.get("object") == "error" and found):
        said = problem.get("message", problem) if isinstance(problem, dict) else problem
        raise RemoteError(f"the server broke off: {' '.join(str(said).split())[:300]}")
    return found


def text_in(found: Mapping[str, Any], *names: str) -> str:  # Any: JSON
    """The first text with one of these names; nothing where there is none."""
    return next((value for name in names if isinstance(value := found.get(name), str)), "")


def number_in(found: object, *names: str) -> int | None:
    """The whole number that these names lead to; None where there is none."""
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


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


def read_options(options: Options, knobs: Mapping[str, str], limits: Sequence[Limit], server: str) -> Json:
    """The options that a kind of server knows, by its names; OptionError names the first that it does not.

    `knobs` are the numbers by their names in Options, and what the server calls them. Those that do nothing are sent
    only where the server might do something otherwise.
    """
    usual = Options()
    body: Json = {}
    for field in fields(Options):
        name, value = field.name, getattr(options, field.name)
        if knob := KNOBS.get(name):
            neutral = knob.off if knob.off >= 0 else knob.default
            if name in knobs and (name in ALWAYS_SENT or value != neutral):
                body[knobs[name]] = value
            wrong = name not in knobs and value != neutral
        else:
            wrong = name not in ("think", "n", *limits) and value != getattr(usual, name)
        if wrong:
            raise OptionError(f"{name} is not passed on to {server}: leave it out", name)
    return body


ALWAYS_SENT = ("temperature", "top_k", "top_p", "min_p")
"""Options that servers have defaults of their own for."""
