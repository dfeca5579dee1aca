"""The gate: true lines pass it, broken ones, repetitions and unknown names do not."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from chatapp.completion.gate import LONGEST_LINE, Gate, split_lines
from chatapp.completion.index import FolderIndex
from chatapp.completion.place import OpenFile, Place
from chatapp.completion.syntax import GRAMMARS, Syntax, close, find_change, load_grammar
from chatapp.lsp.items import last_word

ROOT = Path(__file__).parents[2]
BROKEN = "it does not parse at this position"
NEXT, REST = "it repeats the next line", "it repeats the rest of the line"
PYTHON = "import os\n\n\ndef first(a, b):\n    total = a\n    {}\n    return total\n\n\ndef second():\n    pass\n"
TEXTS = {
    "a.py": PYTHON,
    "a.js": "function first(a, b) {\n  let total = a;\n  {}\n  return total;\n}\n\nfunction second() {}\n",
    "a.ts": "function first(a: number): number {\n  let total = a;\n  {}\n  return total;\n}\nfunction g(): void {}\n",
    "a.tsx": "const View = (a: number) => {\n  let total = a;\n  {}\n  return <p>{total}</p>;\n};\n",
    "a.c": "int first(int a, int b) {\n  int total = a;\n  {}\n  return total;\n}\n\nvoid second(void) {}\n",
    "a.cpp": "class A {\n public:\n  int first(int a) {\n    int total = a;\n    {}\n    return total;\n  }\n};\n",
    "a.go": "package main\n\nfunc first(a int) int {\n\ttotal := a\n\t{}\n\treturn total\n}\n\nfunc second() {}\n",
    "a.java": "class A {\n  int first(int a) {\n    int total = a;\n    {}\n    return total;\n  }\n  void g() {}\n}\n",
    "a.rs": "fn first(a: i32) -> i32 {\n    let mut total = a;\n    {}\n    total\n}\n\nfn second() {}\n",
}
"""A gap within a function, in each language."""
GOOD = {
    "a.py": [
        "total += b",
        "if a > b:",
        "for i in range(",
        "total = [",
        "try:",
        "with open(a) as f:",
        "@property",
        '"""Text',
    ],
    "a.js": ["total += b;", "if (a > b) {", "const x = foo(", "total = [", "for (const x of a) {", "return () => {"],
    "a.ts": ["total += 1;", "if (a > 1) {", "const x: number[] = [", "for (const x of [a]) {"],
    "a.tsx": ["total += 1;", "if (a > 1) {", "const x = <b>{a}</b>;"],
    "a.c": ["total += b;", "if (a > b) {", "foo(a,", "for (int i = 0; i < a; i++) {", "while (a)"],
    "a.cpp": ["total += a;", "if (a > 1) {", "auto x = foo(", "std::vector<int> v{"],
    "a.go": ["total += a", "if a > 1 {", "x := foo(", "for i := range a {"],
    "a.java": ["total += a;", "if (a > 1) {", "foo(a,", "for (int i = 0; i < a; i++) {"],
    "a.rs": ["total += a;", "if a > 1 {", "let x = foo(", "match a {", "for i in 0..a {"],
}
BAD = {
    "a.py": [
        "total = = b",
        "if a > b then",
        "foo(]",
        "total b",
        "return )",
        "def (x):",
        "for in x:",
        "x = 1 2",
        "x = a +",
    ],
    "a.js": ["total = = b;", "if a > b {", "foo(];", "const = 1;", "} else {"],
    "a.ts": ["total = = b;", "foo(];"],
    "a.tsx": ["total = = b;", "foo(];"],
    "a.c": ["total = = b;", "foo(];", "if a > b {", "int = 1;"],
    "a.cpp": ["total = = a;", "foo(];", "if a > 1 {"],
    "a.go": ["total = = a", "foo(]", "x := := 1"],
    "a.java": ["total = = a;", "foo(];", "if a > 1 {", "int = 1;"],
    "a.rs": ["total = = a;", "foo(];", "let = 1;"],
}


def at(name: str, text: str, **more: object) -> Place:
    """The place {} of a text."""
    prefix, suffix = text.split("{}", 1)
    return Place(prefix, suffix, Path(name), **more)  # type: ignore[arg-type]  # what a test gives besides


def judge(name: str, text: str, said: str) -> str:
    return Gate().judge(at(name, text), said).reason


