"""Anthropic's protocol: messages and token counts."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self
from uuid import uuid4

from pydantic import Field

from chatapp.generation import Delta, Message, ToolCall
from chatapp.generation.text.thinking import THINK, Think
from chatapp.generation.text.tools import Toolbox
from chatapp.server.asks import Conversation
from chatapp.server.bodies import Body, SampledBody, TextPart, given
from chatapp.server.protocol import EVENTS, Call, Endpoint, Json, Protocol, event
from chatapp.server.refusals import Refusal, unsupported
from chatapp.server.service import Stream
from chatapp.server.thinking import Parts, read_effort
from chatapp.server.tools import Function, choose_tools

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
REASONS = {"stop": "end_turn", "length": "max_tokens", "cancelled": "end_turn"}
IGNORED = "Metadata; ignored."


class Block(TextPart):
    """A block of a message."""

    type: Literal["text", "thinking", "redacted_thinking", "tool_use", "tool_result", "tool_reference"]
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    cache_control: Any = Field(None, description="Ignored: equal prefixes are never read twice.")
    citations: Any = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    tool_name: str | None = None
    content: str | list[Self] | None = None
    is_error: bool | None = None
    data: str | None = Field(None, description="Of a redacted_thinking, which only its writer can read.")
    caller: Any = Field(None, description=IGNORED)


class Said(Body):
    """A message of a conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Thinking(Body):
    """Whether the model is to think first."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: str | None = None


class Offered(Body):
    """A function that the model may ask to be called."""

    type: Literal["custom"] | None = None  # first: it tells why a tool of Anthropic's own is refused
    name: str = Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")
    description: str | None = None
    input_schema: dict[str, Any]
    cache_control: Any = Field(None, description="Ignored: equal prefixes are never read twice.")
    strict: bool | None = None
    defer_loading: bool | None = Field(None, description="The model sees it once a tool_reference names it.")
    eager_input_streaming: bool | None = Field(None, description="Ignored: arguments are sent whole.")
    input_examples: list[Any] | None = Field(None, description="Ignored.")


class Choice(Body):
    """Whether a function has to be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class OutputConfig(Body):
    """How the answer is to be."""

    effort: str | None = Field(None, description="How much to think, if `thinking` is enabled.")
    format: dict[str, Any] | None = None

    def read(self) -> dict[str, Any]:  # Any: as Options has them
        """The options that constrain the answer."""
        if self.format is None:
            return {}
        if self.format.get("type") != "json_schema" or not isinstance(schema := self.format.get("schema"), dict):
            raise unsupported("output_config.format", "must be a json_schema with its schema")
        return {"json_schema": json.dumps(schema)}


