"""Shared by OpenAI's endpoints: fields of requests, figures of answers, the form of errors."""

import time
from collections.abc import Iterable
from typing import Any, Literal
from uuid import uuid4

from pydantic import Field

from chatapp import __version__
from chatapp.generation import Delta, Token
from chatapp.generation.delta import Alternative
from chatapp.server.bodies import Body, SampledBody, TextPart, given, read_bias, read_stop
from chatapp.server.protocol import Json
from chatapp.server.refusals import Refusal
from chatapp.server.service import Stream

FINGERPRINT = f"chatapp-{__version__}"
KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
DONE = b"data: [DONE]\n\n"


class Part(TextPart):
    """A part of a message."""

    type: Literal["text", "input_text", "output_text", "reasoning_text"]
    text: str | None = None
    annotations: Any = Field(None, description="Ignored; answers have it.")  # Any: as the next one
    logprobs: Any = Field(None, description="Ignored; answers have it.")
    cache_control: Any = Field(None, description="Ignored: equal prefixes are never read twice.")
    prompt_cache_breakpoint: Any = Field(None, description="As above.")


class StreamOptions(Body):
    """What a stream tells besides the text."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Requested(SampledBody):
    """What chat completions and completions have in common."""

    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    random_seed: int | None = Field(None, description="seed, as Mistral calls it.")
    logit_bias: dict[str, float] | None = None
    user: str | None = Field(None, description="Metadata; ignored.")
    repeat_penalty: float | None = Field(None, description="repetition_penalty, as llama.cpp and Ollama call it.")
    num_ctx: int | None = Field(None, description="Ignored: the model's own applies.")
    keep_alive: str | int | float | None = Field(None, description="Ignored: the server's own applies.")
    cache_prompt: bool | None = Field(None, description="Ignored: prompts are always cached.")

    def read_common(self) -> dict[str, Any]:  # Any: as Options has them
        """The options under chatapp's names."""
        bias, stop = read_bias(self.logit_bias), read_stop(self.stop)
        drawn = self.random_seed if self.seed is None else self.seed
        seed = None if drawn is None else drawn % 2**64
        penalty = {"repetition_penalty": self.repeat_penalty} | self.knobs()
        return given(**penalty, max_tokens=self.max_tokens, n=self.n, stop=stop, seed=seed, logit_bias=bias)


def read_content(content: str | list[Part] | None, where: str) -> str:
    """The text of a message, given as text or parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if any(part.text is None for part in content):
        raise Refusal(400, f"{where} has a part without its text", param=where, code="missing")
    return "".join(part.text or "" for part in content)


class Choice:
    """One of n replies while it grows."""

    def __init__(self) -> None:
        self.text = self.thinking = ""
        self.tokens: list[Token] = []
        self.finish_reason: str | None = None

    def add(self, delta: Delta, text: str, thinking: str = "") -> None:
        """Add a delta with its text and thinking."""
        self.text += text
        self.thinking += thinking
        self.tokens += delta.tokens
        self.finish_reason = delta.finish_reason or self.finish_reason


def describe_head(prefix: str, kind: str, stream: Stream) -> dict[str, Any]:  # Any: JSON
    """The beginning of every object of an answer."""
    head = {"id": f"{prefix}-{uuid4().hex}", "object": kind, "created": int(time.time())}
    return {**head, "model": stream.model, "system_fingerprint": FINGERPRINT}


def describe_figures(stream: Stream) -> Json:
    """Tokens and timings of a request."""
    usage = {
        "prompt_tokens": stream.prompt_tokens,
        "completion_tokens": stream.completion_tokens,
        "total_tokens": stream.prompt_tokens + stream.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": stream.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": stream.thinking_tokens},
    }
    return {"usage": usage, "timings": describe_timings(stream)}


def describe_timings(stream: Stream) -> Json:
    """Timings in llama.cpp's names, which several clients also look for in OpenAI's answers.

    Generation is measured in wall-clock time, which replies decoded together share.
    """
    timed = [usage for usage in stream.usages if usage.tokens_per_second]
    written = sum(len(usage.latencies) for usage in timed)
    prompt = 1000 * sum(usage.prefill_seconds for usage in stream.usages)
    predicted = 1000 * sum(len(usage.latencies) / usage.tokens_per_second for usage in timed)
    read = stream.prompt_tokens - stream.cached_tokens
    told = spell_timings(read, prompt, written, predicted)
    return told | {"cache_n": stream.cached_tokens, "predicted_n": stream.completion_tokens}


def spell_timings(read: int, prompt: float, written: int, predicted: float) -> dict[str, Any]:  # Any: JSON
    """Tokens read and written, and milliseconds for both, in llama.cpp's names."""
    return {
        "cache_n": 0,
        "prompt_n": read,
        "prompt_ms": prompt,
        "prompt_per_token_ms": prompt / read if read else 0.0,
        "prompt_per_second": 1000 * read / prompt if prompt else 0.0,
        "predicted_n": written,
        "predicted_ms": predicted,
        "predicted_per_token_ms": predicted / written if written else 0.0,
        "predicted_per_second": 1000 * written / predicted if predicted else 0.0,
    }


def describe_tokens(stream: Stream, tokens: Iterable[Token]) -> Json:
    """Log-probabilities in the form of chat completions."""

    def describe(one: Token | Alternative) -> dict[str, Any]:  # Any: JSON
        return {"token": one.text, "logprob": one.logprob, "bytes": stream.list_bytes(one)}

    told = [{**describe(one), "top_logprobs": [describe(other) for other in one.alternatives]} for one in tokens]
    return {"content": told, "refusal": None}


def describe_spelled(tokens: Iterable[Token], offset: int) -> Json:
    """Log-probabilities in the form of completions."""
    found: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for token in tokens:
        found["tokens"].append(token.text)
        found["token_logprobs"].append(token.logprob)
        others = dict[str, float]()
        for other in token.alternatives:
            others.setdefault(other.text, other.logprob)  # of tokens with the same text, the likeliest
        found["top_logprobs"].append(None if token.logprob is None else others)
        found["text_offset"].append(offset)
        offset += len(token.text)
    return found


def form_error(refusal: Refusal) -> Json:
    """An error in OpenAI's form."""
    kind = KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
    return {"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}}