def cases(table: dict[str, list[str]]) -> Sequence[tuple[str, str]]:
    return [(name, line) for name, lines in table.items() for line in lines]


# Whether it parses


@pytest.mark.parametrize(("name", "line"), cases(GOOD))
def test_a_line_that_parses_or_only_begins_something_passes(name: str, line: str) -> None:
    assert judge(name, TEXTS[name], line) == ""


@pytest.mark.parametrize(("name", "line"), cases(BAD))
def test_a_line_that_can_never_parse_does_not(name: str, line: str) -> None:
    assert judge(name, TEXTS[name], line) == BROKEN


def test_there_is_a_grammar_for_each_language_that_is_named() -> None:
    assert {name for name in map(Path, TEXTS) if load_grammar(name.suffix) is None} == set()
    assert all(load_grammar(suffix) for suffix in GRAMMARS)
    assert load_grammar(".kt") is None


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("x = foo({})\n", "1, 2", "1, ]"),  # the bracket stands behind already
        ("x = foo(\n    a,\n    {}\n)\n", "b=2,", "b = = 2,"),
        ("class A:\n    def f(self):\n        ret{}\n", "urn self.x", "urn self.x)"),
        ("x = [1, 2{}\ny = 2\n", "]", "))"),
        ("def f():\n    {}\n", "return 1", "return return"),
        ("if x:\n    pass\n{}\n", "else:", "elif :"),
        ("try:\n    x = 1\n{}\n", "except ValueError:", "except in:"),
        ("{}\n", "import os", "import import"),
        ("{}", "def f(a, b):", "def f(a b):"),
        ("def f():\n    return (\n        a\n        {}\n    )\n\ndef g(): pass\n", "+ b", "b c"),
    ],
)
def test_what_stands_around_decides(text: str, good: str, bad: str) -> None:
    assert judge("a.py", text, good) == ""
    assert judge("a.py", text, bad) == BROKEN


@pytest.mark.parametrize(
    ("name", "text", "good", "bad"),
    [
        ("a.py", "x = {\n    'a': 1,\n    {}", "'b': [2],", "'b': = 2,"),
        ("a.py", "def f():\n    return foo(\n        a,\n        {}\n\n\ndef g():\n    pass\n", "b=(1,", "b = = 2,"),
        ("a.js", "function f(a) {\n  if (a) {\n    {}", "a += 1;", "a = = 1;"),
        ("a.ts", "interface A {\n  first: string;\n  {}", "second: number;", "second: : number;"),
        ("a.ts", "class A {\n  {}", "/**", "private = = b;"),
        ("a.c", "int f(int a) {\n  {}", "return a;", "return = a;"),
        ("a.c", "/*\n * One says:\n {}", "* anything ( goes", "*/ a = = b"),
        ("a.cpp", "class A {\n public:\n  {}", "int f(int a);", "int = f(;"),
        ("a.java", "class A {\n  int f(int a) {\n    {}", "return a;", "return = a;"),
        ("a.rs", "fn f(a: i32) -> i32 {\n    {}", "a + 1", "let = 1;"),
        ("a.go", "func f(a int) int {\n\t{}", "return a", "return = a"),
        ("a.js", "foo(() => {\n  a();\n{}", "});", "}];"),
        ("a.py", "foo(\n    {}", "a +", "a + +)"),
        ("a.c", "void f(void) {\n  g();\n{}", "}", ")"),
        ("a.ts", "/**\n * Says:\n{}", " */", " */ }"),
        ("a.ts", "function f(a) {\n  const x = a\n  {}\n  return x;\n}\n", "? a.b(1)", "? a. (1)"),
        ("a.tsx", "function A({ a }: P) {\n  {}\n}\n", "return <B", "return <B <"),
        ("a.jsx", "function A({ a }) {\n  {}", "return <B a={() => {", "return <B a={() => } {"),
    ],
)
def test_what_is_not_closed_yet_may_be_written_on(name: str, text: str, good: str, bad: str) -> None:
    assert judge(name, text, good) == ""
    assert judge(name, text, bad) == BROKEN


def test_several_lines_are_judged_together() -> None:
    assert judge("a.py", PYTHON, "for i in range(b):\n        total += i") == ""
    assert judge("a.py", PYTHON, "for i in range(b):\n        total += )") == BROKEN


