"""Functions that clients offer to the model, and the choice among them."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from chatapp.generation.text import tools
from chatapp.generation.text.tools import Toolbox
from chatapp.server.bodies import Body
from chatapp.server.refusals import Refusal, unsupported

Choice = Literal["auto", "none", "required"]


class Function(Body):
    """A function that a model may ask to be called."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Body):
    """A function, as OpenAI and Ollama offer it."""

    type: Literal["function"] = "function"
    function: Function


class Named(Body):
    """The name of a function."""

    name: str


class Chosen(Body):
    """The function that is to be called."""

    type: Literal["function"] = "function"
    function: Named


class FlatChoice(Body):
    """The same, as responses tell it."""

    type: Literal["function"]
    name: str


class Allowed(Body):
    """The functions that may be called, of those that are offered, and whether one has to be."""

    mode: Literal["auto", "required"]
    tools: list[Chosen] = Field(min_length=1)


class AllowedTools(Body):
    """The same, as chat completions tell it."""

    type: Literal["allowed_tools"]
    allowed_tools: Allowed


def join_name(namespace: str | None, name: str | None) -> str:
    """The name of a function as the model sees it."""
    return f"{namespace}__{name}" if namespace else name or ""


def allow(offered: Sequence[Function], names: Sequence[str]) -> list[Function]:
    """The functions with these names; Refusal if a name is not among them."""
    known = {one.name for one in offered}
    if unknown := next((name for name in names if name not in known), None):
        raise refuse_choice(unknown)
    return [one for one in offered if one.name in names]


def refuse_choice(name: str) -> Refusal:
    """The refusal of a choice that names no tool."""
    return Refusal(400, f"tool_choice names {name[:60]!r}, which is not one of the tools", param="tool_choice")


def choose_tools(offered: Sequence[Function], choice: Choice | str, *, parallel: bool = True) -> Toolbox:
    """The toolbox for offered functions and a choice, which may be a function's name."""
    functions = [tools.Function(one.name, one.description, one.parameters) for one in offered]
    if not functions and choice not in ("auto", "none"):
        raise unsupported("tool_choice", "there are no tools to choose from")
    if choice == "none" or not functions:
        return Toolbox()
    most, strict = None if parallel else 1, any(one.strict for one in offered)
    if choice in ("auto", "required"):
        return Toolbox(functions, functions if choice == "required" else (), most, strict)
    if forced := [one for one in functions if one.name == choice]:
        return Toolbox(functions, forced, most, strict)
    raise refuse_choice(choice)
