"""Calls of functions, as servers tell them: offered under names that all of them take, gathered from their parts."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chatapp.generation import ToolCall

HINT = "tools were offered with it: leave them out (/tools off), or choose another model"
"""What may help where a server refuses a request."""


@dataclass(frozen=True, slots=True)
class CallPart:
    """A part of a call: the first has the name, the others go on with the arguments."""

    name: str
    arguments: str
    """JSON, as far as it has come."""
    index: int | None = None
    """Which of the calls, where the server tells; a name without it begins another."""
    id: str = ""


@dataclass
class Calls:
    """The calls of one reply while it arrives."""

    offered: Sequence[str]
    """The names of the functions."""
    _found: list[CallPart] = field(default_factory=list)

    def add(self, part: CallPart) -> None:
        """Take in a part of a call."""
        same = [place for place, one in enumerate(self._found) if part.index in (None, one.index)]
        last = self._found[same[-1]] if same else None
        another = bool(part.id and last and part.id != last.id) or (part.index is None and bool(part.name))
        if last is None or another:
            self._found.append(part)
        else:
            arguments = last.arguments + part.arguments
            self._found[same[-1]] = replace(last, name=last.name or part.name, arguments=arguments)

    def spell(self) -> str:
        """The calls in the marks in which conversations keep them."""
        names, told = {spell_name(name): name for name in self.offered}, ""
        for one in self._found:
            name, arguments = json.dumps(names.get(one.name, one.name)), one.arguments.strip() or "{}"
            arguments = arguments.replace("<", r"\u003c")  # so that no text among them ends the call
            told += f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>\n'
        return told


def spell_name(name: str) -> str:
    """The name of a function as every server takes it: OpenAI refuses dots."""
    return re.sub(r"[^\w-]", "_", name, flags=re.ASCII)


def read_tools(tools: Sequence[str]) -> list[dict[str, Any]]:  # Any: JSON
    """Functions, as Options has them, as OpenAI and Ollama are offered them."""
    offered = [json.loads(tool) for tool in tools]
    for tool in offered:
        tool["function"]["name"] = spell_name(tool["function"]["name"])
    return offered


def read_names(tools: Sequence[str]) -> list[str]:
    """The names of functions, as Options has them."""
    return [json.loads(tool)["function"]["name"] for tool in tools]


def describe_call(call: ToolCall, *, parsed: bool) -> dict[str, Any]:  # Any: JSON
    """A call of an earlier reply, its arguments as text or, as Ollama wants them, `parsed`."""
    arguments = json.loads(call.arguments) if parsed else call.arguments
    function = {"name": spell_name(call.name), "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}
