"""OpenAI's responses: conversations as items, answered as typed events."""

import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Literal
from uuid import uuid4

from pydantic import Field

from chatapp.generation import Message, ToolCall
from chatapp.generation.text.tools import Toolbox
from chatapp.server.asks import Conversation
from chatapp.server.bodies import Body, SampledBody, given
from chatapp.server.openai_chat import ResponseFormat, check_arguments, read_format
from chatapp.server.openai_shapes import Part, StreamOptions, describe_tokens, form_error, read_content
from chatapp.server.protocol import EVENTS, Call, Endpoint, Json, Protocol, event
from chatapp.server.refusals import Refusal, unsupported
from chatapp.server.response_store import StoredResponse
from chatapp.server.service import Stream
from chatapp.server.thinking import Parts, read_effort
from chatapp.server.tools import FlatChoice, Function, allow, choose_tools, join_name

IGNORED = "Metadata; ignored."
LOGPROBS = "message.output_text.logprobs"
"""The `include` value that asks for log-probabilities."""
Keep = Callable[[dict[str, Any], Message], None]
"""Stores a response, and the model's message in it without thinking."""


class Item(Body):
    """An item of a conversation: a message, or what was thought before."""

    type: Literal["message", "reasoning", "function_call", "function_call_output", "item_reference"] = "message"
    role: Literal["system", "developer", "user", "assistant"] = "user"
    content: str | list[Part] | None = None
    id: str | None = Field(None, description="Of an item_reference: the item of an earlier answer; else ignored.")
    status: str | None = Field(None, description=IGNORED)
    summary: Any = Field(None, description=IGNORED)
    encrypted_content: Any = Field(None, description=IGNORED)
    phase: Any = Field(None, description=IGNORED)
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    output: str | list[Part] | None = None


class Reasoning(Body):
    """Whether the model is to think first, and how much."""

    effort: str | None = None
    summary: str | None = Field(None, description="Ignored: all thinking is returned.")
    generate_summary: str | None = Field(None, description="As above.")


class TextFormat(Body):
    """The form that an answer is to have."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema_: Any = Field(None, alias="schema")
    strict: bool | None = None
    description: str | None = None


class Text(Body):
    """How the text of an answer is to be."""

    format: TextFormat | None = None
    verbosity: Literal["medium"] | None = None

    def describe(self) -> Json:
        """The settings as the answer repeats them."""
        return {"format": {"type": "text"}} | self.model_dump(by_alias=True, exclude_none=True)


class FlatTool(Function):
    """A function that the model may ask to be called."""

    type: Literal["function"]


class Namespace(Body):
    """Functions with a name in common, as Codex offers them."""

    type: Literal["namespace"]
    name: str
    description: str | None = None
    tools: list[FlatTool]


class WebSearch(Body):
    """A search that OpenAI's server does; Codex always offers it, and no model here is told of it."""

    model_config = {"extra": "allow"}
    type: Literal["web_search"]


