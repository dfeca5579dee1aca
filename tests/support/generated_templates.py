"""Chat templates made at random of what takes time and memory: loops, recursion, growth, widths, powers."""

import random

Chance = random.Random
ELSEWHERE = ["{% include 'x' %}", "{% import 'x' as x %}", "{% extends t %}", "{% include [t, 'y'] ignore missing %}"]
PLAIN = ["upper", "title", "escape", "forceescape", "striptags", "urlize", "wordcount", "trim", "tojson", "pprint"]
PLAIN += ["urlencode", "capitalize"]
ORDERS = ["sort", "unique", "reverse", "random", "min", "items", "dictsort", "last"]


def size(chance: Chance, most: float) -> int:
    """A number of any size up to ten to the power of `most`."""
    return int(10 ** chance.uniform(0, most))


def template(chance: Chance) -> str:
    """A template of one to four statements; seldom with a letter too few, or many times the same."""
    source = "{% set t = 'xy z' * 1000 %}{% set ns = namespace(x='a', n=9, l=[1]) %}"
    source += "".join(statement(chance, 3) for _ in range(chance.randint(1, 4)))
    kind = chance.random()
    if kind < 0.08:
        place = chance.randrange(len(source))
        source = source[:place] + source[place + 1 :]
    elif kind < 0.14:
        source *= 10 ** chance.randint(1, 4)
    return source[:1_100_000]


def statement(chance: Chance, depth: int) -> str:
    """A statement, with others inside."""
    inside = statement(chance, depth - 1) if depth else "{{ " + text(chance, 1) + " }}"
    some, count = text(chance, 2), str(size(chance, 5))
    loop = f"{{% for i in range({count}) %}}"
    return chance.choice(
        [
            "{{ " + some + " }}",
            "{{ " + numeric(chance, 3) + " }}",
            "{{ " + several(chance, 3) + " }}",
            "{% for i in " + several(chance, 2) + " %}" + inside + "{% endfor %}",
            f"{loop}{inside}{{% endfor %}}",
            f"{{% for i in range(99) %}}{{% for j in range({count}) %}}{inside}{{% endfor %}}{{% endfor %}}",
            "{% for i in [1, [2, 3]] recursive %}" + inside + "{{ loop([[1], [2]]) if loop.depth < 30 }}{% endfor %}",
            "{% macro m(n) %}" + inside + "{{ m(n - 1) ~ m(n - 1) if n }}{% endmacro %}{{ m(" + count + ") }}",
            "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}" + inside + "{{ a() }}{% endmacro %}{{ a() }}",
            "{% macro c() %}{{ caller() }}{{ caller() }}{% endmacro %}"
            + ("{% call c() %}{% call c() %}" + inside + "{% endcall %}{% endcall %}"),
            f"{loop}{{% set ns.x = {grown(chance)} %}}{{% endfor %}}{{{{ ns.x }}}}",
            f"{loop}{{% set ns.x %}}{{{{ ns.x }}}}{inside}{{{{ ns.x }}}}{{% endset %}}{{% endfor %}}",
            f"{loop}{{% set ns.n = ns.n {chance.choice(['*', '**', '+'])} ns.n %}}{{% endfor %}}{{{{ ns.n }}}}",
            f"{loop}{{% set ns.l = {chance.choice(['ns.l + ns.l', '[ns.l, ns.l]', '(ns.l, i)'])} %}}{{% endfor %}}"
            + ("{{ ns.l" + chance.choice(["", "|tojson", "|string|length", "|pprint", "|list|count"]) + " }}"),
            "{% filter " + filtering(chance) + " %}" + inside + "{% endfilter %}",
            "{% set t %}" + inside + "{% endset %}",
            "{% set t = " + some + " %}",
            "{% with t = " + some + " %}" + inside + "{% endwith %}",
            "{% if " + some + " in " + some + " %}" + inside + "{% else %}" + inside + "{% endif %}",
            "{% block b %}" + inside + "{{ self.b() if ns.n }}{% endblock %}" if depth == 3 else inside,
            "{% generation %}" + inside + "{% endgeneration %}",
            chance.choice(ELSEWHERE),
            "{% for m in messages %}{{ m.role }}" + inside + "{{ m.content }}{% endfor %}",
        ]
    )  # fmt: skip


def number(chance: Chance, depth: int) -> str:
    """A whole number of any size."""
    return str(int(10 ** chance.uniform(0, 11))) if depth < 2 or chance.random() < 0.5 else numeric(chance, depth - 1)


