"""The process that renders chat templates: `python sandbox.py`, which imports nothing of ours.

A template is a program from strangers. jinja2's sandbox keeps it from Python; limits of the operating system, which
apply to a process only, keep it from taking all time and memory. The environment is transformers' own:
https://github.com/huggingface/transformers, utils/chat_template_utils.py, has its names and filters.

A request is a line of JSON: limits in seconds, bytes and characters of output, the template's source and its variables,
and the conversations. The answer is an object with `texts`, or why it `refused`, or which limit was `exceeded`.
"""

import json
import signal
import sys
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

SENTENCE = 500
"""Most characters of a template's error message."""


def serve(requests: Iterable[bytes]) -> None:
    """Answer requests until there are no more."""
    for request in requests:
        sys.stdout.write(answer(request) + "\n")
        sys.stdout.flush()


def answer(request: bytes) -> str:
    """Answer one request."""
    seconds, memory, length, (source, names), conversations = json.loads(request)
    try:
        limit(seconds, memory)
        template = compile_template(source)
        texts = [template.render(messages=messages, **names) for messages in conversations]
        if max(map(len, texts), default=0) > length:
            return json.dumps({"exceeded": "length"})
        return json.dumps({"texts": texts})
    except MemoryError:
        return json.dumps({"exceeded": "memory"})
    except Exception as error:  # templates may fail in any way
        return json.dumps({"refused": f"{error}"[:SENTENCE] or type(error).__name__})
    finally:
        limit(0, sys.maxsize)


def limit(seconds: float, memory: int) -> None:
    """Limit this process's time and memory by the operating system.

    Windows has neither limit, macOS only the first: there the parent watches.
    """
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)
    if sys.platform == "linux":  # macOS has it, but refuses limits below its large address spaces
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (memory if most < 0 else min(memory, most), most))


@lru_cache(8)
def compile_template(source: str) -> jinja2.Template:
    """Compile a template; the last ones are cached."""
    return Sandbox().from_string(source)


class Sandbox(ImmutableSandboxedEnvironment):
    """transformers' environment."""

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        self.filters["tojson"] = tojson
        self.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
        self.globals.update(dict=Dictionary(), namespace=TemplateNamespace)
        del self.globals["lipsum"]


class Generation(Extension):
    """{% generation %}, which marks the assistant's words for training; here only its body matters."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class Dictionary:
    """`dict` in a template: makes dictionaries, and has no other attributes."""

    def __call__(self, *arguments: Any, **named: Any) -> dict[Any, Any]:
        return dict(*arguments, **named)

    def fromkeys(self, *arguments: Any) -> dict[Any, Any]:
        return dict.fromkeys(*arguments)


class TemplateNamespace(Namespace):
    """`namespace` in a template: Jinja's, without names that begin with an underscore."""

    def __init__(*arguments: Any, **named: Any) -> None:  # no named parameters, as in Jinja's: names are the template's
        for name in dict(*arguments[1:], **named):
            check_name(name)
        Namespace.__init__(*arguments, **named)

    def __setitem__(self, name: str, value: Any) -> None:
        check_name(name)
        super().__setitem__(name, value)


def check_name(name: object) -> None:
    """Raise for Python's own names."""
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot have {name!r}")


def raise_exception(message: str) -> NoReturn:
    """Raise, as the template asks."""
    raise jinja2.TemplateError(message)


def tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """JSON that escapes neither letters nor angle brackets."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form: str) -> str:
    """The current time in this format."""
    return datetime.now().strftime(form)


if __name__ == "__main__":
    serve(sys.stdin.buffer)
