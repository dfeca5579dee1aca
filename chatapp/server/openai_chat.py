"""OpenAI's chat completions, complete or streamed."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from pydantic import Field

from chatapp.generation import Message, ToolCall
from chatapp.generation.text.thinking import THINK, Think
from chatapp.generation.text.tools import LENIENT, Toolbox
from chatapp.server.asks import Conversation
from chatapp.server.bodies import Body, given
from chatapp.server.openai_shapes import (
    DONE,
    Choice,
    Part,
    Requested,
    describe_figures,
    describe_head,
    describe_tokens,
    read_content,
)
from chatapp.server.protocol import EVENTS, Call, Json, event
from chatapp.server.refusals import Refusal, unsupported
from chatapp.server.service import Stream
from chatapp.server.thinking import Parts, read_effort
from chatapp.server.tools import AllowedTools, Chosen, Tool, allow, choose_tools


class CalledFunction(Body):
    """A function and what it was called with."""

    name: str
    arguments: str


class Called(Body):
    """A call that the model has asked for."""

    id: str = ""
    type: Literal["function"] = "function"
    index: int | None = None
    function: CalledFunction


class ChatMessage(Body):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = Field(None, description="reasoning_content, as vLLM calls it.")
    refusal: str | None = None
    tool_calls: list[Called] | None = None
    tool_call_id: str | None = None
    prefix: Literal[False] | None = Field(None, description="Of Mistral's clients: an answer is a new message here.")
    annotations: Any = Field(None, description="Ignored; clients send back what they got.")
    audio: None = None
    function_call: None = None


class ResponseFormat(Body):
    """The form that an answer is to have."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema", description="Of a json_object, as llama.cpp has it.")
    value: dict[str, Any] | None = Field(None, description="schema, as Hugging Face's client calls it.")


class TemplateOptions(Body):
    """Switches of a chat template, as vLLM and llama.cpp have them."""

    enable_thinking: bool | None = None
    thinking: bool | None = None
    reasoning_effort: str | None = None


