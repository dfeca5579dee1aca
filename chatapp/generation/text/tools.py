"""Functions that a model may call, and its calls, in the forms that models were trained on."""

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
"""A parameter of Qwen3-Coder and Qwen 3.5."""
INVOKE = re.compile(r'<invoke name="([\w.-]+)">\s*((?:<parameter name=.*?</parameter>\s*)*)(?:</invoke>|\Z)', re.DOTALL)
NAMED = re.compile(r'<parameter name="([^"\n]+)">\n?(.*?)\n?</parameter>', re.DOTALL)
"""A parameter of MiniMax."""
Schemas = Mapping[str, Mapping[str, Any] | None]  # Any: JSON Schemas
"""The schemas of functions' arguments, by function."""

LENIENT = {"x-guidance": {"lenient": True}}
"""Added to a schema whose unsupported parts, such as an unknown format, should be ignored."""
GEMMA = re.compile(r"<\|tool_call>call:([\w.-]+)(\{.*?\})\s*(?:<tool_call\|>|\Z)", re.DOTALL)
QUOTE = '<|"|>'
"""The quotation mark in Gemma 4's calls."""
MEMBER = re.compile(r'[\[{,\s]*"([^"\\]*)"(?:\s*:\s*("(?:[^"\\]|\\.)*"|[\[{]|[^\s"\[{,}]+(?=[\s,}])))?', re.DOTALL)
"""A name in JSON and its value, if complete; of objects and lists, the opening bracket."""
LONGEST = 400
"""A call without a mark must begin in this many characters."""
CALLED = "name", "arguments", "parameters", "function", "type", "id"
"""The names of a call's parts."""
KEY = re.compile(r"([{,]\s*)([^\s{}\[\],:]+)\s*:")
"""A name in Gemma 4's calls, which is not quoted."""


@dataclass(frozen=True)
class Function:
    """A function that a model may call."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None  # Any: a JSON Schema
    """The schema of its arguments, an object."""

    def describe(self) -> dict[str, Any]:  # Any: JSON
        """The function in OpenAI's form, as templates expect it."""
        told = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": {name: fact for name, fact in told.items() if fact is not None}}


@dataclass(frozen=True)
class Toolbox:
    """The functions offered to a model, and whether one must be called."""

    functions: Sequence[Function] = ()
    forced: Sequence[Function] = ()
    """One of these must be called."""
    most: int | None = None
    """Most calls that are reported; None: all."""
    strict: bool = False
    """With a forced call: whether an unsupported schema is an error."""

    def keep_to(self, form: Mapping[str, Any]) -> dict[str, Any]:  # Any: as Options has them
        """The options for these tools, and those for the answer's form, `form`, unless a call is forced."""
        told = {"tools": tuple(json.dumps(one.describe()) for one in self.forced or self.functions)}
        if not self.forced:
            return {**form, **told} if told["tools"] else {**form}
        return {**told, "json_schema": json.dumps(describe_calls(self.forced) | ({} if self.strict else LENIENT))}

    def listen(self) -> Listener | None:
        """A listener for calls; None if no function is offered."""
        schemas = {one.name: one.parameters for one in self.functions}
        return Listener([*schemas], self.most, schemas) if schemas else None


def describe_calls(functions: Sequence[Function], key: str = "arguments") -> dict[str, Any]:  # Any: JSON
    """The schema of a call of one of these functions, with its arguments under `key`."""
    calls = [describe_call(one, key) for one in functions]
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def describe_call(function: Function, key: str) -> dict[str, Any]:
    """The schema of a call."""
    own = {"$id": f"urn:{function.name.encode().hex()}"}  # its references are inside itself
    arguments = {**own, **(function.parameters or {"type": "object"})}
    properties = {"name": {"const": function.name}, key: arguments}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