def numeric(chance: Chance, depth: int) -> str:
    """Arithmetic."""
    one, other = number(chance, depth), number(chance, depth)
    whole = [
        f"({one} {chance.choice(['+', '-', '*', '**', '//', '%', '/'])} {other})",
        f"({text(chance, depth - 1)})|length",
    ]
    return chance.choice(
        [*whole, f"({one}|string|int)", f"({one}|round({other}))", f"(({one})|float ** {other})", f"-{one}"]
    )


def text(chance: Chance, depth: int) -> str:
    """An expression that is a text, and may be a long one."""
    if depth < 1:
        return chance.choice(["'a'", "t", "ns.x", "'<b>http://a.b/'", "messages[0].content", "'\\n\\t x'", "i", "''"])
    one, other, count = text(chance, depth - 1), text(chance, depth - 1), number(chance, depth - 1)
    methods = ["ljust", "rjust", "center", "zfill", "expandtabs"]
    return chance.choice(
        [
            f"({one} * {count})",
            f"({one} ~ {other} ~ {one})",
            f"({one} + {other})",
            f"({one}).{chance.choice(methods)}({count})",
            f"({one}).replace({other}, {one})",
            f"({one}).join({several(chance, depth - 1)})",
            f"({one}).translate({{97: {other}}})",
            f"({one}).{chance.choice(['upper', 'title', 'swapcase', 'strip', 'casefold', 'encode', 'isalpha'])}()",
            f"({one}|{filtering(chance)})",
            f"({one}|{filtering(chance)}|{filtering(chance)})",
            f"'%{chance.choice(['', '-', '0'])}{count}{chance.choice('sdfrxe')}' % {chance.choice([one, '1', '1.5'])}",
            f"'%*d%s' % ({count}, 1, {one})",
            f"'{{:{count}}}{{}}'.format({one}, {other})",
            f"'{{:.{count}f}}'.format(1.5)",
            f"'{{a:>{count}}}'.format_map({{'a': {one}}})",
            f"({several(chance, depth - 1)})|{chance.choice(['string', 'tojson', 'pprint', 'xmlattr', 'urlencode'])}",
            f"({one} if {other} else {other})",
            f"({one})[::{chance.choice(['-1', count])}]",
            f"strftime_now('%Y' * {count})",
        ]
    )


def filtering(chance: Chance) -> str:
    """A filter of texts."""
    count, other = number(chance, 1), text(chance, 0)
    sized = ["center", "indent", "truncate", "wordwrap", "urlize", "filesizeformat", "round", "batch", "slice"]
    return chance.choice(
        [
            chance.choice(PLAIN),
            f"{chance.choice(sized)}({count})",
            f"replace('a', {other})",
            f"replace('', {other} * {count})",
        ]
        + [
            f"indent({other} * {count})",
            f"tojson(indent={count})",
            f"default({other} * {count})",
            f"format({other}, {count})",
        ]
    )


def several(chance: Chance, depth: int) -> str:
    """An expression that is a list, and may be a long one."""
    count = number(chance, 1)
    if depth < 1:
        return chance.choice(
            [f"range({size(chance, 5)})", "messages", "t", "[1, 'a']", f"[0] * {count}", "ns.l", "dict.fromkeys(t)"]
        )
    one, some = several(chance, depth - 1), text(chance, depth - 1)
    return chance.choice(
        [
            f"[{one}, {one}]",
            f"({one}|list * {count})",
            f"({some}|list)",
            f"({some}).{chance.choice(['split', 'splitlines'])}()",
            f"({some}).split('a') * {count}",
            f"({one}|{chance.choice(['batch', 'slice'])}({count})|list)",
            f"({one}|map({chance.choice(['string', 'center', 'replace', 'list', 'tojson'])!r}, {count})|list)",
            f"({one}|sum(start={chance.choice(['[]', '0', repr('')])}))",
            f"({one}|{chance.choice(ORDERS)}|list)",
            f"({one}|groupby({some}))",
            f"({one}|select('in', {one})|list)",
            f"dict(a={one}, b={some}).items()",
        ]
    )


def grown(chance: Chance) -> str:
    """A text that is longer than ns.x."""
    return chance.choice(
        [
            "ns.x ~ ns.x",
            "ns.x + ns.x",
            "ns.x * 9",
            "'%s%s' % (ns.x, ns.x)",
            "'{0}{0}'.format(ns.x)",
            "[ns.x, ns.x]|join(ns.x)",
        ]
        + [
            "ns.x.join([ns.x, ns.x])",
            "ns.x|replace('a', 'aa')",
            "ns.x|tojson|tojson",
            "ns.x.replace('', ns.x)",
            "(ns.x, ns.x)",
        ]
        + ["ns.x|urlencode|escape ~ '&%'", "ns.x|indent(i, true)", "ns.x|center(i ** 9)", "dict(a=ns.x, b=ns.x)|string"]
    )
