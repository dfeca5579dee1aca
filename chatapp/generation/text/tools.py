"""Functions that a model may ask to be called, and the calls that it writes, in the forms that models are taught."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from chatapp.generation.text.message import ToolCall
from chatapp.generation.text.thinking import split

OPENERS = (
    "<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<|tool_call_start|>", "<function=", "<|tool_call>",
    "<tool_calls>", "<minimax:tool_call>",
)  # fmt: skip
"""Qwen and Hermes, Mistral, Llama 3, LFM2, Llama 3.1 in its other form, Gemma 4, Jamba, MiniMax."""
HERMES = re.compile(r"<tool_calls?>\s*(.*?)\s*(?:</tool_calls?>|\Z)", re.DOTALL)
LLAMA = re.compile(r"<function=([\w.-]+)>\s*(\{.*?\})\s*(?:</function>|\Z)", re.DOTALL)
QWEN = re.compile(r"<function=([\w.-]+)>\s*((?:<parameter=.*?</parameter>\s*)*)(?:</function>|\Z)", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
"""Of Qwen3-Coder and Qwen 3.5."""
INVOKE = re.compile(r'<invoke name="([\w.-]+)">\s*((?:<parameter name=.*?</parameter>\s*)*)(?:</invoke>|\Z)', re.DOTALL)
NAMED = re.compile(r'<parameter name="([^"\n]+)">\n?(.*?)\n?</parameter>', re.DOTALL)
"""Of MiniMax."""
Schemas = Mapping[str, Mapping[str, Any] | None]  # Any: JSON Schemas
"""Of the arguments of functions, by their names."""

LENIENT = {"x-guidance": {"lenient": True}}
"""Added to a schema of which what no grammar can keep to, such as a format that is not known, is passed over."""
GEMMA = re.compile(r"<\|tool_call>call:([\w.-]+)(\{.*?\})\s*(?:<tool_call\|>|\Z)", re.DOTALL)
QUOTE = '<|"|>'
"""What stands around a text in Gemma 4's calls."""
MEMBER = re.compile(r'[\[{,\s]*"([^"\\]*)"(?:\s*:\s*("(?:[^"\\]|\\.)*"|[\[{]|[^\s"\[{,}]+(?=[\s,}])))?', re.DOTALL)
"""A name in JSON, and its value, where that is whole; of one that has parts, how it begins."""
LONGEST = 400
"""Characters at the beginning of a reply in which a call without a mark may begin."""
CALLED = "name", "arguments", "parameters", "function", "type", "id"
"""The names in a call."""
KEY = re.compile(r"([{,]\s*)([^\s{}\[\],:]+)\s*:")
"""A name in Gemma 4's calls, which nothing stands around."""