class ChatRequest(Requested):
    """A conversation to be answered."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    response_format: ResponseFormat | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["auto", "none", "required", "any"] | Chosen | AllowedTools | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    think: bool | None = Field(None, description="Whether the model thinks, as Ollama calls it.")
    chat_template_kwargs: TemplateOptions | None = None
    modalities: list[Literal["text"]] | None = None
    verbosity: Literal["medium"] | None = None
    safe_prompt: Literal[False] | None = Field(None, description="Of Mistral's: nothing is put before a prompt.")
    prediction: Any = Field(None, description="Ignored: it would only save time.")
    metadata: Any = Field(None, description="Ignored.")
    store: bool | None = Field(None, description="Ignored: completions cannot be retrieved later.")
    service_tier: str | None = Field(None, description="Ignored.")
    safety_identifier: str | None = Field(None, description="Ignored.")
    prompt_cache_key: str | None = Field(None, description="Ignored: equal prefixes are never read twice.")
    prompt_cache_retention: Any = Field(None, description="As above.")
    prompt_cache_options: Any = Field(None, description="As above.")


async def chat(call: Call, body: ChatRequest) -> None:
    """Answer a conversation."""
    ask = read_chat(body)
    async with call.answer(body.model, ask) as stream:
        head = describe_head("chatcmpl", "chat.completion", stream)
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            await call.send_stream(EVENTS, chat_events(stream, head, body, usage=usage))
        else:
            await call.send_json(await gather_chat(stream, head, body))


def read_chat(body: ChatRequest) -> Conversation:
    """The conversation and its options."""
    if body.max_tokens == -1:  # no limit, in LM Studio and llama.cpp
        body.max_tokens = None
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise unsupported("max_completion_tokens", "max_tokens is given too; leave one of them out")
    if body.top_logprobs and not body.logprobs:
        raise unsupported("top_logprobs", "needs logprobs: true")
    options = body.read_common() | given(
        max_tokens=body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        think=read_thinking(body),
    )
    form = read_format(body.response_format) if body.response_format else {}
    return Conversation(read_messages(body.messages), options | read_tools(body).keep_to(form))


def read_format(form: ResponseFormat) -> dict[str, Any]:  # Any: as Options has them
    """The options that constrain the answer to a form."""
    if form.type == "text":
        return {}
    schema = form.value if form.schema_ is None else form.schema_
    if form.type == "json_object" and schema is None:
        return {"json_object": True}
    schema = (form.json_schema or {}).get("schema") if form.type == "json_schema" else schema
    if not isinstance(schema, dict):
        raise Refusal(400, "response_format.json_schema needs a schema", param="response_format.json_schema.schema")
    return {"json_schema": json.dumps(schema if (form.json_schema or {}).get("strict") else schema | LENIENT)}


def read_tools(body: ChatRequest) -> Toolbox:
    """The offered functions and the choice among them."""
    choice = "required" if body.tool_choice == "any" else body.tool_choice or "auto"  # as Mistral's clients call it
    offered = [tool.function for tool in body.tools or ()]
    if isinstance(choice, AllowedTools):
        offered = allow(offered, [one.function.name for one in choice.allowed_tools.tools])
        choice = choice.allowed_tools.mode
    named = choice if isinstance(choice, str) else choice.function.name
    return choose_tools(offered, named, parallel=body.parallel_tool_calls is not False)


def read_thinking(body: ChatRequest) -> Think | None:
    """Whether, or how much, to think; None leaves it to the model."""
    switches, effort = body.chat_template_kwargs, body.reasoning_effort
    if switches:
        think = switches.enable_thinking if switches.enable_thinking is not None else switches.thinking
        if think is not None:
            return think
        effort = switches.reasoning_effort or effort
    return read_effort(effort) if effort else body.think


def read_messages(messages: list[ChatMessage]) -> list[Message]:
    """A conversation for the chat template."""
    known = {call.id: call.function.name for one in messages for call in one.tool_calls or ()}
    return [read_message(one, number, known) for number, one in enumerate(messages)]


def read_message(message: ChatMessage, number: int, known: Mapping[str, str]) -> Message:
    """A message for the chat template; `known` are the names of called functions by call id."""
    role = "system" if message.role == "developer" else message.role
    text = read_content(message.content, f"messages.{number}.content")
    if (thought := message.reasoning_content or message.reasoning) and role == "assistant":
        text = thought.join(THINK) + text
    calls = tuple(
        ToolCall(call.function.name, check_arguments(call.function.arguments, f"messages.{number}.tool_calls"), call.id)
        for call in message.tool_calls or ()
    )
    if role not in ("tool", "function"):
        return Message(role, text, calls)
    answered = message.tool_call_id or ""
    return Message("tool", text, answers=ToolCall(message.name or known.get(answered, ""), "{}", answered))


def check_arguments(text: str, where: str) -> str:
    """The arguments of a call, checked to be a JSON object."""
    try:
        if isinstance(json.loads(text or "{}"), dict):
            return text or "{}"
    except (ValueError, RecursionError):
        pass
    raise Refusal(400, f"{where}: the arguments of a call must be a JSON object", param=where)


async def chat_events(stream: Stream, head: Json, body: ChatRequest, *, usage: bool) -> AsyncIterator[bytes]:
    """A reply in chunks; the last one has the usage if wanted."""
    head = {**head, "object": "chat.completion.chunk"}
    parts, told = Parts(read_tools(body)), set[int]()
    async for delta in stream:
        for index in ({0, delta.index} if delta.tokens else {0}) - told:
            told.add(index)
            yield event(chunk(head, index, {"role": "assistant", "content": ""}, None))
        thought, text = parts.add(delta)
        said = given(reasoning_content=thought or None, content=text or None)
        logprobs = describe_tokens(stream, delta.tokens) if body.logprobs and delta.tokens else None
        reason: str | None = delta.finish_reason
        if calls := parts.calls.get(delta.index) if reason else None:
            said["tool_calls"] = [{"index": place, **describe_call(call)} for place, call in enumerate(calls)]
            yield event(chunk(head, delta.index, said, None, logprobs))
            said, logprobs, reason = {}, None, "tool_calls"
        if said or logprobs or reason:
            yield event(chunk(head, delta.index, said, reason, logprobs))
    if usage:
        yield event({**head, "choices": [], **describe_figures(stream)})
    yield DONE


def chunk(head: Json, index: int, said: Json, finish_reason: str | None, logprobs: Json | None = None) -> Json:
    """A chunk of a stream."""
    choice = {"index": index, "delta": said, "logprobs": logprobs, "finish_reason": finish_reason}
    return {**head, "choices": [choice]}


async def gather_chat(stream: Stream, head: Json, body: ChatRequest) -> Json:
    """The complete reply."""
    choices = [Choice() for _ in range(body.n or 1)]
    parts = Parts(read_tools(body))
    async for delta in stream:
        thought, text = parts.add(delta)
        choices[delta.index].add(delta, text, thought)
    told = []
    for index, one in enumerate(choices):
        message: dict[str, Any] = {"role": "assistant", "content": one.text, "refusal": None}
        reason = one.finish_reason
        if calls := parts.calls.get(index):
            message |= {"content": one.text or None, "tool_calls": [describe_call(call) for call in calls]}
            reason = "tool_calls"
        if one.thinking:
            message["reasoning_content"] = one.thinking
        logprobs = describe_tokens(stream, one.tokens) if body.logprobs else None
        told.append({"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason})
    return {**head, "choices": told, **describe_figures(stream)}


def describe_call(call: ToolCall) -> dict[str, Any]:
    """A tool call of the model."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
