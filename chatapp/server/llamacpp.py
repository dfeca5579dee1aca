"""llama.cpp's protocol: completion, tokens, templates, properties; `/infill` is in `infill.py`."""

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from chatapp import __version__
from chatapp.generation import Engine, Token
from chatapp.generation.delta import Alternative
from chatapp.server import infill
from chatapp.server.asks import Texts, check_local, check_tokens
from chatapp.server.bodies import Body, SampledBody, given, read_bias, read_mirostat, read_stop, unless_negative
from chatapp.server.openai import list_models
from chatapp.server.openai_chat import ChatMessage, ChatRequest, chat, read_messages
from chatapp.server.openai_completions import read_prompts
from chatapp.server.openai_shapes import describe_timings
from chatapp.server.openai_shapes import form_error as form_openai_error
from chatapp.server.protocol import EVENTS, Call, Endpoint, Json, Protocol, event
from chatapp.server.refusals import Refusal, unsupported
from chatapp.server.service import Stream
from model_store.tokenizers.chat_template import chat_template

KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 501: "not_supported_error"}
HOW = "How to run; ignored."


class CompletionAsked(SampledBody):
    """A text to go on with, in llama.cpp's names."""

    prompt: str | list[int] | list[str]
    model: str = ""
    n_predict: int | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    typ_p: float | None = None
    mirostat: Literal[0, 2] | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    logit_bias: dict[str, float] | list[list[float | str | bool]] | bool | None = None
    n_probs: int | None = Field(None, ge=0, le=20)
    json_schema: dict[str, Any] | None = None
    ignore_eos: bool | None = None
    t_max_predict_ms: int | None = None
    response_fields: list[str] | None = None
    return_tokens: bool | None = None
    cache_prompt: bool | None = Field(None, description=HOW)
    id_slot: int | None = Field(None, description=HOW)
    n_keep: int | None = Field(None, description=HOW)
    timings_per_token: bool | None = Field(None, description="Ignored: the last event has them.")

    def read(self) -> dict[str, Any]:  # Any: as Options has them
        """The options under chatapp's names."""
        if self.ignore_eos:
            raise unsupported("ignore_eos", "forbid the end token with logit_bias")
        if self.repeat_last_n not in (None, -1) and self.repeat_penalty not in (None, 1):
            raise unsupported("repeat_last_n", "the penalty covers the whole text: leave it out, or send -1")
        return {**read_mirostat(self.knobs(), self.mirostat)} | given(
            max_tokens=unless_negative(self.max_tokens if self.n_predict is None else self.n_predict),
            stop=read_stop(self.stop or None),
            seed=unless_negative(self.seed),
            typical_p=self.typ_p,
            repetition_penalty=self.repeat_penalty,
            logit_bias=read_pairs(self.logit_bias),
            logprobs=self.n_probs or None,
            json_schema=None if self.json_schema is None else json.dumps(self.json_schema),
        )


def read_pairs(bias: Mapping[str, float] | list[list[float | str | bool]] | bool | None) -> dict[int, float] | None:
    """Token biases, which llama.cpp gives as pairs; false forbids a token."""
    if isinstance(bias, Mapping):
        return read_bias(bias)
    if not isinstance(bias, list):
        return None
    found = dict[int, float]()
    for pair in bias:
        token, value = pair if len(pair) == 2 else (None, None)
        if not isinstance(token, (int, float)) or isinstance(value, str) or value is None or value is True:
            raise unsupported("logit_bias", "must be pairs of a token's id and a number, or false")
        found[int(token)] = float("-inf") if value is False else float(value)
    return found