@pytest.mark.parametrize("wrong", ["x = = 1\n", "def broken(:\n    pass\n", "print 'hello'\n"])
def test_an_error_that_was_there_before_is_not_held_against_it(wrong: str) -> None:
    text = wrong + "\n\ndef good():\n    return 1\n\n\n" + PYTHON
    assert judge("a.py", text, "total += b") == ""
    assert judge("a.py", text, "total = = b") == BROKEN


def test_an_unclosed_string_that_swallows_the_file_does_not_pass() -> None:
    assert judge("a.py", PYTHON + 'text = """more"""\n', "total = 'a") == BROKEN


def test_true_lines_of_this_project_pass_and_broken_ones_mostly_do_not() -> None:
    chance = random.Random(0)
    files = chance.sample(sorted((ROOT / "chatapp").rglob("*.py")), 12)
    passed = refused = tried = 0
    for file in files:
        gate, lines = Gate(), file.read_text(encoding="utf-8").split("\n")
        for number in chance.choices([i for i, line in enumerate(lines) if line.strip()], k=6):
            line = lines[number]
            cut = chance.randrange(len(line) - len(line.lstrip()), len(line))
            before, behind = "".join(f"{line}\n" for line in lines[:number]), "\n" + "\n".join(lines[number + 1 :])
            place = Place(before + line[:cut], behind, file)
            tried += 1
            passed += gate.judge(place, line[cut:]).reason != BROKEN
            refused += gate.judge(place, line[cut:] + chance.choice([" )", " = = 1", "(]", " a b c"])).reason == BROKEN
    assert tried > 60 and passed >= tried - 1
    assert refused > 0.6 * tried  # in strings and comments all parses


def test_what_is_kept_of_the_last_place_changes_no_verdict() -> None:
    chance = random.Random(3)
    lines = (ROOT / "chatapp/completion/segment.py").read_text(encoding="utf-8").split("\n")
    kept = Syntax()
    for _ in range(40):
        number = chance.randrange(len(lines))
        if chance.random() < 0.3:
            lines.insert(number, chance.choice(["x = (", "def f():", "    pass", "größe = 1", '"""']))
        before, behind = "".join(f"{line}\n" for line in lines[:number]), "\n".join(lines[number:])
        said = chance.choice(["x = 1", "x = = 1", "    return 1", "if x:", ")", "'"])
        path = Path("a.py")
        assert kept.parses(path.suffix, before, said, behind) == Syntax().parses(path.suffix, before, said, behind)


def test_what_is_deep_or_long_or_no_text_breaks_nothing() -> None:
    for text in ("(" * 3000 + "{}" + ")" * 3000, "x = [\n" + "  1,\n" * 20_000 + "{}]\n", "\ud800 = 1\n{}\n"):
        assert judge("a.py", text, "2") == ""


def test_changes_are_found_by_what_is_the_same_before_and_behind() -> None:
    chance = random.Random(0)
    for _ in range(300):
        old, new = (bytes(chance.choices(b"ab", k=chance.randrange(8))) for _ in range(2))
        first, last = find_change(old, new)
        assert old[:first] == new[:first] and old[len(old) - last :] == new[len(new) - last :]
        assert first + last <= min(len(old), len(new))
        assert old[first : first + 1] != new[first : first + 1] or first == min(len(old), len(new))


@pytest.mark.parametrize(
    ("language", "line", "behind", "closed"),
    [
        ("python", "f(a, [b", "", "])"),
        ("python", "x = '(' + {", "", "}"),
        ("python", '"""text', "", '"""'),
        ("python", '"""text', 'more"""', ""),
        ("python", "a) + (b", "", ")"),
        ("python", "# (", "", ""),
        ("python", "f([", "c](", ")"),
        ("python", "f([", ")", "])"),
        ("c", "f(a); // (", "", ""),
        ("c", "if (a) { /* (", "", "*/}"),
        ("c", "f(a /* ( */, {", "b})", ""),
        ("javascript", "f(`x${", "", "`)"),
    ],
)
def test_open_brackets_strings_and_comments_are_closed(language: str, line: str, behind: str, closed: str) -> None:
    assert close(language, line, behind) == closed


