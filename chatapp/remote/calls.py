"""Tool calls over the wire: names that every server accepts, and calls assembled from their parts."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chatapp.generation import ToolCall

HINT = "the request included tools; turn them off (/tools off), or choose another model"
"""Advice when a server refuses a request with tools."""


@dataclass(frozen=True, slots=True)
class CallPart:
    """A part of a call: the first has the name, later ones continue the arguments."""

    name: str
    arguments: str
    """A piece of JSON."""
    index: int | None = None
    """Which call it belongs to, if the server says; without it, a name begins a new call."""
    id: str = ""


@dataclass
class Calls:
    """The calls of one reply while it arrives."""

    offered: Sequence[str]
    """The names of the offered functions."""
    _found: list[CallPart] = field(default_factory=list)

    def add(self, part: CallPart) -> None:
        """Add a part of a call."""
        same = [place for place, one in enumerate(self._found) if part.index in (None, one.index)]
        last = self._found[same[-1]] if same else None
        another = bool(part.id and last and part.id != last.id) or (part.index is None and bool(part.name))
        if last is None or another:
            self._found.append(part)
        else:
            arguments = last.arguments + part.arguments
            self._found[same[-1]] = replace(last, name=last.name or part.name, arguments=arguments)

    def spell(self) -> str:
        """The calls in the markup in which conversations store them."""
        names, told = {spell_name(name): name for name in self.offered}, ""
        for one in self._found:
            name, arguments = json.dumps(names.get(one.name, one.name)), one.arguments.strip() or "{}"
            arguments = arguments.replace("<", r"\u003c")  # so that no argument contains the closing tag
            told += f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>\n'
        return told


def spell_name(name: str) -> str:
    """A function's name in characters that every server accepts; OpenAI refuses dots."""
    return re.sub(r"[^\w-]", "_", name, flags=re.ASCII)


def read_tools(tools: Sequence[str]) -> list[dict[str, Any]]:  # Any: JSON
    """The tools of Options as OpenAI and Ollama take them."""
    offered = [json.loads(tool) for tool in tools]
    for tool in offered:
        tool["function"]["name"] = spell_name(tool["function"]["name"])
    return offered


def read_names(tools: Sequence[str]) -> list[str]:
    """The names of the tools of Options."""
    return [json.loads(tool)["function"]["name"] for tool in tools]


def describe_call(call: ToolCall, *, parsed: bool) -> dict[str, Any]:  # Any: JSON
    """A call of an earlier reply; its arguments as text, or as an object (`parsed`, for Ollama)."""
    arguments = json.loads(call.arguments) if parsed else call.arguments
    function = {"name": spell_name(call.name), "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}
