"""Ollama's protocol: chat and generate; its endpoints about models are in `ollama_models.py`."""

import json
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from chatapp.generation import Message, Token, ToolCall
from chatapp.generation.text.thinking import THINK
from chatapp.generation.text.tools import Toolbox
from chatapp.server import ollama_models
from chatapp.server.asks import Ask, Conversation, Gap, Texts
from chatapp.server.bodies import Body, SampledBody, given, read_mirostat, read_stop, unless_negative
from chatapp.server.ollama_models import Named
from chatapp.server.page import read_page
from chatapp.server.protocol import LINES, Call, Endpoint, Json, Protocol, line
from chatapp.server.refusals import Refusal, unsupported
from chatapp.server.service import Stream
from chatapp.server.thinking import Parts
from chatapp.server.tools import Choice, FlatChoice, Tool, choose_tools

VERSION = "0.12.0"
"""The version of Ollama whose protocol this is: clients check that it is new enough."""
UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
PERIOD = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m|h|)")
"""A part of a duration."""
DURATION = re.compile(rf"-?(?:{PERIOD.pattern.removesuffix('|)')})){{1,6}}|-?\d{{1,9}}(?:\.\d{{1,9}})?")
"""A number of seconds, or a duration in Go's notation."""
HOW = "How to run; ignored."


class OllamaOptions(SampledBody):
    """How tokens are chosen, in Ollama's names."""

    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    mirostat: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    num_predict: int | None = None
    num_keep: int | None = Field(None, description=HOW)
    keep_alive: Any = Field(None, description=HOW)
    num_ctx: int | None = Field(None, description=HOW)
    num_batch: int | None = Field(None, description=HOW)
    num_gpu: int | None = Field(None, description=HOW)
    main_gpu: int | None = Field(None, description=HOW)
    num_thread: int | None = Field(None, description=HOW)
    use_mmap: bool | None = Field(None, description=HOW)
    use_mlock: bool | None = Field(None, description=HOW)
    low_vram: bool | None = Field(None, description=HOW)
    numa: bool | None = Field(None, description=HOW)
    f16_kv: bool | None = Field(None, description=HOW)

    def read(self) -> dict[str, Any]:  # Any: as Options has them
        """The options under chatapp's names."""
        if self.repeat_last_n not in (None, -1) and self.repeat_penalty not in (None, 1):
            raise unsupported("repeat_last_n", "the penalty covers the whole text: leave it out, or send -1")
        if self.num_predict == 0:
            raise unsupported("num_predict", "must be 1 or more, or -1 for no limit")
        if self.mirostat not in (None, 0, 2):
            raise unsupported("mirostat", "must be 0 or 2")
        return {**read_mirostat(self.knobs("options."), self.mirostat or 0)} | given(
            repetition_penalty=self.repeat_penalty,
            seed=unless_negative(self.seed),
            stop=read_stop(self.stop),
            max_tokens=unless_negative(self.num_predict),
        )


class Asked(Named, SampledBody):
    """What chat and generate have in common; some clients write numbers beside `options`."""

    stream: bool | None = None
    options: OllamaOptions | None = None
    max_output_tokens: int | None = Field(None, description="`num_predict`, as the AI SDK calls it.")
    keep_alive: str | int | float | None = None
    format: str | dict[str, Any] | None = None
    think: bool | Literal["low", "medium", "high"] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    truncate: bool | None = None
    shift: bool | None = None

    def read(self) -> dict[str, Any]:  # Any: as Options has them
        """The options under chatapp's names."""
        if isinstance(self.format, str) and self.format not in ("", "json"):
            raise unsupported("format", "must be json or a schema")
        own = self.options.read() if self.options else {}
        options = self.knobs() | given(max_tokens=self.max_output_tokens) | own
        if isinstance(self.format, dict):
            options["json_schema"] = json.dumps(self.format)
        elif self.format:
            options["json_object"] = True
        return options | given(think=self.think, logprobs=(self.top_logprobs or 0) if self.logprobs else None)


class OllamaFunction(Body):
    """A function and what it was called with."""

    name: str
    arguments: dict[str, Any] = {}
    index: int | None = None
    description: str | None = None


class OllamaCall(Body):
    """A call that the model has asked for."""

    function: OllamaFunction
    id: str = ""
    type: str | None = None


