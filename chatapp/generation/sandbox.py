"""The Jinja environment that chat templates are written for: transformers' own, and with an end to everything.

https://github.com/huggingface/transformers, utils/chat_template_utils.py, has its names and filters. A template is a
stranger's program: jinja2's sandbox keeps it from Python, and what is counted here from running for ever.
"""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import wraps
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

STEPS = 300_000
"""Turns of loops and calls in one rendering; a long conversation takes some thousands."""
LENGTH = 20_000_000
"""Characters, or entries of a list, that one operation may give."""
NUMBER = 1_000_000
"""The greatest argument, which is a width or a count."""


class Sandbox(ImmutableSandboxedEnvironment):
    """transformers' environment, which counts what a template does."""

    intercepted_binops = frozenset(("+", "*", "**"))

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        self.steps = 0
        self.filters["tojson"] = tojson
        self.filters = {name: limited(function) for name, function in self.filters.items()}
        self.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
        self.globals.update(dict=Dictionary(), namespace=TemplateNamespace)

    def render(self, template: jinja2.Template, **names: object) -> str:
        """A template's text."""
        self.steps = 0
        return template.render(**names)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = Counting().visit(super()._parse(source, name, filename))
        return tree

    def step(self) -> None:
        """Count one turn of a loop or one call."""
        self.steps += 1
        if self.steps > STEPS:
            raise jinja2.TemplateRuntimeError(f"it takes more than {STEPS:,} steps")

    def concat(self, parts: Iterable[object]) -> str:
        """Texts in a row: of blocks, of macros, of the whole, and of `~`."""
        texts = [str(part) for part in parts]
        check_length(sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # Any: a template's values
        """left + right and the like, unless the result were too large."""
        match operator, left, right:
            case "+", str() | list() | tuple(), str() | list() | tuple():
                check_length(len(left) + len(right))
            case "*", str() | list() | tuple(), int():
                check_length(len(left) * right)
            case "*", int(), str() | list() | tuple():
                check_length(left * len(right))
            case "*" | "**", int(), int() if operator == "**" or left.bit_length() + right.bit_length() > 4096:
                check_length(left.bit_length() * right if operator == "**" else LENGTH + 1)
        return super().call_binop(context, operator, left, right)

    def call(*arguments: Any, **named: Any) -> Any:  # Any: a template's values; no names that they could have too
        """Call a function or a method of a template, and count it."""
        self: Sandbox = arguments[0]
        self.step()
        check_numbers((*arguments[3:], *named.values()))
        return ImmutableSandboxedEnvironment.call(*arguments, **named)


class Counting(NodeTransformer):
    """Makes each turn of a loop a step, and joins texts where their length is looked at."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(call("step", [], node.lineno), lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return call("concat", [nodes.List(node.nodes, lineno=node.lineno)], node.lineno)


def call(method: str, arguments: list[nodes.Expr], line: int) -> nodes.Call:
    """A call of one of the sandbox's own methods."""
    return nodes.Call(nodes.EnvironmentAttribute(method), arguments, [], None, None, lineno=line)


class Generation(Extension):
    """{% generation %} marks the assistant's words for training; here it is only its body."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class Dictionary:
    """What `dict` is in a template: it makes some, and has no other attribute."""

    def __call__(self, *arguments: Any, **named: Any) -> dict[Any, Any]:
        return dict(*arguments, **named)

    def fromkeys(self, *arguments: Any) -> dict[Any, Any]:
        return dict.fromkeys(*arguments)


class TemplateNamespace(Namespace):
    """What `namespace` is in a template: Jinja's, without names that begin with an underscore."""

    def __init__(*arguments: Any, **named: Any) -> None:  # no names, as in Jinja's: they are the template's
        for name in dict(*arguments[1:], **named):
            check_name(name)
        Namespace.__init__(*arguments, **named)

    def __setitem__(self, name: str, value: Any) -> None:
        check_name(name)
        super().__setitem__(name, value)


def check_name(name: object) -> None:
    """Refuse a name that is Python's own."""
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot have {name!r}")


def check_length(length: int) -> None:
    """Refuse what would be too long."""
    if length > LENGTH:
        raise jinja2.TemplateRuntimeError(f"it makes something of more than {LENGTH:,} characters or entries")


def check_numbers(values: Iterable[object]) -> None:
    """Refuse a number that would make a text or a list too long."""
    for value in values:
        if isinstance(value, int) and abs(value) > NUMBER:
            raise jinja2.TemplateRuntimeError(f"it asks for {value:,}, which is too much")


def limited(function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, which refuses numbers that are too great."""

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        check_numbers((*arguments[1:], *named.values()))
        return function(*arguments, **named)

    return checked


def raise_exception(message: str) -> NoReturn:
    """Refuse the conversation."""
    raise jinja2.TemplateError(message)


def tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """JSON, with letters and angle brackets as they are."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form: str) -> str:
    """The time now, in this form."""
    return datetime.now().strftime(form)
