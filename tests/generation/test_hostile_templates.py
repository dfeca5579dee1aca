"""Chat templates that want all time or all memory, or a way out of their sandbox: each ends with one line."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatapp.generation.errors import GenerationError
from chatapp.generation.memory import peak_memory, resident_memory
from chatapp.generation.text import rendering
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.rendering import COMMAND, FLAG, Limits, Renderer, RenderingError
from model_store import UnsupportedCheckpoint
from support.checkpoints import ROOT
from support.messages import TALK
from support.patience import PATIENCE
from support.scripted_session import write_tokenizer

SET = "{% set t = 'xxxxxxxxx' * 1000 %}{% set big = 'ab\n' * (500000 * messages|length) %}"
"""Texts for templates; what is a constant would be written into their program, which alone takes too long."""
GROW = "{%% set ns = namespace(x=['a']) %%}{%% for i in range(40) %%}{%% set ns.x = %s %%}{%% endfor %%}{{ ns.x%s }}"
DOUBLED = ["[ns.x, ns.x]", "(ns.x, ns.x)", "{'a': ns.x, 'b': ns.x}", "dict(a=ns.x, b=ns.x)"]
SHOWN = [
    "",
    " ~ ''",
    "|string",
    "|tojson",
    "|pprint",
    "|escape",
    "|urlize",
    "|title",
    "|xmlattr",
]
LOOP = "{%% for i in range(99999) %%}{%% for j in range(99999) %%}%s{%% endfor %%}{%% endfor %%}"
IN_LOOPS = [
    "",
    "{% set x = big|length %}",
    "{% set x = big|upper %}",
    "{% set x = big|reverse %}",
    "{% set x = 'a' in big %}",
    "{% set x = big.count('b') %}",
    "{% set x = big|wordcount %}",
    "{% set x = (3**90000) // (7**30000) %}",
    "{% set x = messages|tojson %}",
    "{% set x = messages|map(attribute='role')|list %}",
    "{% set x = messages|groupby('role') %}",
    "{% set x = messages|sort(attribute='content') %}",
    "{% set x = strftime_now('%Y' * 1000) %}",
    "{{ 'a' if i < 0 }}",
    "{% if big == big ~ 'a' %}{% endif %}",
    "{% set x = dict.fromkeys(range(99999)) %}",
    "{% filter upper %}{{ t }}{% endfilter %}",
    "{% call(x) caller_of() %}{% endcall %}",
    "{{ cycler(1, 2).next() }}",
    "{% set x = '%s %s' % (i, j) %}",
]
TEXTS = [
    "'x' * 10**9",
    "10**9 * 'x'",
    "'x' * 10**10",
    "[0] * 10**10",
    "(1,) * 10**9",
    "[[0] * 10**6] * 10**6 * 10**3",
    "'x'.ljust(10**9)",
    "'x'.rjust(10**9)",
    "'x'.center(10**9)",
    "'x'.zfill(10**9)",
    "'x' | center(10**9)",
    "'%2000000000d' % 1",
    "'%*d' % (2000000000, 1)",
    "'%.2000000000f' % 1",
    "'%-2000000000s|' % 'a'",
    "'%(a)2000000000s' % {'a': 1}",
    "'%2000000000d' | format(1)",
    "'%*d' | format(2000000000, 1)",
    "'{:2000000000d}'.format(1)",
    "'{:{}}'.format('a', 2000000000)",
    "'{:.2000000000f}'.format(1.0)",
    "'{a:>2000000000}'.format_map({'a': 1})",
    "('a\n' * 100000) | indent(1000000)",
    "('a\n' * 100000) | indent('x' * 1000000)",
    "('x' * 100000).join(['a'] * 100000)",
    "(['a'] * 100000) | join('x' * 100000)",
    "range(99999) | join('x' * 100000)",
    "big.replace('a', 'b' * 3000)",
    "big | replace('a', 'b' * 3000)",
    "big.replace('', 'b' * 3000)",
    "('\t' * 1000000).expandtabs(10000)",
    "big.translate({97: 'b' * 3000})",
    "big.split('b') * 1000",
    "(big * 10) | list",
    "(big * 10) | batch(1) | list",
    "(big * 10) | slice(10**8) | list",
    "big | batch(10**10, 'x') | list",
    "big | slice(10**10) | list",
    "big | wordwrap(1)",
    "big | tojson(indent=10**9)",
    "[1, [2]] | tojson(indent=10**9)",
    "[1] | tojson(indent='x' * 10**9)",
    "([1] * 10000) | tojson(separators=('x' * 1000000, ''))",
    "([[1] * 10000] * 10000) | sum(start=[])",
    "([big] * 1000) | sum(start='')",
    "big | urlize",
    "('http://a.b/' * 1000000) | urlize(100, target='x' * 1000000)",
    "('<' * 100000000) | escape",
    "('<' * 100000000) | forceescape",
    "('<' * 100000000) | striptags",
    "('a@b.c ' * 10000000) | urlize",
    "big.encode('utf-16') * 1000",
    "big.splitlines() * 1000",
    "big.partition('b') * 100000000",
    "(big | list) | unique | list * 10**10",
    "10**(10**10)",
    "10**(10**7) | string",
    "9**(9**8)",
    "(2**(2**32)) | length",
    "2.0**(10**10)",
    "(10**5000000) | string",
    "'9' * 5000000 | int",
    "(3**3000000) % (7**1000001)",
    "(1, 2) * -(-(10**10))",
    "big[::-1] * 10000",
    "range(10**9) | list",
    "range(-(10**18), 10**18)",
    "(range(99999) | list) * 100000",
    "dict.fromkeys(big * 1000) | length or 'x' * 10**10",
    "lipsum(n=1000000)",
    "lipsum(1000, True, 100000, 100001)",
    "joiner('x' * 10**10)()",
    "namespace(x='x' * 10**10).x",
    "dict(x='x' * 10**10)",
    "strftime_now('%Y' * 10**9)",
    "raise_exception('x' * 10**10)",
    "(big ~ big ~ big ~ big) * 100",
    "big | truncate(10**9) * 1000",
    "big | trim | upper | lower | title | capitalize * 1000",
    "messages | map(attribute='content') | join('x' * 10**9)",
    "messages | map('center', 10**9) | list",
    "messages | map('replace', 'x', 'y' * 10**8) | list",
    "messages | selectattr('content', 'in', big * 1000) | list or 'x' * 10**10",
    "messages | tojson(indent=10**8)",
    "messages[2].content.replace('x', 'y' * 1000000)",
]
"""Expressions."""
STATEMENTS = [
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for a in t %}{% for b in t %}{% for c in t %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for i in range(2000) %}{{ 'a' * 10000000 }}{% endfor %}",
    "{% for i in range(99999) %}{{ big }}{% endfor %}",
    "{% set ns = namespace(n=9) %}{% for i in range(64) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
    "{% set ns = namespace(x=t) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x=t) %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x=t) %}{% for i in range(64) %}{% set ns.x = ns.x.join([ns.x, ns.x]) %}{% endfor %}",
    "{% set ns = namespace(x=t) %}{% for i in range(64) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
    "{% set ns = namespace(x=t) %}{% for i in range(64) %}{% set ns.x = '%s%s' % (ns.x, ns.x) %}{% endfor %}",
    "{% set ns = namespace(x=t) %}{% for i in range(64) %}{% set ns.x = '{0}{0}'.format(ns.x) %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) ~ m(n - 1) }}{% else %}{{ t }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "{% for i in [1, [2]] recursive %}{{ loop([[1]]) }}{% endfor %}",
    "{% for i in [1, 1] recursive %}{{ loop([1, 1]) if loop.depth < 40 }}{% endfor %}",
    "{% set x = namespace() %}{% set x.a = x %}{{ x | tojson }}",
    "{% filter indent(1000000) %}{{ 'a\n' * 100000 }}{% endfilter %}",
    "{% filter replace('a', 'b' * 100000) %}{{ big }}{% endfilter %}",
    "{% filter center(10**9) %}x{% endfilter %}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% set x %}{% for i in range(99999) %}{{ big }}{% endfor %}{% endset %}",
    "{% with x = 'x' * 10**10 %}{{ x }}{% endwith %}",
    "{% for m in messages %}{% generation %}{{ 'x' * 10**10 }}{% endgeneration %}{% endfor %}",
    "{% for i in range(99999) if 'z' in big %}{% endfor %}",
    "{% for k, v in dict.fromkeys(range(99999), big).items() %}{{ v }}{% endfor %}",
]
DAMAGED = [
    "{% if %}",
    "{{",
    "{% endfor %}",
    "{% for %}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends 'x' %}",
    "{% from 'x' import y %}",
    "{{ undefined.x }}",
    "{{ 1/0 }}",
    "{{ ''|nothing }}",
    "{{ (" * 300 + "1" + ") }}" * 300,
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "[" * 90 + "]" * 90 + "[0] * 10**10 }}",
    "{{ " + "not " * 50000 + "1 }}",
    "{{ " + "-" * 50000 + "1 }}",
    "{{ 1" + " + 1" * 50000 + " }}",
    "{{ x" + ".a" * 50000 + " }}",
    "{{ 1" + "|string" * 50000 + " }}",
    "{% if 1 %}" * 5000,
    "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "{% for i in t %}" * 60 + "{% endfor %}" * 60,
    "{{ '" + "\\x41" * 10 + "' * 10**10 }}",
    "{{ 9" + "9" * 5000 + " }}",
    "{{ " + " ~ ".join(["t"] * 100000) + " }}",
    "{{ a }}" * 140_000,
    "{# " + "x" * 900_000,
    "{% raw %}" * 100_000,
]
"""Templates that cannot be compiled, or not in time."""
ESCAPES = [
    "''.__class__",
    "''.__class__.__mro__[1].__subclasses__()",
    "''['__class__']",
    "''|attr('__class__')|attr('__mro__')",
    "messages.__class__.__base__",
    "dict.fromkeys.__globals__.x",
    "dict.__call__.__globals__.x",
    "dict.__init__.__globals__.x",
    "raise_exception.__globals__.x",
    "strftime_now.__globals__['datetime']",
    "cycler.__init__.__globals__.os.popen('id').read()",
    "joiner.__init__.__globals__.os.popen('id').read()",
    "namespace.__init__.__globals__.os.popen('id').read()",
    "self.__init__.__globals__.x",
    "self._TemplateReference__context.environment.x",
    "range.__self__.open('/etc/passwd')",
    "tojson.__wrapped__.x",
    "'{0.__class__.__mro__}'.format(1)",
    "'{a.__class__}'.format_map({'a': 1})",
    "('{0.__class__}'|format)(1)",
    "messages.append(1)",
    "messages[0].update(a=1)",
    "messages[0].pop('role')",
    "messages.clear()",
    "messages.sort()",
    "namespace(__class__=1)",
    "loop.__class__.x",
    "caller.x()",
    "environment.x.y",
    "[].__reduce_ex__(2)",
    "((1).__add__).__self__",
    "(messages|map(attribute='__class__')|list)[0].x",
    "(messages|first).__getattribute__('x')",
    "''.join.__self__.__class__",
    "(''|attr('format'))('__class__').__class__",
    "[messages]|map('attr', '__class__')|map('attr', '__mro__')|list|first|first",
]
"""Expressions that look for a way out; where there is none they fail, or give nothing."""
HOSTILE = [
    *(f"{SET}{{{{ {expression} }}}}" for expression in TEXTS),
    *(SET + statement for statement in STATEMENTS),
    *(GROW % (doubled, shown) for doubled, shown in zip(DOUBLED * 3, SHOWN, strict=False)),
    *(SET + LOOP % body for body in IN_LOOPS),
    *DAMAGED,
]


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    renderer = Renderer(Limits(seconds=0.025, patience=5, memory=80_000_000))
    yield renderer
    renderer.close()


def written(folder: Path, source: str) -> Path:
    """A folder called `hostile` with this template."""
    folder = folder / "hostile"
    folder.mkdir()
    write_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(source)
    return folder


def test_there_are_enough_hostile_templates() -> None:
    assert len({*HOSTILE, *ESCAPES}) >= 200


def test_what_hostile_templates_begin_with_does_not_end_them(tmp_path: Path, renderer: Renderer) -> None:
    assert ChatTemplate(written(tmp_path, SET + "{{ big|length }}"), renderer).render(TALK) == ["4500000"]


@pytest.mark.parametrize("source", HOSTILE, ids=lambda source: source.replace(SET, "")[:60])
def test_a_damaged_or_endless_template_ends_with_one_line(source: str, tmp_path: Path, renderer: Renderer) -> None:
    template = ChatTemplate(written(tmp_path, source), renderer)
    before = peak_memory()
    with pytest.raises(
        GenerationError, match="the chat template of hostile (takes more|renders to more|refuses|cannot)"
    ) as caught:
        template.render(TALK)
    assert len(str(caught.value)) < 700
    assert peak_memory() - before < 200 << 20


@pytest.mark.parametrize("expression", ESCAPES)
def test_a_template_does_not_find_out_of_its_sandbox(expression: str, tmp_path: Path, renderer: Renderer) -> None:
    template = ChatTemplate(written(tmp_path, "{{ " + expression + " }}"), renderer)
    try:
        assert template.render(TALK) == [""]
    except GenerationError as error:
        assert "refuses this conversation" in str(error)


def test_a_template_of_more_than_a_megabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"chat_template\.jinja .* larger than 1 MB"):
        ChatTemplate(written(tmp_path, "{{ a }}" * 200_000))


def test_after_a_hostile_template_the_next_is_rendered_as_ever(tmp_path: Path, renderer: Renderer) -> None:
    good = ChatTemplate(written(tmp_path, "{{ messages[0].content }}"), renderer)
    for source in ("{{ 'x' * 10**10 }}", LOOP % "", "{{ 1/0 }}"):
        with pytest.raises(RenderingError):
            renderer.render(source, [[]], {})
        assert good.render(TALK) == [" Hello, world! "]


def test_only_a_process_that_holds_much_memory_is_not_used_again(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer.render("", [[]], {})
    process = renderer._process
    with pytest.raises(RenderingError, match="80 MB" if sys.platform == "linux" else ""):
        renderer.render("{{ 'x' * 10**10 }}", [[]], {})
    assert renderer._process is process or sys.platform != "linux"
    monkeypatch.setattr(rendering, "HELD", 1 << 20)
    renderer.render("", [[]], {})
    assert renderer._process is None


def test_a_text_that_is_far_longer_than_its_conversation_is_refused(tmp_path: Path, renderer: Renderer) -> None:
    """A hundred bytes of memory for each of its characters would be needed to make tokens of it."""
    template = ChatTemplate(written(tmp_path, "{% for i in range(3000) %}{{ 'word ' * 400 }}{% endfor %}"), renderer)
    with pytest.raises(GenerationError, match="renders to more than 1,00.,... characters"):
        template.render(TALK)


def test_a_long_conversation_may_take_more_time_and_memory(renderer: Renderer) -> None:
    long = [{"role": "user", "content": "words " * 1_000_000}] * 4
    source = "{% for m in messages %}{{ m.content | trim }}{% endfor %}"
    assert len(renderer.render(source, [long], {})[0]) == 4 * 5_999_999


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("hog = [b'x' * 1_000_000 for _ in range(500)]; input(); input()", "takes more than 10 MB of memory"),
        ("input(); import threading; threading.Event().wait()", "takes more than 0.0 seconds"),
        ("input(); import os; os.abort()", r"the process for it ended \((SIGABRT|exit code 3)\)"),
        ("1", r"the process for it ended \(exit code 0\)"),
    ],
)
def test_a_process_that_heeds_no_limit_is_ended_by_the_one_that_asked_it(does: str, says: str) -> None:
    command = (sys.executable, "-I", "-S", "-c", does)
    patience = 0.2 if "wait" in does else PATIENCE
    renderer = Renderer(Limits(seconds=0.01, patience=patience, memory=10_000_000), command)
    with pytest.raises(RenderingError, match=says):
        renderer.render("", [[]], {})
    renderer.close()


def test_a_process_that_cannot_be_started_is_an_error_when_something_is_to_be_rendered() -> None:
    renderer = Renderer(command=("/nowhere/python",))
    renderer.start()
    with pytest.raises(RenderingError, match="the process for it did not start"):
        renderer.render("", [[]], {})


def test_the_resident_memory_of_a_process_is_told_and_of_none_it_is_0() -> None:
    assert 1 << 20 < resident_memory(os.getpid()) <= peak_memory() + (4 << 20)  # Linux adds up both only now and then
    assert resident_memory(2**22 + 1) == 0


def test_chatapp_itself_can_be_the_process_that_renders() -> None:
    renderer = Renderer(command=(*COMMAND[:3], "chatapp", FLAG))
    assert renderer.render("{{ messages[0].a }}", [[{"a": "b"}]], {}) == ["b"]
    renderer.close()


INTERRUPTED = """
import os, signal, sys, threading, time
from chatapp.cli.printing import stoppable
from chatapp.generation.text.rendering import RENDERER, Limits

signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
RENDERER.limits = Limits(seconds=100, patience=100)
if sys.argv[2] == "a process that waits":
    RENDERER.render("warm", [[]], {})

def press():
    while not RENDERER._busy:
        pass
    time.sleep(float(sys.argv[3]))
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press, daemon=True).start()
try:
    with stoppable():
        RENDERER.render(sys.argv[1], [[]], {})
except KeyboardInterrupt:
    print(*RENDERER.render("still here", [[]], {}))
"""
"""A program whose user presses Ctrl+C some seconds after a rendering has begun that would otherwise be an error."""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("later", ["0", "0.3"])
@pytest.mark.parametrize("by", ["a process that waits", "a process that is started for it"])
def test_the_first_ctrl_c_ends_a_rendering_at_once(by: str, later: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, LOOP % "", by, later]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stdout, done.stderr) == (0, "still here\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="the process of Unix ends itself")
def test_a_process_whose_asker_is_gone_ends_by_itself() -> None:
    request = json.dumps([0.05, 200_000_000, 1, [LOOP % "", {}], [[]]]).encode() + b"\n"
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(request)
        process.stdin.close()
        assert process.wait() == -signal.SIGPROF