async def complete(call: Call, body: CompletionAsked) -> None:
    """Continue one or several texts."""
    if body.n_predict == 0:
        raise unsupported("n_predict", "must be 1 or more, or -1 for no limit")
    prompts = read_prompts(body.prompt)
    if len(prompts) > 1 and body.stream:
        raise unsupported("stream", "goes with one prompt")
    reasons = [("limit", "")] * len(prompts)
    async with call.answer(body.model, Texts(prompts, body.read())) as stream:
        told = completion_events(stream, body, reasons)
        if body.stream:
            await call.send_stream(EVENTS, (event(one) async for one in told))
        else:
            answers = await gather(told, reasons)
            picked = [infill.pick(one, body.response_fields) for one in answers]
            await call.send_json(picked[0] if len(picked) == 1 else picked)


async def completion_events(
    stream: Stream, body: CompletionAsked, reasons: list[tuple[str, str]]
) -> AsyncIterator[Json]:
    """The events of an answer, each with `content` and `stop`; the last one has the figures.

    `reasons` is filled with why each text ended, and at which stop string.
    """
    began, length = time.perf_counter(), 0
    async for delta in stream:
        length += len(delta.tokens)
        if delta.finish_reason:
            reason = "word" if delta.stop else "limit" if delta.finish_reason == "length" else "eos"
            reasons[delta.index] = reason, delta.stop or ""
        said: dict[str, Any] = {"index": delta.index, "content": delta.text, "stop": False, "id_slot": 0}
        if body.n_probs and delta.tokens:
            said["completion_probabilities"] = [describe_token(stream, token) for token in delta.tokens]
        if delta.tokens:
            yield {**said, "tokens": [token.id for token in delta.tokens], "tokens_predicted": length}
        if body.t_max_predict_ms and 1000 * (time.perf_counter() - began) > body.t_max_predict_ms:
            break
    reason, word = reasons[0]
    yield {
        "content": "",
        "stop": True,
        "stop_type": reason,
        "stopping_word": word,
        "model": stream.model,
        "tokens_predicted": length,
        "tokens_evaluated": stream.prompt_tokens,
        "tokens_cached": stream.cached_tokens,
        "truncated": False,
        "generation_settings": {"n_ctx": stream.engine.context_length},
        "timings": describe_timings(stream),
    }


async def gather(told: AsyncIterator[Json], reasons: Sequence[tuple[str, str]]) -> list[Json]:
    """The complete answers."""
    events = [one async for one in told]
    last = events.pop()
    found = list[Json]()
    for index, (reason, word) in enumerate(reasons):
        own = [one for one in events if one["index"] == index]
        whole = {**last, "index": index, "stop_type": reason, "stopping_word": word}
        whole["content"] = "".join(one["content"] for one in own)
        whole["tokens"] = [token for one in own for token in one["tokens"]]
        if probabilities := [one for part in own for one in part.get("completion_probabilities", ())]:
            whole["completion_probabilities"] = probabilities
        found.append(whole)
    return found


def describe_token(stream: Stream, token: Token) -> Json:
    """A token with its log-probability and its alternatives."""
    both: Sequence[Token | Alternative] = (token, *token.alternatives)
    found, *others = [
        {"id": one.id, "token": one.text, "bytes": stream.list_bytes(one), "logprob": one.logprob} for one in both
    ]
    return {**found, "top_logprobs": others}


# Tokens and templates


class TokenizeAsked(Body):
    """A text to be cut into tokens."""

    content: str
    model: str = ""
    add_special: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None


class DetokenizeAsked(Body):
    """Tokens to be put together."""

    tokens: list[int]
    model: str = ""


class TemplateAsked(Body):
    """A conversation to be written as the model reads it."""

    messages: list[ChatMessage]
    model: str = ""
    add_generation_prompt: bool | None = None


async def tokenize(call: Call, body: TokenizeAsked) -> None:
    """Send the tokens of a text."""
    await call.send_json({"tokens": await call.ask(body.model, partial(list_tokens, body))})


