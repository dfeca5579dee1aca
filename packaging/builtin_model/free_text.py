"""Measures what the model writes after short prompts: whether it goes round in circles, and whether Python parses it.

    python packaging/builtin_model/free_text.py [--model W/model] [--option NAME=VALUE ...] [--show]
    python packaging/builtin_model/free_text.py --texts old.json        # with the old model, then
    python packaging/builtin_model/free_text.py --before old.json       # with the new one: both as Markdown

Without options it compares what was usual (greedy, and the general defaults) with what the model's own defaults give.
The prompts are 12 such as newcomers type, and 28 headings of functions from packages that no model has been trained on;
the texts have 8 in JavaScript and TypeScript besides.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from chatapp.generation import Engine, Options
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from chatapp.workspace import Workspace

TOKENS = 80
NEWCOMERS = (
    "def fibonacci(n):",
    "def is_prime(n):",
    "def read_json(path):",
    "class Stack:",
    "import os",
    "for i in range(10):",
    "def main():",
    "def add(a, b):",
    "with open(path) as f:",
    "try:\n    import numpy",
    "def hello():",
    "class Point:\n    def __init__(self, x, y):",
)
HEADINGS = (
    "def _output_const_repr(group: t.Iterable[t.Any]) -> str:",
    "def iscommentline(line: str) -> bool:",
    "def _should_ignore_dir(directory: str) -> bool:",
    "def _is_python_file(filename: str, dirpath: str) -> bool:",
    "def parse_macro() -> nodes.Macro:",
    "def parse_call(node: nodes.Expr) -> nodes.Call:",
    "def _compile(source: str, filename: str) -> CodeType:",
    "def single_chained(cls, *modules: str) -> Route:",
    "def _format_form_param(name: str, value: str) -> bytes:",
    "def flush() -> str:",
    "def _is_external(module: Module, package_modules: set[Module]) -> bool:",
    "def as_const(eval_ctx: t.Optional[EvalContext] = None) -> Markup:",
    "def _skip_leading_empty_chunks(body: Iterable[_T]) -> Iterable[_T]:",
    "def blockvisit(nodes: t.Iterable[nodes.Node], frame: Frame) -> None:",
    "def exec_module(module: ModuleType) -> None:",
    "async def handle_async_request(request: Request) -> Response:",
    "def iter_chunks() -> Iterator[bytes]:",
    "def copy() -> Settings:",
    "def get_mtime(file_name: str) -> float:",
    "def get_source_checksum(source: str) -> str:",
    "def alias_httpx() -> None:",
    "def print_help() -> None:",
    "def _has_a_non_namespace_parent(spec: ModuleSpec) -> bool:",
    "def send_bytes(data: bytes) -> None:",
    "def quote(string: str, safe: str) -> str:",
    "def json() -> object:",
    "def close(code: int = 1000, reason: str | None = None) -> None:",
    "def set_cookie(cookie: Cookie) -> None:",
)
"""From jinja2, httpx2, grimp and iniconfig, without `self`."""
JAVASCRIPT = (
    "function fibonacci(n) {",
    "export function isPrime(n: number): boolean {",
    "class Stack {",
    "const fs = require('fs');",
    "for (let i = 0; i < 10; i++) {",
    "async function getJson(url) {",
    "const app = express();",
    "export interface User {",
)
"""What newcomers type in JavaScript and TypeScript; measured by eye alone."""
PLAIN = Options(temperature=0.0, max_tokens=TOKENS, seed=0)
FEWEST = 24
"""Words below which nothing is called a circle."""


def write(engine: Engine, prompt: str, options: Options) -> str:
    """What the model goes on with."""
    with closing(engine.complete(prompt, options)) as deltas:
        return "".join(delta.text for delta in deltas)


def is_circle(text: str) -> bool:
    """Whether a text ends in something said three times or more, or says the same three words again and again."""
    words = re.findall(r"\w+|[^\w\s]", text)
    if len(words) < FEWEST:
        return False
    for length in range(1, 13):
        parts = [words[max(0, end - length) : end] for end in range(len(words), 0, -length)]
        times = next((place for place, part in enumerate(parts) if part != parts[0]), len(parts))
        if times >= 3 and times * length >= 12:
            return True
    return len(set(zip(words, words[1:], words[2:], strict=False))) < 0.45 * (len(words) - 2)


def repeated(text: str) -> float:
    """The share of lines that were there before."""
    lines = [line.strip() for line in text.split("\n") if len(line.strip()) > 5]
    return 1 - len(set(lines)) / len(lines) if lines else 0.0


def parses(prompt: str, text: str) -> bool:
    """Whether Python parses it, without its last line if need be: that may have been cut."""
    lines = (prompt + text).split("\n")
    return any(
        len(kept) > prompt.count("\n") + (kept is not lines) and is_python("\n".join(kept).rstrip())
        for kept in (lines, lines[:-1])
    )


def is_python(code: str) -> bool:
    """Whether it is a module."""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True


def settings(engine: Engine, given: Sequence[str]) -> Iterator[tuple[str, Options]]:
    """The options to measure, with what they are called."""
    own = replace(engine.defaults, max_tokens=TOKENS, seed=0)
    if given:
        values = {name: json.loads(value) for name, _, value in (option.partition("=") for option in given)}
        yield " ".join(given), replace(PLAIN, **values)
        return
    yield "greedy", PLAIN
    yield "usual defaults", Options(max_tokens=TOKENS, seed=0)
    yield "the model's own", own
    yield "the same, greedy", replace(own, temperature=0.0)


def describe(prompt: str, texts: dict[str, str]) -> str:
    """What models wrote after a prompt, as Markdown, each under its heading."""
    return "\n\n".join(f"{heading}\n\n```text\n{prompt}{text.rstrip()}\n```" for heading, text in texts.items())


def main() -> None:
    """Parses the command line, measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--option", action="append", default=[], help="greedy, with NAME=VALUE; repeatable")
    parser.add_argument("--show", action="store_true", help="print the texts, on standard error")
    parser.add_argument("--texts", type=Path, help="write what the model's own defaults give, by prompt, and end")
    parser.add_argument("--before", type=Path, help="such a file of another model: print both, and end")
    arguments = parser.parse_args()
    engine = open_engine(Workspace().open_store(), arguments.model, PlacementOptions())
    prompts: tuple[str, ...] = NEWCOMERS + HEADINGS
    if arguments.texts or arguments.before:
        own = replace(engine.defaults, max_tokens=TOKENS, seed=0)
        prompts += JAVASCRIPT
        said = {prompt: write(engine, prompt, own) for prompt in prompts}
        if arguments.texts:
            arguments.texts.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
        if arguments.before:
            before = json.loads(arguments.before.read_text(encoding="utf-8"))
            print("\n\n---\n\n".join(describe(one, {"Before:": before[one], "Now:": said[one]}) for one in prompts))
        return
    print(f"{'':48} {'circles':>8} {'repeated lines':>15} {'parse':>6}")
    for name, options in settings(engine, arguments.option):
        texts = [write(engine, prompt, options) for prompt in prompts]
        if arguments.show:
            for prompt, text in zip(prompts, texts, strict=True):
                print(
                    f"--- {name}{'' if parses(prompt, text) else ' (does not parse)'}\n{prompt}{text}", file=sys.stderr
                )
        shares = (
            sum(map(is_circle, texts)),
            sum(map(repeated, texts)),
            sum(map(parses, prompts, texts)),
        )
        circles, lines, right = (100 * share / len(prompts) for share in shares)
        print(f"{name:48} {circles:6.0f} % {lines:13.0f} % {right:4.0f} %", flush=True)


if __name__ == "__main__":
    main()