class OllamaMessage(Body):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    reasoning_content: str | None = Field(None, description="The same, as some clients write it.")
    images: list[str] | None = None
    tool_calls: list[OllamaCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class ChatAsked(Asked):
    """A conversation to be answered; none at all opens the model."""

    messages: list[OllamaMessage] | None = None
    tools: list[Tool] | None = None
    tool_choice: Choice | FlatChoice | None = Field(None, description="As the AI SDK sends it.")


class GenerateAsked(Asked):
    """A prompt to be answered or gone on with, or a gap to fill; none at all opens the model."""

    prompt: str = ""
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None
    images: list[str] | None = None


async def chat(call: Call, body: ChatAsked) -> None:
    """Answer a conversation."""
    if not body.messages:
        await open_or_close(call, body, chat=True)
        return
    choice = body.tool_choice or "auto"
    named = choice if isinstance(choice, str) else choice.name
    tools = choose_tools([tool.function for tool in body.tools or ()], named)
    ask = Conversation([read_message(one) for one in body.messages], tools.keep_to(body.read()))
    await answer(call, body, ask, tools, chat=True)


def read_message(message: OllamaMessage) -> Message:
    """A message for the chat template."""
    if message.images:
        raise unsupported("images", "the models here read only text")
    called = tuple(
        ToolCall(call.function.name, json.dumps(call.function.arguments), call.id) for call in message.tool_calls or ()
    )
    answered = ToolCall(message.tool_name or "", "{}", message.tool_call_id or "") if message.role == "tool" else None
    thought = message.thinking or message.reasoning_content
    text = (thought.join(THINK) if thought else "") + (message.content or "")
    return Message(message.role, text, called, answered)


async def generate(call: Call, body: GenerateAsked) -> None:
    """Answer or continue a prompt, or fill a gap."""
    if body.images:
        raise unsupported("images", "the models here read only text")
    if body.context:
        raise unsupported("context", "send the conversation to /api/chat instead")
    if not body.prompt and not body.suffix:
        await open_or_close(call, body, chat=False)
        return
    await answer(call, body, await read_prompt(call, body), Toolbox(), chat=False)


async def read_prompt(call: Call, body: GenerateAsked) -> Ask:
    """What is asked: for a chat model a conversation, unless the prompt is raw."""
    options, template = body.read(), (body.template or "").replace(" ", "")
    if template not in ("", "{{.Prompt}}"):
        raise unsupported("template", "the model's own is used; leave it out, or send {{ .Prompt }}")
    if body.suffix:
        return Gap(body.prompt, body.suffix, options)
    stored = await call.service.work(lambda: call.service.models.find(body.name_given))
    if stored.chats and not body.raw and not template:
        system = [Message("system", body.system)] if body.system else []
        return Conversation([*system, Message("user", body.prompt)], options)
    if options.pop("think", None):
        raise unsupported("think", "this model continues text and cannot think; leave it out")
    return Texts([f"{body.system}\n\n{body.prompt}" if body.system and not body.raw else body.prompt], options)


async def answer(call: Call, body: Asked, ask: Ask, tools: Toolbox, *, chat: bool) -> None:
    """Answer in lines, or as a whole."""
    started = time.perf_counter()
    async with call.answer(body.name_given, ask, read_keep_alive(body.keep_alive)) as stream:
        lines = answer_lines(stream, body, Parts(tools), started, chat=chat)
        if body.stream is not False:
            await call.send_stream(LINES, (line(one) async for one in lines))
        else:
            await call.send_json(gather([one async for one in lines], chat=chat))


def say(name: str, text: str, *, chat: bool, done: bool = False, **more: Any) -> dict[str, Any]:  # Any: JSON
    """A line of an answer."""
    said = {"message": {"role": "assistant", "content": text, **more}} if chat else {"response": text, **more}
    return {"model": name, "created_at": now(), **said, "done": done}


async def answer_lines(stream: Stream, body: Asked, parts: Parts, started: float, *, chat: bool) -> AsyncIterator[Json]:
    """The lines of an answer; the last one has the figures."""
    reason, name = "stop", body.name_given or stream.model
    async for delta in stream:
        thought, text = parts.add(delta)
        reason = delta.finish_reason or reason
        if thought or text or (delta.tokens and body.logprobs):
            part = say(name, text, chat=chat, **given(thinking=thought or None))
            spelt = [describe_token(stream, one) for one in delta.tokens] if body.logprobs else []
            yield part | given(logprobs=spelt or None)
        if calls := parts.calls.get(delta.index) if delta.finish_reason else None:
            told = [
                {"id": one.id, "function": {"name": one.name, "arguments": json.loads(one.arguments)}} for one in calls
            ]
            yield say(name, "", chat=True, tool_calls=told)
    yield say(name, "", chat=chat, done=True) | {"done_reason": reason, **describe_figures(stream, started)}


def describe_token(stream: Stream, token: Token) -> Json:
    """A token with its log-probability."""
    likeliest = [{"token": other.text, "logprob": other.logprob} for other in token.alternatives]
    found = {"token": token.text, "logprob": token.logprob, "bytes": stream.list_bytes(token)}
    return found | given(top_logprobs=likeliest or None)


def describe_figures(stream: Stream, started: float) -> Json:
    """The figures of an answer; times in nanoseconds."""
    reading = sum(usage.prefill_seconds for usage in stream.usages)
    writing = sum(sum(usage.latencies) for usage in stream.usages)
    return {
        "total_duration": round(1e9 * (time.perf_counter() - started)),
        "load_duration": round(1e9 * stream.queued),
        "prompt_eval_count": stream.prompt_tokens,
        "prompt_eval_duration": round(1e9 * reading),
        "eval_count": stream.completion_tokens,
        "eval_duration": round(1e9 * writing),
    }


def gather(lines: list[Json], *, chat: bool) -> Json:
    """The complete answer."""
    *parts, last = lines
    holders, name = ([part["message"] for part in parts], "content") if chat else (parts, "response")
    said = {name: "".join(one[name] for one in holders)} | given(
        thinking="".join(one.get("thinking", "") for one in holders) or None,
        tool_calls=[found for one in holders for found in one.get("tool_calls", ())] or None,
    )
    logprobs = [token for part in parts for token in part.get("logprobs", ())]
    return {
        **last,
        **({"message": {"role": "assistant", **said}} if chat else said),
        **given(logprobs=logprobs or None),
    }


async def open_or_close(call: Call, body: Asked, *, chat: bool) -> None:
    """Open a model in advance, or close it with keep_alive 0."""
    keep_alive = read_keep_alive(body.keep_alive)
    name = await call.service.work(lambda: call.service.models.resolve(body.name_given))
    if keep_alive == 0 and name in call.service.settings.models:
        raise Refusal(400, f"{name} was given when the server was started, so it stays open", param="keep_alive")
    if keep_alive == 0:
        call.service.models.close(name)
    else:
        async with call.service.use(name, call.client, keep_alive=keep_alive):
            pass
    reason = "unload" if keep_alive == 0 else "load"
    told = say(body.name_given or name, "", chat=chat, done=True) | {"done_reason": reason}
    await (call.send_json(told) if body.stream is False else call.send_bytes(line(told), LINES))


def read_keep_alive(value: str | float | None) -> float | None:
    """Parse keep_alive: seconds, or a duration such as 5m; negative means forever."""
    if value is None:
        return None
    if isinstance(value, str):
        if not DURATION.fullmatch(value):
            raise Refusal(400, f"keep_alive {value[:20]!r} is not a duration, such as 5m or 90s", param="keep_alive")
        seconds = sum(float(count) * UNITS[unit or "s"] for count, unit in PERIOD.findall(value))
        value = -seconds if value.startswith("-") else seconds
    return float("inf") if value < 0 else float(value)


def now() -> str:
    """The current time in Ollama's format."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


async def say_hello(call: Call, body: None) -> None:
    """The text by which clients recognise Ollama; for a browser, the page."""
    if "text/html" not in call.sent.get("accept", ""):
        return await call.send_bytes(b"Ollama is running", "text/plain; charset=utf-8")
    content, headers = read_page()
    await call.send_bytes(content, "text/html; charset=utf-8", more=headers)


async def tell_version(call: Call, body: None) -> None:
    """Send the version of the protocol."""
    await call.send_json({"version": VERSION})


def form_error(refusal: Refusal) -> Json:
    """An error in Ollama's form."""
    return {"error": refusal.message} | ({"param": refusal.param} if refusal.param else {})


PROTOCOL = Protocol(
    "ollama",
    (
        Endpoint("GET", "/", say_hello, about="Whether the server runs", open=True),
        Endpoint("GET", "/api/version", tell_version, about="The version of the protocol"),
        Endpoint("POST", "/api/chat", chat, ChatAsked, "Answer a conversation"),
        Endpoint("POST", "/api/generate", generate, GenerateAsked, "Answer or continue a prompt, or fill a gap"),
        *ollama_models.ENDPOINTS,
    ),
    form_error,
    line,
)