@dataclass(frozen=True)
class Function:
    """A function that a model may ask to be called."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None  # Any: a JSON Schema
    """The schema of its arguments, which are an object."""

    def describe(self) -> dict[str, Any]:  # Any: JSON
        """The function as OpenAI offers it, and as templates look at it."""
        told = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": {name: fact for name, fact in told.items() if fact is not None}}


@dataclass(frozen=True)
class Toolbox:
    """The functions that are offered to a model, and whether one has to be called."""

    functions: Sequence[Function] = ()
    forced: Sequence[Function] = ()
    """One of these must be called."""
    most: int | None = None
    """Calls that are told; None: all."""
    strict: bool = False
    """Whether a schema that no grammar can keep to is refused where a call is forced."""

    def keep_to(self, form: Mapping[str, Any]) -> dict[str, Any]:  # Any: as Options has them
        """The options that it means, beside those of the form of an answer, which a call that is forced has not."""
        told = {"tools": tuple(json.dumps(one.describe()) for one in self.forced or self.functions)}
        if not self.forced:
            return {**form, **told} if told["tools"] else {**form}
        return {**told, "json_schema": json.dumps(describe_calls(self.forced) | ({} if self.strict else LENIENT))}

    def listen(self) -> Listener | None:
        """What finds calls in a reply; None where nothing is offered."""
        schemas = {one.name: one.parameters for one in self.functions}
        return Listener([*schemas], self.most, schemas) if schemas else None


def describe_calls(functions: Sequence[Function], key: str = "arguments") -> dict[str, Any]:  # Any: JSON
    """The schema of a call of one of some functions, with its arguments under this key."""
    calls = [describe_call(one, key) for one in functions]
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def describe_call(function: Function, key: str) -> dict[str, Any]:
    """The schema of a call."""
    own = {"$id": f"urn:{function.name.encode().hex()}"}  # what it refers to is in itself
    arguments = {**own, **(function.parameters or {"type": "object"})}
    properties = {"name": {"const": function.name}, key: arguments}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


@dataclass
class Listener:
    """Finds the calls in one reply while it grows; what may become one is held back."""

    names: Sequence[str]
    most: int | None = None
    schemas: Schemas = field(default_factory=dict)
    _held: str = field(default="", init=False)
    _begun: bool = field(default=False, init=False)
    """Whether any text was told."""

    def add(self, text: str) -> str:
        """What may be told, after more text."""
        self._held += text
        if self._may_be_bare():
            return ""
        place = min((at for opener in OPENERS if (at := self._held.find(opener)) >= 0), default=-1)
        if place < 0:
            place = len(self._held) - max(overlap(self._held, opener) for opener in OPENERS)
        told, self._held = self._held[:place], self._held[place:]
        self._begun = self._begun or bool(told.strip())
        return told

    def _may_be_bare(self) -> bool:
        """Whether it may be a call without a mark: JSON, or a name before JSON; both only at the beginning."""
        start = self._held.lstrip()
        if self._begun or not start:
            return not self._begun
        return (start[0] in "{[" and not start.startswith("[TOOL") and may_call(start[:LONGEST], self.names)) or any(
            f"{name}{{".startswith(start) or start.startswith(f"{name}{{") for name in self.names
        )

    def end(self) -> tuple[str, list[ToolCall]]:
        """The rest of the text, and the calls, when the reply has ended."""
        held, self._held = self._held, ""
        calls = [*read_calls(held, self.names, self.schemas)][: self.most]
        return ("", calls) if calls else (held, [])


def may_call(start: str, names: Sequence[str]) -> bool:
    """Whether JSON that begins so may be a call of a function with one of these names."""
    place = 0
    while found := MEMBER.match(start, place):
        name, value = found.groups()
        if name == "name" and value:
            return value[1:-1] in names
        if name not in CALLED or (name == "type" and value not in (None, '"function"')):
            return False
        if value in (None, "{", "["):
            return True
        place = found.end()
    return True


def overlap(text: str, mark: str) -> int:
    """The length of the longest beginning of a mark that a text ends with."""
    return next((length for length in range(min(len(mark), len(text)), 0, -1) if text.endswith(mark[:length])), 0)


def read_calls(text: str, names: Sequence[str], schemas: Schemas | None = None) -> Iterator[ToolCall]:
    """The calls that a text spells of functions with these names; `schemas` tell texts from numbers in some forms."""
    for name, arguments in spell_calls(text, names, schemas or {}):
        if name in names and isinstance(arguments, dict):
            yield ToolCall(name, json.dumps(arguments, ensure_ascii=False), uuid4().hex[:9])  # as Mistral wants it


def spell_calls(text: str, names: Sequence[str], schemas: Schemas) -> Iterator[tuple[str, Any]]:
    """Names and arguments, whatever they are worth."""
    invoked = INVOKE.findall(text)
    if invoked or "<parameter=" in text or re.search(r"<function=[\w.-]+>\s*</function>", text):
        for name, inside in invoked or QWEN.findall(text):
            values = (NAMED if invoked else PARAMETER).findall(inside)
            yield name, {key.strip(): typed(value, key.strip(), schemas.get(name)) for key, value in values}
    elif parts := HERMES.findall(text):
        for part in parts:
            yield from map(name_call, read_values(part))
    elif parts := LLAMA.findall(text):
        for name, arguments in parts:
            yield from ((name, value) for value in read_values(arguments))
    elif parts := GEMMA.findall(text):
        for name, arguments in parts:
            yield from ((name, value) for value in read_values(quote(arguments)))
    else:
        bare = text.strip()
        for opener in OPENERS:
            bare = bare.removeprefix(opener).lstrip()
        if name := next((name for name in names if re.match(rf"{re.escape(name)}(\[ARGS\])?\s*\{{", bare)), ""):
            yield from ((name, value) for value in read_values(bare[bare.index("{") :]))
        elif any(re.match(rf"\[?\s*{re.escape(name)}\(", bare) for name in names):
            yield from read_python(bare.removesuffix("<|tool_call_end|>"))
        else:
            yield from map(name_call, read_values(bare))


def quote(arguments: str) -> str:
    """Arguments as Gemma 4 writes them, in JSON."""
    pieces = enumerate(arguments.split(QUOTE))
    return "".join(json.dumps(piece) if i % 2 else KEY.sub(r'\1"\2":', piece) for i, piece in pieces)


def typed(value: str, key: str, schema: Mapping[str, Any] | None) -> Any:  # Any: JSON
    """An argument that is written as it is: a text where the schema wants one, and else JSON, where it is such."""
    properties = (schema or {}).get("properties")
    described = properties.get(key) if isinstance(properties, Mapping) else None
    if isinstance(described, Mapping) and described.get("type") == "string":
        return value
    with suppress(ValueError, RecursionError):
        return json.loads(value)
    return value


def read_python(text: str) -> Iterator[tuple[str, Any]]:  # Any: JSON
    """Calls as Python spells them, alone or in a list, whose arguments are literals with names; nothing is run."""
    with suppress(SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        found = ast.parse(text.strip(), mode="eval").body
        for call in found.elts if isinstance(found, ast.List) else [found]:
            if isinstance(call, ast.Call) and not call.args:
                arguments = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
                yield ast.unparse(call.func), json.loads(json.dumps(arguments))


def name_call(value: Any) -> tuple[str, Any]:  # Any: parsed JSON
    """The name and the arguments of a call in JSON: Llama calls the latter parameters."""
    if not isinstance(value, Mapping):
        return "", None
    inner = value.get("function", value)
    inner = inner if isinstance(inner, Mapping) else value
    arguments = inner.get("arguments", inner.get("parameters", {}))
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments)
    return str(inner.get("name", "")), arguments


def read_values(text: str) -> Iterator[Any]:  # Any: parsed JSON
    """The JSON values in a text, one behind the other, and those of a list one by one; up to what is none."""
    decoder, place = json.JSONDecoder(), 0
    with suppress(ValueError, RecursionError):
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            yield from value if isinstance(value, list) else [value]
            place = next((at for at in range(place, len(text)) if text[at] not in " \t\r\n;,"), len(text))


def strip_calls(reply: str, names: Sequence[str]) -> str:
    """A reply without the calls of functions with these names that it spells; what was thought before it stays."""
    answer = split(reply).answer
    listener = Listener(names)
    told = listener.add(answer)
    return reply[: len(reply) - len(answer)] + (told + listener.end()[0]).rstrip()