class Counted(SampledBody):
    """A conversation."""

    model: str = ""
    messages: list[Said] = Field(min_length=1)
    system: str | list[Block] | None = None
    thinking: Thinking | None = None
    tools: list[Offered] | None = None
    tool_choice: Choice | None = None
    output_config: OutputConfig | None = None
    context_management: dict[str, Any] | None = Field(None, description="Edits that leave out nothing.")
    container: None = None
    cache_control: Any = Field(None, description="Ignored: equal prefixes are never read twice.")
    speed: str | None = Field(None, description="Ignored: it is always as fast as possible.")
    user_profile_id: str | None = Field(None, description=IGNORED)
    thread: Any = Field(None, description="Refused, upon which Anthropic's own client sends all of the conversation.")

    def read(self) -> Conversation:
        """The conversation, without options for the answer."""
        if self.thread is not None:
            message = "thread: this server keeps no conversations; send the whole of it, without a thread"
            raise Refusal(400, message, param="thread", code="thread_unsupported_request")
        for edit in (self.context_management or {}).get("edits") or ():
            if not (str(edit.get("type")).startswith("clear_thinking") and edit.get("keep") == "all"):
                raise unsupported("context_management", "what was said is read as it was sent; send what is to be read")
        kept = self.output_config.read() if self.output_config else {}
        return Conversation(self.read_messages(), given(think=self.read_thinking()) | self.read_tools().keep_to(kept))

    def read_thinking(self) -> Think | None:
        """Whether, or how much, to think; None leaves it to the model."""
        kind = self.thinking.type if self.thinking else "adaptive"
        effort = self.output_config.effort if self.output_config else None
        return {"enabled": read_effort(effort) or True, "disabled": False}.get(kind)

    def blocks(self) -> Iterator[Block]:
        """The blocks of all messages, each before those in it."""
        for said in self.messages:
            for block in said.content if isinstance(said.content, list) else ():
                yield block
                yield from block.content if isinstance(block.content, list) else ()

    def read_messages(self) -> list[Message]:
        """The messages for the chat template."""
        said = [Message("system", read_content(self.system, "system"))] if self.system else []
        known = {block.id or "": block.name or "" for block in self.blocks() if block.type == "tool_use"}
        for number, one in enumerate(self.messages):
            said += read_said(one, f"messages.{number}", known)
        return said

    def read_tools(self) -> Toolbox:
        """The offered functions and the choice among them; deferred ones once a search of the client has found them."""
        found = {block.tool_name for block in self.blocks() if block.type == "tool_reference"}
        choice = self.tool_choice or Choice(type="auto")
        wanted = {"any": "required", "tool": choice.name or ""}.get(choice.type, choice.type)
        functions = [
            Function(name=one.name, description=one.description, parameters=one.input_schema, strict=one.strict)
            for one in self.tools or ()
            if not one.defer_loading or one.name in found
        ]
        return choose_tools(functions, wanted, parallel=not choice.disable_parallel_tool_use)


class MessagesAsked(Counted):
    """A conversation to be answered."""

    max_tokens: int
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    metadata: Any = Field(None, description=IGNORED)
    diagnostics: Any = Field(None, description=IGNORED)
    service_tier: str | None = Field(None, description=IGNORED)

    def read(self) -> Conversation:
        """The conversation with all options."""
        asked, stop = super().read(), tuple(self.stop_sequences) if self.stop_sequences else None
        return replace(asked, given={**asked.given, **self.knobs(), **given(max_tokens=self.max_tokens, stop=stop)})


class CountAsked(Counted):
    """A conversation to be counted; some clients send all that they would ask with."""

    max_tokens: Any = Field(None, description="Ignored: it changes no count.")  # Any: as the next three
    stream: Any = Field(None, description="Ignored.")
    stop_sequences: Any = Field(None, description="Ignored.")
    metadata: Any = Field(None, description=IGNORED)


def read_content(content: str | list[Block], where: str) -> str:
    """The text of a message, given as text or blocks."""
    if isinstance(content, str):
        return content
    said = list[str]()
    for block in content:
        if block.type == "thinking":
            said.append((block.thinking or "").join(THINK))
        elif block.type == "redacted_thinking":
            pass
        elif block.type == "tool_reference" and block.tool_name:
            said.append(f"{block.tool_name}\n")
        elif block.type == "text" and block.text is not None:
            said.append(block.text)
        else:
            raise unsupported(where, f"a block of the type {block.type!r} has no text")
    return "".join(said)


def read_said(said: Said, where: str, known: Mapping[str, str]) -> list[Message]:
    """The messages for one of Anthropic's with calls and results; `known` has the names of earlier calls by id."""
    if isinstance(said.content, str):
        return [Message(said.role, said.content)]
    if not said.content and said.role == "user":
        raise Refusal(400, f"{where}.content is empty", param=f"{where}.content")
    found, rest, calls = list[Message](), list[Block](), list[ToolCall]()
    for block in said.content:
        if block.type == "tool_result":
            text, answered = read_content(block.content or "", where), block.tool_use_id or ""
            found.append(Message("tool", text, answers=ToolCall(known.get(answered, ""), "{}", answered)))
        elif block.type == "tool_use":
            calls.append(ToolCall(block.name or "", json.dumps(block.input or {}), block.id or ""))
        else:
            rest.append(block)
    if rest or calls:
        found.append(Message(said.role, read_content(rest, where), tuple(calls)))
    return found


