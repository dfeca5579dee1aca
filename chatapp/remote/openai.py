"""OpenAI's protocol, as OpenAI, vLLM, llama-server, LM Studio, OVMS and chatapp itself speak it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal

from chatapp.generation import FinishReason, GenerationError, Message, Options
from chatapp.generation.options import KNOBS
from chatapp.remote.calls import CallPart, read_tools
from chatapp.remote.connection import Connection
from chatapp.remote.errors import RemoteError
from chatapp.remote.protocol import Chunk, ChunkToken, Counts, Dialect, RemoteModel, Request, describe_messages
from chatapp.remote.reading import Json, as_number, count_in, object_in, parse_object, rows_in, text_in

STANDARD = {name: name for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty")}
DONE = "[DONE]"
LENGTHS = ("max_model_len", "context_length", "context_window", "max_context_length", "loaded_context_length")
"""Names under which servers report a model's context length."""


@dataclass(frozen=True)
class Flavour:
    """A kind of server that speaks the protocol, and its extensions."""

    name: str
    knobs: Mapping[str, str] = field(default_factory=dict)
    """Numeric options beyond OpenAI's: name in Options -> its name."""
    going_on: Mapping[str, object] | None = None
    """Fields that make it continue a begun answer; None if it cannot."""
    several: bool = True
    gaps: Literal["suffix", "infill", ""] = ""
    """How it fills gaps: by a `suffix`, by llama-server's /infill, or not at all."""


PENALTY = {"repetition_penalty": "repetition_penalty", "top_k": "top_k", "min_p": "min_p"}
LLAMA = {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
    "typical_p": "typical_p",
    "top_n_sigma": "top_n_sigma",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "dynamic_temperature": "dynatemp_range",
    "dynamic_exponent": "dynatemp_exponent",
    "dry_multiplier": "dry_multiplier",
    "dry_base": "dry_base",
    "dry_allowed_length": "dry_allowed_length",
}
OURS = {name: name for name in KNOBS}
FLAVOURS = (
    Flavour("openai"),
    Flavour("chatapp", OURS, gaps="suffix"),
    Flavour("vllm", PENALTY, {"add_generation_prompt": False, "continue_final_message": True}),
    Flavour("sglang", PENALTY, {"continue_final_message": True}),
    Flavour("llamacpp", LLAMA, {}, several=False, gaps="infill"),
    Flavour("ovms", {"top_k": "top_k", "repetition_penalty": "repetition_penalty"}),
    Flavour("lmstudio", {"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repeat_penalty"}, several=False),
)


def find_flavour(owner: str) -> Flavour:
    """The flavour of a server whose models have this `owned_by`."""
    called = {"organization_owner": "lmstudio"}.get(owner.lower(), owner.lower())
    return next((one for one in FLAVOURS if one.name == called), FLAVOURS[0])