@dataclass
class Listener:
    """Finds the calls in a growing reply; text that may become one is held back."""

    names: Sequence[str]
    most: int | None = None
    schemas: Schemas = field(default_factory=dict)
    _held: str = field(default="", init=False)
    _begun: bool = field(default=False, init=False)
    """Whether any text was passed on."""

    def add(self, text: str) -> str:
        """Add text; returns what can be passed on."""
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
        """Whether it may be a call without a mark, at the beginning of the reply: JSON, or a name and JSON."""
        start = self._held.lstrip()
        if self._begun or not start:
            return not self._begun
        return (start[0] in "{[" and not start.startswith("[TOOL") and may_call(start[:LONGEST], self.names)) or any(
            f"{name}{{".startswith(start) or start.startswith(f"{name}{{") for name in self.names
        )

    def end(self) -> tuple[str, list[ToolCall]]:
        """The rest of the text, and the calls, when the text has ended."""
        held, self._held = self._held, ""
        calls = [*read_calls(held, self.names, self.schemas)][: self.most]
        return ("", calls) if calls else (held, [])


def may_call(start: str, names: Sequence[str]) -> bool:
    """Whether JSON with this beginning may be a call of one of these functions."""
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
    """The length of the longest prefix of a mark that the text ends with."""
    return next((length for length in range(min(len(mark), len(text)), 0, -1) if text.endswith(mark[:length])), 0)


def read_calls(text: str, names: Sequence[str], schemas: Schemas | None = None) -> Iterator[ToolCall]:
    """Parse the calls of these functions in a text; `schemas` tell texts from numbers in some forms."""
    for name, arguments in spell_calls(text, names, schemas or {}):
        if name in names and isinstance(arguments, dict):
            yield ToolCall(name, json.dumps(arguments, ensure_ascii=False), uuid4().hex[:9])  # as Mistral wants


def spell_calls(text: str, names: Sequence[str], schemas: Schemas) -> Iterator[tuple[str, Any]]:
    """Names and unchecked arguments of all calls."""
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
    """Convert Gemma 4's arguments to JSON."""
    pieces = enumerate(arguments.split(QUOTE))
    return "".join(json.dumps(piece) if i % 2 else KEY.sub(r'\1"\2":', piece) for i, piece in pieces)


def typed(value: str, key: str, schema: Mapping[str, Any] | None) -> Any:  # Any: JSON
    """An unquoted argument: text if the schema says so, otherwise JSON, if it is valid."""
    properties = (schema or {}).get("properties")
    described = properties.get(key) if isinstance(properties, Mapping) else None
    if isinstance(described, Mapping) and described.get("type") == "string":
        return value
    with suppress(ValueError, RecursionError):
        return json.loads(value)
    return value


def read_python(text: str) -> Iterator[tuple[str, Any]]:  # Any: JSON
    """Parse calls in Python's syntax, alone or in a list, with literals as named arguments; nothing is run."""
    with suppress(SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        found = ast.parse(text.strip(), mode="eval").body
        for call in found.elts if isinstance(found, ast.List) else [found]:
            if isinstance(call, ast.Call) and not call.args:
                arguments = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
                yield ast.unparse(call.func), json.loads(json.dumps(arguments))


def name_call(value: Any) -> tuple[str, Any]:  # Any: parsed JSON
    """The name and arguments of a call in JSON; Llama calls the latter parameters."""
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
    """The consecutive JSON values in a text, lists flattened, up to the first invalid one."""
    decoder, place = json.JSONDecoder(), 0
    with suppress(ValueError, RecursionError):
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            yield from value if isinstance(value, list) else [value]
            place = next((at for at in range(place, len(text)) if text[at] not in " \t\r\n;,"), len(text))


def strip_calls(reply: str, names: Sequence[str]) -> str:
    """A reply without its calls of these functions; earlier thinking stays."""
    answer = split(reply).answer
    listener = Listener(names)
    told = listener.add(answer)
    return reply[: len(reply) - len(answer)] + (told + listener.end()[0]).rstrip()