async def answer(call: Call, body: MessagesAsked) -> None:
    """Answer a conversation."""
    ask, tools = body.read(), body.read_tools()
    async with call.answer(body.model, ask) as stream:
        if body.stream:
            count = await call.service.work(lambda: ask.count(stream.engine))
            await call.send_stream(EVENTS, message_events(stream, Parts(tools), count))
            return
        parts, texts, delta = Parts(tools), {"thinking": "", "text": ""}, None
        async for delta in stream:
            thought, text = parts.add(delta)
            texts["thinking"] += thought
            texts["text"] += text
        content = [make_block(kind, text) for kind, text in texts.items() if text]
        content += [make_call(one, json.loads(one.arguments)) for one in parts.calls.get(0, ())]
        head = describe_head(stream, stream.prompt_tokens, stream.completion_tokens)
        await call.send_json({**head, "content": content, **describe_end(delta, parts)})


def make_block(kind: str, text: str) -> Json:
    """A content block of an answer."""
    return {"type": kind, kind: text} | ({"signature": ""} if kind == "thinking" else {})


def make_call(called: ToolCall, arguments: Json) -> Json:
    """A content block for a tool call."""
    return {"type": "tool_use", "id": called.id, "name": called.name, "input": arguments}


def describe_end(last: Delta | None, parts: Parts) -> Json:
    """The stop reason of an answer."""
    if parts.calls:
        return {"stop_reason": "tool_use", "stop_sequence": None}
    stop, reason = (last.stop, last.finish_reason) if last else (None, None)
    return {"stop_reason": "stop_sequence" if stop else REASONS[reason or "stop"], "stop_sequence": stop}


def describe_head(stream: Stream, read: int, written: int) -> dict[str, Any]:
    """The message object at the beginning of an answer."""
    usage = {
        "input_tokens": read - stream.cached_tokens,
        "output_tokens": written,
        "cache_read_input_tokens": stream.cached_tokens,
        "cache_creation_input_tokens": 0,
    }
    head = {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant", "model": stream.model}
    return {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}


async def message_events(stream: Stream, parts: Parts, count: int) -> AsyncIterator[bytes]:
    """The events of an answer: each block is started, extended and stopped in turn."""

    def say(kind: str, **facts: Any) -> bytes:
        return event({"type": kind, **facts}, kind)

    yield say("message_start", message=describe_head(stream, count, 0))
    index, now, delta = -1, "", None
    async for delta in stream:
        for kind, text in zip(("thinking", "text"), parts.add(delta), strict=True):
            if not text:
                continue
            if kind != now:
                if now:
                    yield say("content_block_stop", index=index)
                now, index = kind, index + 1
                yield say("content_block_start", index=index, content_block=make_block(kind, ""))
            yield say("content_block_delta", index=index, delta={"type": f"{kind}_delta", kind: text})
    if now:
        yield say("content_block_stop", index=index)
    for called in parts.calls.get(0, ()):
        index += 1
        yield say("content_block_start", index=index, content_block=make_call(called, {}))
        yield say(
            "content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": called.arguments}
        )
        yield say("content_block_stop", index=index)
    usage = describe_head(stream, stream.prompt_tokens, stream.completion_tokens)["usage"]
    yield say("message_delta", delta=describe_end(delta, parts), usage=usage)
    yield say("message_stop")


async def count(call: Call, body: CountAsked) -> None:
    """Count the tokens of a conversation."""
    await call.send_json({"input_tokens": await call.ask(body.model, body.read().count)})


def form_error(refusal: Refusal) -> Json:
    """An error in Anthropic's form."""
    kind = KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
    details = {"error_code": refusal.code} if refusal.code else None
    return {"type": "error", "error": {"type": kind, "message": refusal.message, "details": details}}


PROTOCOL = Protocol(
    "anthropic",
    (
        Endpoint("POST", "/v1/messages", answer, MessagesAsked, "Answer a conversation"),
        Endpoint("POST", "/v1/messages/count_tokens", count, CountAsked, "Count the tokens of a conversation"),
    ),
    form_error,
    partial(event, name="error"),
)