class OpenAI(Dialect):
    """A server that speaks OpenAI's protocol."""

    limits = ("max_tokens", "stop", "seed", "logprobs", "logit_bias", "tools")

    def __init__(self, flavour: Flavour) -> None:
        self.flavour, self.name, self.several = flavour, flavour.name, flavour.several
        self.called, self.knobs = f"the server ({self.name})", {**STANDARD, **flavour.knobs}
        if "top_k" not in flavour.knobs:  # 0 switches off what the server does not have
            self.defaults = Options(top_k=0)

    def list_models(self, connection: Connection) -> list[RemoteModel]:
        """The server's models."""
        rows = rows_in(connection.ask("/models"), "data")
        if rows is None:
            raise RemoteError(f"{connection.remote.host} lists no models; check the URL, which often ends in /v1")
        return [self._describe(row) for row in rows if isinstance(row.get("id"), str)]

    def _describe(self, row: Json) -> RemoteModel:
        lengths = [count_in(row, name) for name in LENGTHS] + [count_in(row, "meta", "n_ctx_train")]
        abilities = row.get("capabilities")
        known = abilities if isinstance(abilities, list) and self.name == "chatapp" else None
        return RemoteModel(
            row["id"],
            next((length for length in lengths if length), 0),
            can_chat=known is None or "chat" in known,
            can_infill=bool(self.flavour.gaps),
            knows_tools=True,  # the protocol does not say; a server without tools refuses the request
        )

    def find_model(self, connection: Connection, name: str) -> RemoteModel:
        """What the server says about a model, even one that it does not list."""
        known = {one.name: one for one in self.list_models(connection)}
        found = known.get(name) or RemoteModel(name, can_infill=bool(self.flavour.gaps), knows_tools=True)
        if self.name == "llamacpp":  # the context length it was started with
            facts = connection.find("//props")
            started = count_in(facts, "default_generation_settings", "n_ctx")
            found = replace(found, context_length=started or found.context_length)
        return found

    # Requests

    def _options(self, model: str, options: Options, *, chat: bool) -> Json:
        body = self.read_options(options)
        if chat and self.name == "openai" and "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        if self.name == "vllm" and body.get("top_k") == 0:
            body["top_k"] = -1
        body |= {"model": model, "stream": True, "stream_options": {"include_usage": True}}
        if options.n > 1 and self.several:
            body["n"] = options.n
        if options.logit_bias:
            body["logit_bias"] = {str(token): max(-100, min(100, bias)) for token, bias in options.logit_bias.items()}
        if options.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": options.logprobs} if chat else {"logprobs": options.logprobs}
        return body

    def chat(self, model: str, messages: Sequence[Message], options: Options, begun: str) -> Request:
        """The request for a reply."""
        body = self._options(model, options, chat=True) | {"messages": describe_messages(messages, begun)}
        if begun:
            if self.flavour.going_on is None:
                raise GenerationError(f"this kind of server ({self.name}) cannot continue from a token; ask again")
            body |= self.flavour.going_on
        if options.tools:
            body["tools"] = read_tools(options.tools)
        return Request("/chat/completions", body)

    def complete(self, model: str, text: str, options: Options) -> Request:
        """The request for a continuation."""
        return Request("/completions", self._options(model, options, chat=False) | {"prompt": text})

    def infill(self, model: str, prefix: str, suffix: str, options: Options) -> Request:
        """The request to fill a gap."""
        if self.flavour.gaps == "suffix":
            body = self._options(model, options, chat=False) | {"prompt": prefix, "suffix": suffix}
            return Request("/completions", body)
        if self.flavour.gaps != "infill":
            raise GenerationError(f"this kind of server ({self.name}) cannot fill gaps; choose another model")
        body = self._options(model, options, chat=False)
        for name in ("stream_options", "logprobs", "model"):
            body.pop(name, None)
        body["n_predict"] = body.pop("max_tokens", -1)
        return Request("//infill", body | {"input_prefix": prefix, "input_suffix": suffix, "prompt": ""})

    # Events

    def parse(self, data: str) -> Iterator[Chunk]:
        """The content of an event."""
        if data.strip() == DONE:
            yield Chunk(is_last=True)
            return
        event = parse_object(data)
        if "choices" not in event and "content" in event:  # llama-server's /infill
            ended = event.get("stop") is True
            reason: FinishReason = "length" if event.get("stop_type") == "limit" else "stop"
            counts = Counts(count_in(event, "tokens_evaluated"), count_in(event, "tokens_predicted"))
            yield Chunk(
                text_in(event, "content"),
                finish_reason=reason if ended else None,
                counts=counts if ended else None,
                is_last=ended,
            )
            return
        for choice in rows_in(event, "choices") or ():
            yield from self._parse_choice(choice)
        usage, timings = object_in(event, "usage"), object_in(event, "timings")
        if usage or timings:
            cached = count_in(usage, "prompt_tokens_details", "cached_tokens")
            spent = as_number(timings.get("prompt_ms"))
            counts = Counts(
                count_in(usage, "prompt_tokens"),
                count_in(usage, "completion_tokens"),
                cached if cached is not None else count_in(timings, "cache_n"),
                spent / 1000 if spent is not None else None,
            )
            yield Chunk(counts=counts)

    def _parse_choice(self, choice: Json) -> Iterator[Chunk]:
        index = count_in(choice, "index") or 0
        part = object_in(choice, "delta") or object_in(choice, "message") or choice
        tokens = tuple(read_logprobs(choice.get("logprobs")))
        thought, text = text_in(part, "reasoning_content", "reasoning"), text_in(part, "content", "text")
        if thought:
            yield Chunk(thought, index, "thinking", () if text else tokens)
        if text or (tokens and not thought):
            yield Chunk(text, index, "text", tokens)
        if calls := tuple(read_calls(part)):
            yield Chunk(index=index, calls=calls)
        if (refusal := part.get("refusal")) and isinstance(refusal, str):
            yield Chunk(refusal, index)
        if reason := choice.get("finish_reason"):
            yield Chunk(index=index, finish_reason=read_reason(reason))


def read_reason(reason: object) -> FinishReason:
    """Why an answer ended; RemoteError if it was broken off."""
    if reason in ("content_filter", "abort", "error", "cancelled"):
        raise RemoteError(f"the server cut the answer off ({reason})")
    return "length" if reason in ("length", "max_tokens") else "stop"


def read_calls(message: Json) -> Iterator[CallPart]:
    """The parts of tool calls in a message or delta; arguments may be a text or an object."""
    for row in rows_in(message, "tool_calls") or ():
        if isinstance(function := row.get("function"), dict):
            arguments = function.get("arguments")
            told = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
            yield CallPart(text_in(function, "name"), told, count_in(row, "index"), text_in(row, "id"))


def read_logprobs(found: object) -> Iterator[ChunkToken]:
    """The tokens of an event with log-probabilities, in the form of chats or of completions."""
    if not isinstance(found, dict):
        return
    if (rows := rows_in(found, "content")) is not None:
        for row in rows:
            others = rows_in(row, "top_logprobs") or ()
            known = tuple((text_in(one, "token"), as_number(one.get("logprob")) or 0.0) for one in others)
            yield ChunkToken(text_in(row, "token"), as_number(row.get("logprob")), known)
        return
    lists = [found.get(name) for name in ("tokens", "token_logprobs", "top_logprobs")]
    tokens, values, tops = (one if isinstance(one, list) else [] for one in lists)
    for text, value, top in zip_longest(tokens, values[: len(tokens)], tops[: len(tokens)]):
        told = top.items() if isinstance(top, dict) else ()
        known = tuple((name, logprob) for name, one in told if (logprob := as_number(one)) is not None)
        yield ChunkToken(str(text), as_number(value), known)