# Where there is no grammar


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("foo(a)", ""),
        ("foo(a", ""),
        ("}", ""),  # of the function
        ("})", "brackets"),
        ("foo(a]", "brackets"),
        ('x = "a', "quotes"),
        ('x = ")"', ""),
    ],
)
def test_without_a_grammar_brackets_and_quotes_count_and_that_is_said(said: str, reason: str) -> None:
    found = judge("a.kt", "fun first(a: Int) {\n  {}\n", said)
    assert (reason in found if reason else found == "") and ("no grammar for this language" in found) == bool(reason)


@pytest.mark.parametrize("name", ["notes.md", "notes.txt", "README"])
def test_in_prose_nothing_has_to_match(name: str) -> None:
    assert judge(name, "One says:\n{}\n", ":-) 5\" don't") == ""


# What it repeats


@pytest.mark.parametrize(
    ("text", "said", "reason"),
    [
        ("def f():\n    {}\n    return total\n", "return total", NEXT),
        ("def f():\n    x = 1\n    {}\n\n\n    return total\n", "return total", NEXT),
        ("def f():\n    ret{}\n    return total\n", "urn total", NEXT),
        ("def f():\n    {}\n    return total\n", "x = 1\n    return total", NEXT),
        ("def f():\n    {}\n    return total\n", "return other", ""),
        ("x = {}.strip()\n", "name.strip()", REST),
        ("x = foo({}name)\n", "name", ""),
        ("x = foo({}first, second)\n", "first, second)", REST),
        ("if x {\n  {}\n}\n", "}", ""),  # brackets may well be there twice
    ],
)
def test_what_stands_behind_already_is_not_said_again(text: str, said: str, reason: str) -> None:
    assert judge("a.txt", text.replace("\n", "\r\n") if "x = 1" in text else text, said) == reason


# Names


def unknown(said: str, text: str = PYTHON, **more: object) -> tuple[str, ...]:
    return Gate().judge(at("a.py", text, **more), said).unknown


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("total += b", ()),
        ("total += missing", ("missing",)),
        ("total = len(os.path)", ("path",)),
        ("fresh = a", ()),  # given here
        ("for fresh in a:", ()),
        ("fresh, other = a, b", ()),
        ("import something", ()),
        ("first(second, third)", ("third",)),
        ("x == nothing", ("nothing",)),
        ("print('missing words')  # nor these", ()),
        ("tot", ("tot",)),  # only a part of a name
    ],
)
def test_names_that_stand_nowhere_are_told(said: str, names: tuple[str, ...]) -> None:
    assert unknown(said) == names


def test_a_name_is_looked_for_as_it_will_be_and_not_as_it_is_typed() -> None:
    assert unknown("tal += 1", PYTHON.replace("{}", "to{}")) == ()
    assert unknown("ally += 1", PYTHON.replace("{}", "tot{}")) == ("totally",)


def test_names_of_open_files_and_of_the_folder_are_known(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("def in_folder(): ...\n")
    folder = FolderIndex(tmp_path)
    folder.scan()
    said = "in_folder(in_open, nowhere)"
    assert unknown(said) == ("in_folder", "in_open", "nowhere")
    assert unknown(said, open_files=[OpenFile(None, "in_open = 1\n")], folder=folder) == ("nowhere",)


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("constructor(first) { a.getTime(); }", ()),
        ("const fresh: Partial<number> = total;", ()),
        ("first({ fresh: a, other: nothing });", ("nothing",)),  # keys are given here
        ("first(a?.missing ?? `missing ${total}`);", ("missing",)),
    ],
)
def test_names_of_javascript_are_known_or_given(said: str, names: tuple[str, ...]) -> None:
    assert Gate().judge(at("a.ts", TEXTS["a.ts"]), said).unknown == names


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "a.tsx"])
def test_the_words_of_a_language_are_known(name: str) -> None:
    for line in GOOD[name][:2]:
        assert Gate().judge(at(name, TEXTS[name]), line).unknown == ()
    assert Gate().judge(at(name, TEXTS[name]), "zzz(a)").unknown == ("zzz",)


def test_of_a_line_without_end_only_the_nearest_is_looked_at() -> None:
    begun, rest, before, behind = split_lines(Place("a\n" + "x" * 9_999, "y" * 9_999 + "\nb"))
    assert (begun, rest, before, behind) == ("x" * LONGEST_LINE, "y" * LONGEST_LINE, "a\n", "b")
    assert last_word("x" * 9_999) == "x" * 200