class FlatAllowed(Body):
    """The functions that may be called, of those that are offered, and whether one has to be."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[FlatChoice] = Field(min_length=1)


class ResponseAsked(SampledBody):
    """A conversation to be answered."""

    model: str = ""
    input: str | list[Item]
    instructions: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_output_tokens: int | None = None
    reasoning: Reasoning | None = None
    text: Text | None = None
    tools: list[FlatTool | Namespace | WebSearch] | None = None
    tool_choice: Literal["auto", "none", "required"] | FlatChoice | FlatAllowed | None = None
    parallel_tool_calls: bool | None = None
    store: bool | None = Field(
        None, description="Whether to keep it in memory, so that it can be continued (default: true)."
    )
    previous_response_id: str | None = Field(None, description="The response that `input` follows.")
    background: Literal[False] | None = None
    truncation: Literal["auto", "disabled"] | None = Field(None, description="Ignored: too much is refused.")
    top_logprobs: int | None = Field(None, ge=0, le=20)
    max_tool_calls: int | None = Field(None, description="Ignored: it is for tools that the server would run.")
    include: list[str] | None = Field(None, description=f"{LOGPROBS}, as top_logprobs does; else ignored.")
    metadata: dict[str, str] | None = Field(None, description="Told again in the answer.")
    user: str | None = Field(None, description=IGNORED)
    service_tier: str | None = Field(None, description=IGNORED)
    safety_identifier: str | None = Field(None, description=IGNORED)
    prompt_cache_key: str | None = Field(None, description=IGNORED)
    prompt_cache_retention: Any = Field(None, description=IGNORED)
    prompt_cache_options: Any = Field(None, description=IGNORED)
    client_metadata: Any = Field(None, description=IGNORED)

    def read(self, said: Sequence[Message]) -> Conversation:
        """The request, given the messages without instructions."""
        form = self.text.format if self.text and self.text.format else TextFormat.model_validate({"type": "text"})
        described = {"schema": form.schema_, "strict": form.strict}
        kept = read_format(ResponseFormat(type=form.type, json_schema=described, schema=None, value=None))
        think = read_effort(self.reasoning.effort if self.reasoning else None)
        if self.max_output_tokens == 0:
            raise unsupported("max_output_tokens", "must be 1 or more")
        first = [Message("system", self.instructions)] if self.instructions else []
        said = [replace(one, role="system") if one.role == "developer" else one for one in said]
        logprobs = 0 if self.top_logprobs is None and LOGPROBS in (self.include or ()) else self.top_logprobs
        knobs = self.knobs() | given(max_tokens=self.max_output_tokens, think=think, logprobs=logprobs)
        return Conversation([*first, *said], knobs | self.read_tools().keep_to(kept))

    def read_input(self, before: Sequence[Message], find_item: Callable[[str], Json]) -> list[Message]:
        """The earlier messages followed by the input."""
        items = [Item.model_validate({"content": self.input})] if isinstance(self.input, str) else self.input
        found = [Item.model_validate(find_item(one.id or "")) if one.type == "item_reference" else one for one in items]
        return read_items(found, before)

    def read_tools(self) -> Toolbox:
        """The offered functions and the choice among them."""
        choice = self.tool_choice or "auto"
        found = self.functions.items()
        offered: list[Function] = [one.model_copy(update={"name": name}) for name, (one, _) in found]
        if isinstance(choice, FlatAllowed):
            offered, choice = allow(offered, [one.name for one in choice.tools]), choice.mode
        named = choice if isinstance(choice, str) else choice.name
        return choose_tools(offered, named, parallel=self.parallel_tool_calls is not False)

    @property
    def functions(self) -> dict[str, tuple[FlatTool, str | None]]:
        """The offered functions with their namespaces, by the names that the model sees."""
        found = [(one, None) for one in self.tools or () if isinstance(one, FlatTool)]
        spaces = [one for one in self.tools or () if isinstance(one, Namespace)]
        both = [*found, *((one, space.name) for space in spaces for one in space.tools)]
        return {join_name(space, one.name): (one, space) for one, space in both}


def read_items(items: list[Item], before: Sequence[Message] = ()) -> list[Message]:
    """Items as messages with their original roles, following earlier messages."""
    known = {call.id: call.name for one in before for call in one.calls}
    known |= {one.call_id or "": join_name(one.namespace, one.name) for one in items if one.type == "function_call"}
    said = list(before)
    for number, one in enumerate(items):
        if one.type == "message":
            said.append(Message(one.role, read_content(one.content, f"input.{number}.content")))
        elif one.type == "function_call":
            arguments = check_arguments(one.arguments or "{}", f"input.{number}.arguments")
            called = ToolCall(join_name(one.namespace, one.name), arguments, one.call_id or "")
            if said and said[-1].role == "assistant":  # the same turn
                said[-1] = replace(said[-1], calls=(*said[-1].calls, called))
            else:
                said.append(Message("assistant", "", (called,)))
        elif one.type == "function_call_output":
            answered = one.call_id or ""
            text = read_content(one.output, f"input.{number}.output")
            said.append(Message("tool", text, answers=ToolCall(known.get(answered, ""), "{}", answered)))
    return said


def owner(call: Call) -> str:
    """Whose responses a client sees: its key's, or everybody's if no keys are configured."""
    return call.client if call.service.settings.keys else ""


def read_said(call: Call, body: ResponseAsked) -> list[Message]:
    """All messages of a request, with those of earlier responses."""
    stored, client, name = call.service.responses, owner(call), body.previous_response_id
    before = stored.find_previous(name, client).said if name else ()
    return body.read_input(before, lambda item: stored.find_item(item, client))


async def respond(call: Call, body: ResponseAsked) -> None:
    """Answer a conversation."""
    stored, client, said = call.service.responses, owner(call), read_said(call, body)

    def keep(response: dict[str, Any], answer: Message) -> None:
        if body.store is not False:
            stored.add(StoredResponse(client, [*said, answer], response))

    async with call.answer(body.model, body.read(said)) as stream:
        events = response_events(stream, body, keep)
        if body.stream:
            await call.send_stream(EVENTS, (event(one, one["type"]) async for one in events))
            return
        last: Json = {}
        async for one in events:
            last = one
    await call.send_json(last["response"])


async def count_input(call: Call, body: ResponseAsked) -> None:
    """Count the tokens of a conversation."""
    tokens = await call.ask(body.model, body.read(read_said(call, body)).count)
    await call.send_json({"object": "response.input_tokens", "input_tokens": tokens})


async def show(call: Call, _: None) -> None:
    """Send a stored response again."""
    if call.query.get("stream") == "true":
        raise unsupported("stream", "a stored response is returned whole; leave it out")
    await call.send_json(call.service.responses.find(call.path_part("response"), owner(call)).response)


async def list_input(call: Call, _: None) -> None:
    """List the input items of a response in pages, the last item first unless `order` says otherwise."""
    items = call.service.responses.find(call.path_part("response"), owner(call)).list_input()
    asked = {"order": "desc", "limit": "20", "after": "", **call.query}
    if asked["order"] not in ("asc", "desc"):
        raise Refusal(400, "order must be asc or desc", param="order", code="invalid_value")
    if not re.fullmatch(r"[1-9]\d?|100", asked["limit"]):
        raise Refusal(400, "limit must be a whole number from 1 to 100", param="limit", code="invalid_value")
    items = items if asked["order"] == "asc" else items[::-1]
    ids = [one["id"] for one in items]
    if (after := asked["after"]) and after not in ids:
        raise Refusal(400, f"after names {after[:100]!r}, which is not an item of this list", param="after")
    begin = ids.index(after) + 1 if after else 0
    end = begin + int(asked["limit"])
    listed = ids[begin:end] or [None]
    page = {"object": "list", "data": items[begin:end], "first_id": listed[0], "last_id": listed[-1]}
    await call.send_json(page | {"has_more": end < len(items)})


async def forget(call: Call, _: None) -> None:
    """Delete a stored response."""
    name = call.path_part("response")
    call.service.responses.remove(name, owner(call))
    await call.send_json({"id": name, "object": "response", "deleted": True})


async def response_events(stream: Stream, body: ResponseAsked, keep: Keep) -> AsyncIterator[Json]:
    """The events of an answer; the last one has the whole response, which is stored."""
    number, whole, grown = count(), describe(stream, body), list[Growing]()

    def say(kind: str, **facts: Any) -> dict[str, Any]:
        return {"type": kind, "sequence_number": next(number), **facts}

    yield say("response.created", response=whole)
    yield say("response.in_progress", response=whole)
    parts, reason, logprobs = Parts(body.read_tools()), "stop", list[Json]()
    async for delta in stream:
        reason = delta.finish_reason or reason
        if delta.channel == "text":  # sent together with the text, which may be held back
            logprobs += describe_tokens(stream, [one for one in delta.tokens if one.logprob is not None])["content"]
        for kind, text in zip(("reasoning", "message"), parts.add(delta), strict=True):
            if not text:
                continue
            if not grown or grown[-1].kind != kind:
                ended = grown[-1].end() if grown else []
                grown.append(Growing(kind, len(grown)))
                for one in [*ended, *grown[-1].begin()]:
                    yield say(**one)
            yield say(**grown[-1].add(text, logprobs if kind == "message" else []))
            logprobs = [] if kind == "message" else logprobs
    for one in grown[-1].end() if grown else ():
        yield say(**one)
    output = [one.item for one in grown]
    for called in parts.calls.get(0, ()):
        item = describe_call(called, body)
        for one in list_call_events(item, len(output)):
            yield say(**one)
        output.append(item)
    status, details = ("incomplete", {"reason": "max_output_tokens"}) if reason == "length" else ("completed", None)
    whole |= {"status": status, "incomplete_details": details, "output": output, "usage": describe_usage(stream)}
    answer = "".join(one.text for one in grown if one.kind == "message")
    keep(whole, Message("assistant", answer, tuple(parts.calls.get(0, ()))))
    yield say(f"response.{status}", response=whole)


class Growing:
    """An output item while it grows: reasoning, or the message."""

    def __init__(self, kind: str, index: int):
        self.kind, self.index, self.text = kind, index, ""
        self.logprobs: list[Json] = []
        self.id = f"{'rs' if kind == 'reasoning' else 'msg'}_{uuid4().hex}"
        self.part = "reasoning_text" if kind == "reasoning" else "output_text"
        self.place = {"item_id": self.id, "output_index": index, "content_index": 0}

    @property
    def content(self) -> Json:
        """Its content part."""
        more: Json = {} if self.kind == "reasoning" else {"annotations": [], "logprobs": [*self.logprobs]}
        return {"type": self.part, "text": self.text, **more}

    @property
    def item(self) -> Json:
        """The finished item."""
        return self.describe("completed", [self.content])

    def describe(self, status: str, content: list[Json]) -> Json:
        """The item with this status and content."""
        more: Json = {"summary": []} if self.kind == "reasoning" else {"role": "assistant"}
        return {"id": self.id, "type": self.kind, "status": status, **more, "content": content}

    def begin(self) -> list[dict[str, Any]]:
        """The events at its beginning."""
        added = self.describe("in_progress", [])
        return [
            {"kind": "response.output_item.added", "output_index": self.index, "item": added},
            {"kind": "response.content_part.added", **self.place, "part": self.content},
        ]

    def add(self, text: str, logprobs: list[Json]) -> dict[str, Any]:
        """The event for more text with its log-probabilities."""
        self.text += text
        self.logprobs += logprobs
        more: Json = {} if self.kind == "reasoning" else {"logprobs": logprobs}
        return {"kind": f"response.{self.part}.delta", **self.place, "delta": text, **more}

    def end(self) -> list[dict[str, Any]]:
        """The events at its end."""
        more: Json = {} if self.kind == "reasoning" else {"logprobs": self.logprobs}
        return [
            {"kind": f"response.{self.part}.done", **self.place, "text": self.text, **more},
            {"kind": "response.content_part.done", **self.place, "part": self.content},
            {"kind": "response.output_item.done", "output_index": self.index, "item": self.item},
        ]


def describe_call(called: ToolCall, body: ResponseAsked) -> Json:
    """A tool call as an item, by the name under which its function was offered."""
    function, space = body.functions[called.name]
    item = {"id": f"fc_{uuid4().hex}", "type": "function_call", "status": "completed", "call_id": called.id}
    return {**item, "name": function.name, **given(namespace=space), "arguments": called.arguments}


def list_call_events(item: Json, index: int) -> list[dict[str, Any]]:
    """The events of a tool call, sent as a whole."""
    place, begun = {"output_index": index, "item_id": item["id"]}, {**item, "arguments": "", "status": "in_progress"}
    told = "response.function_call_arguments"
    return [
        {"kind": "response.output_item.added", "output_index": index, "item": begun},
        {"kind": f"{told}.delta", **place, "delta": item["arguments"]},
        {"kind": f"{told}.done", **place, "name": item["name"], "arguments": item["arguments"]},
        {"kind": "response.output_item.done", "output_index": index, "item": item},
    ]


def describe(stream: Stream, body: ResponseAsked) -> dict[str, Any]:
    """A response that has just begun."""
    choice = body.tool_choice or "auto"
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata or {},
        "model": stream.model,
        "output": [],
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "store": body.store is not False,
        "temperature": body.knobs().get("temperature"),
        "text": (body.text or Text()).describe(),
        "tool_choice": choice if isinstance(choice, str) else choice.model_dump(),
        "tools": [one.model_dump() for one in body.tools or () if not isinstance(one, WebSearch)],
        "top_logprobs": body.top_logprobs or 0,
        "top_p": body.knobs().get("top_p"),
        "truncation": "disabled",
        "usage": None,
    }


def describe_usage(stream: Stream) -> Json:
    """The tokens of a request."""
    return {
        "input_tokens": stream.prompt_tokens,
        "input_tokens_details": {"cached_tokens": stream.cached_tokens},
        "output_tokens": stream.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": stream.thinking_tokens},
        "total_tokens": stream.prompt_tokens + stream.completion_tokens,
    }


PROTOCOL = Protocol(
    "openai responses",
    (
        Endpoint("POST", "/v1/responses", respond, ResponseAsked, "Answer a conversation"),
        Endpoint(
            "POST", "/v1/responses/input_tokens", count_input, ResponseAsked, "Count the tokens of a conversation"
        ),
        Endpoint("GET", "/v1/responses/{response}/input_items", list_input, about="List the input items of a response"),
        Endpoint("GET", "/v1/responses/{response}", show, about="Get a response"),
        Endpoint("DELETE", "/v1/responses/{response}", forget, about="Delete a response"),
    ),
    form_error,
)
