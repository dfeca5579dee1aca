"""OpenAI's completions: texts to continue, and gaps to fill."""

from collections.abc import AsyncIterator
from typing import Any, Literal

from pydantic import Field

from chatapp.server.asks import Gap, Texts
from chatapp.server.bodies import given
from chatapp.server.openai_chat import chunk
from chatapp.server.openai_shapes import DONE, Choice, Requested, describe_figures, describe_head, describe_spelled
from chatapp.server.protocol import EVENTS, Call, Json, event
from chatapp.server.refusals import Refusal, unsupported
from chatapp.server.service import Stream


class CompletionRequest(Requested):
    """Texts to go on with, or a gap to fill where there is a suffix."""

    prompt: str | list[str] | list[int] | list[list[int]]
    suffix: str | None = None
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=20)
    best_of: int | None = None


class FimRequest(Requested):
    """A gap to fill, as Mistral's clients ask for it."""

    prompt: str
    suffix: str | None = None
    n: Literal[1] | None = None
    min_tokens: Literal[0] | None = None
    metadata: Any = Field(None, description="Ignored.")


async def complete(call: Call, body: CompletionRequest) -> None:
    """Continue texts, or fill a gap."""
    ask = read_completion(body)
    async with call.answer(body.model, ask) as stream:
        head = describe_head("cmpl", "text_completion", stream)
        if body.stream:
            await call.send_stream(EVENTS, completion_events(stream, head, body))
        else:
            await call.send_json(await gather_completion(stream, head, body))


def read_prompts(prompt: str | list[str] | list[int] | list[list[int]]) -> list[str | list[int]]:
    """The prompts, given as one or several; Refusal if one is empty."""
    alone = prompt if isinstance(prompt, str) else [one for one in prompt if isinstance(one, int)]
    several = [] if isinstance(prompt, str) else [one for one in prompt if not isinstance(one, int)]
    found = several or [alone]
    if not all(found):
        raise Refusal(400, "prompt is empty; send the text to continue", param="prompt")
    return found


def read_completion(body: CompletionRequest) -> Texts | Gap:
    """What is asked, with its options."""
    prompts = read_prompts(body.prompt)
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise unsupported("best_of", "must equal n, or be left out")
    options, scored = body.read_common() | given(logprobs=body.logprobs), is_scored(body, prompts)
    if scored and body.max_tokens == 0:
        del options["max_tokens"]
    if not body.suffix:
        return Texts(prompts, options, scored, goes_on=body.max_tokens != 0)
    (first, *more) = prompts
    if scored or more or not isinstance(first, str):
        raise unsupported("suffix", "goes with one prompt, in text, and without logprobs of what is echoed")
    return Gap(first, body.suffix, options)


def is_scored(body: CompletionRequest, prompts: list[str | list[int]]) -> bool:
    """Whether prompts are echoed token by token: with log-probabilities, without a continuation, or given as tokens."""
    told = body.logprobs is not None or body.max_tokens == 0 or not isinstance(prompts[0], str)
    return bool(body.echo) and told


async def completion_events(stream: Stream, head: Json, body: CompletionRequest) -> AsyncIterator[bytes]:
    """Texts in chunks; the last one has the usage if wanted."""
    prompts, told = read_prompts(body.prompt), set[int]()
    echo = body.echo and not is_scored(body, prompts)
    offsets = dict[int, int]()
    async for delta in stream:
        text = delta.text
        if echo and delta.tokens and delta.index not in told:
            told.add(delta.index)
            text = f"{prompts[delta.index // (body.n or 1)]}{text}"
        if text or delta.finish_reason or (delta.tokens and body.logprobs is not None):
            start = offsets.get(delta.index, 0)
            offsets[delta.index] = start + sum(len(token.text) for token in delta.tokens)
            logprobs = describe_spelled(delta.tokens, start) if body.logprobs is not None else None
            choice = {"index": delta.index, "text": text, "logprobs": logprobs, "finish_reason": delta.finish_reason}
            yield event({**head, "choices": [choice]})
    if body.stream_options and body.stream_options.include_usage:
        yield event({**head, "choices": [], **describe_figures(stream)})
    yield DONE


async def gather_completion(stream: Stream, head: Json, body: CompletionRequest) -> Json:
    """The complete texts."""
    prompts, n = read_prompts(body.prompt), body.n or 1
    echo = body.echo and not is_scored(body, prompts)
    choices = [Choice() for _ in range(len(prompts) * n)]
    async for delta in stream:
        choices[delta.index].add(delta, delta.text)
    told = [
        {
            "index": index,
            "text": f"{prompts[index // n] if echo else ''}{one.text}",
            "logprobs": describe_spelled(one.tokens, 0) if body.logprobs is not None else None,
            "finish_reason": one.finish_reason,
        }
        for index, one in enumerate(choices)
    ]
    return {**head, "choices": told, **describe_figures(stream)}


async def fill(call: Call, body: FimRequest) -> None:
    """Fill a gap, answering in the form of a chat."""
    async with call.answer(body.model, Gap(body.prompt, body.suffix or "", body.read_common())) as stream:
        head = describe_head("fim", "chat.completion", stream)
        if body.stream:
            await call.send_stream(EVENTS, fim_events(stream, {**head, "object": "chat.completion.chunk"}))
            return
        whole = Choice()
        async for delta in stream:
            whole.add(delta, delta.text)
        message = {"role": "assistant", "content": whole.text, "tool_calls": None}
        choice = {"index": 0, "message": message, "finish_reason": whole.finish_reason}
        await call.send_json({**head, "choices": [choice], **describe_figures(stream)})


async def fim_events(stream: Stream, head: Json) -> AsyncIterator[bytes]:
    """The text of a gap in chunks, each with `content`, which clients expect; the last one has the usage."""
    reason: str | None = None
    async for delta in stream:
        reason = delta.finish_reason or reason
        if delta.text:
            yield event(chunk(head, 0, {"role": "assistant", "content": delta.text}, None))
    yield event({**chunk(head, 0, {"content": ""}, reason), **describe_figures(stream)})
    yield DONE