def list_tokens(body: TokenizeAsked, asked: Engine) -> list[Any]:  # Any: JSON
    """The tokens of a text; control tokens spelled in it are recognised only with `parse_special`.

    `add_special` prepends the tokens that the tokenizer puts before every text.
    """
    engine, text = check_local(asked), body.content
    tokenizer = engine.tokenizer
    marked = body.parse_special and tokenizer.controls(text)
    ids = tokenizer.encode_template(text) if marked else tokenizer.encode(text)
    told = [*tokenizer.start, *ids] if body.add_special else ids
    return [{"id": token, "piece": engine.text_of([token])} for token in told] if body.with_pieces else told


async def detokenize(call: Call, body: DetokenizeAsked) -> None:
    """Send the text of tokens."""
    text = await call.ask(body.model, lambda engine: engine.text_of(check_tokens(engine, body.tokens, "tokens")))
    await call.send_json({"content": text})


async def apply_template(call: Call, body: TemplateAsked) -> None:
    """Send a conversation as rendered text."""
    messages = read_messages(body.messages)
    if body.add_generation_prompt is False:
        raise unsupported("add_generation_prompt", "it always ends with the beginning of the answer; leave it out")
    prompt = await call.ask(body.model, lambda engine: engine.render_chat(messages))
    await call.send_json({"prompt": prompt})


# The server


async def tell_health(call: Call, body: None) -> None:
    """Whether the server is ready; it is not while its first model is being opened."""
    models = call.service.models
    if models.opening.locked() and not models.open:
        error = {"code": 503, "message": "Loading model", "type": "unavailable_error"}
        await call.send_json({"error": error}, 503, [(b"retry-after", b"1")])
    else:
        await call.send_json({"status": "ok"})


async def tell_properties(call: Call, body: None) -> None:
    """Send what llama.vscode asks for first."""
    stored = await call.service.work(lambda: call.service.models.find(call.query.get("model", "")))
    source = await call.service.work(lambda: chat_template(stored.folder) if stored.chats else "")
    await call.send_json(
        {
            "default_generation_settings": {"id": 0, "n_ctx": stored.context_length, "params": {}},
            "total_slots": call.service.settings.places,
            "model_path": stored.name,
            "model_alias": stored.name,
            "chat_template": source or "",
            "modalities": {"vision": False, "audio": False},
            "build_info": f"chatapp-{__version__}",
            "is_sleeping": False,
        }
    )


async def list_slots(call: Call, body: None) -> None:
    """Send the places for requests, and which are taken."""
    queue = call.service.queue
    slots = [{"id": number, "is_processing": number < queue.answering} for number in range(queue.places)]
    await call.send_json(slots)


def form_error(refusal: Refusal) -> Json:
    """An error in llama.cpp's form: OpenAI's, with the status as its code."""
    error = form_openai_error(refusal)["error"]
    kind = KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error")
    return {"error": {**error, "code": refusal.status, "type": kind}}


PROTOCOL = Protocol(
    "llama.cpp",
    (
        Endpoint("GET", "/health", tell_health, about="Whether the server answers", open=True),
        Endpoint("GET", "/props", tell_properties, about="What clients need to know about the model"),
        Endpoint("GET", "/slots", list_slots, about="The slots for requests"),
        Endpoint("GET", "/models", list_models, about="The models on this server"),
        Endpoint("POST", "/chat/completions", chat, ChatRequest, "Answer a conversation, as OpenAI's endpoint does"),
        Endpoint("POST", "/completion", complete, CompletionAsked, "Continue a text"),
        Endpoint("POST", "/completions", complete, CompletionAsked, "Continue a text"),
        Endpoint("POST", "/infill", infill.fill, infill.InfillAsked, "What `chatapp complete` suggests at a position"),
        Endpoint("POST", "/tokenize", tokenize, TokenizeAsked, "The tokens of a text"),
        Endpoint("POST", "/detokenize", detokenize, DetokenizeAsked, "The text of tokens"),
        Endpoint("POST", "/apply-template", apply_template, TemplateAsked, "A conversation as the model reads it"),
    ),
    form_error,
)
