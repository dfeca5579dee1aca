"""llama.cpp's `/infill` for llama.vim and llama.vscode, answered by the completer of `chatapp complete`."""

import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from chatapp.completion.place import AFTER, BEFORE, OpenFile, Place
from chatapp.generation.contract import Wanted
from chatapp.server.asks import Gap
from chatapp.server.bodies import Body, SampledBody, given, read_stop, unless_negative
from chatapp.server.loaded import LoadedModel
from chatapp.server.openai_shapes import describe_timings, spell_timings
from chatapp.server.protocol import EVENTS, Call, Json, event
from chatapp.server.refusals import Refusal, unsupported

HOW = "How to run; ignored."


class Extra(Body):
    """Another file, or a part of one."""

    text: str
    filename: str | None = None
    time: Any = None  # Any: ignored


class InfillAsked(SampledBody):
    """A place in code: what stands before its line, before it in its line, and after it."""

    input_prefix: str = ""
    input_suffix: str = ""
    prompt: str = ""
    input_extra: list[Extra] = []
    model: str = ""
    n_predict: int | None = None
    n_indent: int | None = Field(None, description="Ignored: suggestions end with their block.")
    n_cmpl: int | None = Field(None, ge=1, le=16)
    stop: list[str] | None = None
    stream: bool | None = None
    seed: int | None = None
    response_fields: list[str] | None = None
    t_max_prompt_ms: int | None = Field(None, description=HOW)
    t_max_predict_ms: int | None = None
    samplers: list[str] | None = Field(None, description="Ignored: suggestions are not sampled.")
    cache_prompt: bool | None = Field(None, description=HOW)
    id_slot: int | None = Field(None, description=HOW)

    @property
    def is_drawn(self) -> bool:
        """Whether a text is sampled, instead of taking the likeliest."""
        return bool(self.stream) or (self.seed or 0) > 0 or "temperature" in self.knobs()

    @property
    def place(self) -> Place:
        """The position in code."""
        prefix = self.input_prefix + self.prompt
        others = [OpenFile(Path(one.filename) if one.filename else None, one.text) for one in self.input_extra]
        return Place(prefix[-BEFORE:], self.input_suffix[:AFTER], None, others)


async def fill(call: Call, body: InfillAsked) -> None:
    """Answer with one offer, or several."""
    began = time.perf_counter()
    async with call.service.use(body.model, call.client) as loaded:
        if not loaded.engine.can_infill:
            raise Refusal(501, f"Infill is not supported by this model: {loaded.name} was not trained to fill gaps")
        if body.n_predict == 0:
            await call.service.work(lambda: warm_up(loaded, body))
            found: list[Json] = [{}]
        elif not body.is_drawn:
            texts = await call.service.wait_for(lambda wanted: find_offers(loaded, body, wanted))
            spent = time.perf_counter() - began
            found = await call.service.work(lambda: [describe(loaded, body, text, spent) for text in texts])
        else:
            found = []
    if body.is_drawn and body.n_predict != 0:
        await draw(call, body)
        return
    picked = [pick(one, body.response_fields) for one in found]
    await call.send_json(picked if (body.n_cmpl or 1) > 1 else picked[0])


def warm_up(loaded: LoadedModel, body: InfillAsked) -> None:
    """Read the context into the model's cache before it is needed."""
    place = body.place
    if place.prefix or place.suffix:
        loaded.engine.find_lines(place.prefix, place.suffix, width=1, count=1, wanted=lambda: False)


def find_offers(loaded: LoadedModel, body: InfillAsked, wanted: Wanted) -> list[str]:
    """Texts for the position: single lines if a line break is a stop string, otherwise blocks."""
    end = time.perf_counter() + (body.t_max_predict_ms or 60_000) / 1000
    one_line = "\n" in (body.stop or ())
    with loaded.completing:
        offers = loaded.completer.offers(
            body.place,
            body.n_cmpl or 1,
            invoked=True,
            lines=1 if one_line else None,
            wanted=wanted,
            enough=lambda: time.perf_counter() > end,
        )
    return [cut(offer.text, body.stop or ()) for offer in offers] or [""]


def cut(text: str, stop: Sequence[str]) -> str:
    """A text up to the first stop string."""
    return text[: min((place for each in stop if (place := text.find(each)) >= 0), default=len(text))]


def describe(loaded: LoadedModel, body: InfillAsked, text: str, seconds: float) -> Json:
    """An offer in the form of llama.cpp's completions."""
    read, written = loaded.engine.count_tokens(body.prompt), max(1, loaded.engine.count_tokens(text))
    return {
        "content": text,
        "stop": True,
        "model": loaded.name,
        "truncated": False,
        "tokens_cached": 0,
        "tokens_predicted": written,
        "tokens_evaluated": read,
        "generation_settings": {"n_ctx": loaded.engine.context_length},
        "timings": spell_timings(read, 0.0, written, 1000 * seconds),
    }


async def draw(call: Call, body: InfillAsked) -> None:
    """Answer with a sampled text."""
    if (body.n_cmpl or 1) > 1 and body.stream:
        raise unsupported("stream", "goes with one completion")
    most, seed, stop = unless_negative(body.n_predict), unless_negative(body.seed), read_stop(body.stop or None)
    options = body.knobs() | given(max_tokens=most, n=body.n_cmpl, seed=seed, stop=stop)
    place = body.place
    async with call.answer(body.model, Gap(place.prefix, place.suffix, options)) as stream:
        texts = [""] * (body.n_cmpl or 1)

        async def told() -> AsyncIterator[bytes]:
            async for delta in stream:
                texts[delta.index] += delta.text
                if delta.text:
                    yield event({"index": delta.index, "content": delta.text, "stop": False})
            yield event({"content": "", "stop": True, "timings": describe_timings(stream)})

        if body.stream:
            await call.send_stream(EVENTS, told())
            return
        async for _ in told():
            pass
        figures = {"stop": True, "model": stream.model, "truncated": False, "timings": describe_timings(stream)}
        figures |= {"tokens_cached": stream.cached_tokens, "tokens_predicted": stream.completion_tokens}
        picked = [pick({"content": text, **figures}, body.response_fields) for text in texts]
    await call.send_json(picked if len(picked) > 1 else picked[0])


def pick(answer: Json, fields: list[str] | None) -> Json:
    """The wanted fields of an answer, such as `timings/prompt_n` for a nested one; all if None."""
    if fields is None:
        return answer
    found = dict[str, Any]()
    for name in fields:
        value: Any = answer
        for part in name.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            found[name] = value
    return found
