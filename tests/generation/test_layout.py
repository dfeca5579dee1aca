"""The layout of code, and what follows from it: where lines may begin, and where a block ends."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from chatapp.generation import OptionError, Options
from chatapp.generation.decoding.indentation import Dedent, Indentation, LineBreaks, end_body
from chatapp.generation.text.layout import Layout
from chatapp.generation.text.tokenizer import Tokenizer
from model_store.store import BUILTIN_FOLDER
from support.byte_tokenizers import write_tokenizer as write_bytes
from support.checkpoints import ROOT
from support.scripted_session import CHATML, hashed, make_engine, text_of, write_tokenizer


def layout_of(text: str) -> Layout:
    layout = Layout()
    layout.add(text)
    return layout


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("x = 1", [0]),
        ("def f():", [4]),
        ("def f(a,\n      b):  # what: this", [4]),
        ("if x:\n  y = 1\n  if y:", [4]),
        ("if x:\n\ty = 1\n\tif y:", [2]),
        ("if x:\n\n    y = 1", [4, 0]),
        ("if x:\n    # why", [4]),
        ('def f():\n    """What it is:\n  more\n    """', [4, 0]),
        ("x = 'a:'", [0]),
        ("x = 'a # b", [0]),
        ("        return x", [8, 4, 0]),
        ("for x in y:\n    if x:\n        z(x)\n    else:", [8]),
        ("x = {\n    'a':", []),
        ("x = 1 + \\", []),
        ('x = """a', []),
    ],
)
def test_the_next_line_begins_where_python_lets_it(text: str, columns: list[int]) -> None:
    assert layout_of(text).columns_next() == columns
    letters = Layout()
    for letter in text:
        letters.add(letter)
    assert letters.columns_next() == columns


@pytest.mark.parametrize(
    "text",
    [
        "const total =",
        "items\n  .map(one);\nother",
        "import { a } from 'b';\nexport default a",
        "// It's #1: [that\nclass A",
        "class A {\n  #x = {};\n  run(a) {\n    go();\n  }\n}\nrun(() => {\n});",
        "async function run(",
        "if (first) {\n}",
    ],
)
def test_where_blocks_are_brackets_lines_begin_anywhere(text: str) -> None:
    assert layout_of(text).columns_next() == []
    assert layout_of(text + "\n").is_free
    python = 'def f(a):\n    """One;\n\n    import a from \'b\';\n    """\n    x = {1: 2}'
    assert layout_of(python).columns_next() == [4, 0] and not layout_of(python + "\n").is_free


def test_no_line_of_this_project_begins_where_none_could() -> None:
    lines = 0
    for path in sorted(ROOT.glob("chatapp/**/*.py")):
        layout = Layout()
        for line in path.read_text("utf-8").split("\n"):
            assert not layout.braces, f"{path}: {line}"
            if line.strip() and not layout.is_free:
                assert len(line) - len(line.lstrip()) in layout.columns(), f"{path}: {line}"
                lines += 1
            layout.add(line + "\n")
    assert lines > 10_000


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(BUILTIN_FOLDER)


@pytest.fixture(scope="module")
def breaks(tokenizer: Tokenizer) -> LineBreaks:
    return LineBreaks(tokenizer, tokenizer.vocabulary.get_vocab_size())


def allowed(breaks: LineBreaks, text: str) -> set[str]:
    """The tokens that may come next and are white space only, of the vocabulary's first columns."""
    forbidden = set(breaks.forbidden(Indentation(breaks, text).place()).tolist())
    spaces = {text: token for token, text in enumerate(breaks.texts) if text and not text.strip(" \n")}
    return {text for text, token in spaces.items() if token not in forbidden and text.count(" ") <= 8}


def test_after_a_colon_only_line_breaks_that_lead_one_unit_in_are_left(breaks: LineBreaks) -> None:
    def with_breaks(text: str) -> set[str]:
        return {one for one in allowed(breaks, text) if "\n" in one}

    assert with_breaks("def f():") == {"\n" * empty + " " * n for empty in (1, 2, 3) for n in range(5)} & {
        *breaks.texts
    }
    assert "\n        " not in with_breaks("def f():\n    x = 1")
    assert "\n        " in with_breaks("def f(") and "\n        " in with_breaks('def f():\n    """a')


def test_a_line_that_stands_too_far_out_can_only_go_further_in(breaks: LineBreaks) -> None:
    forbidden = set(breaks.forbidden(Indentation(breaks, "def f():\n  ").place()).tolist())
    beginning = {text for token, text in enumerate(breaks.texts) if token not in forbidden}
    assert {"  ", "\n"} <= beginning
    assert not any(text.strip() and not text.startswith("  ") for text in beginning)
    assert not breaks.forbidden(
        Indentation(breaks, "x = 1\n    ").place()
    ).size  # nothing can be right: nothing is said


def test_of_a_vocabulary_without_line_breaks_no_token_is_forbidden(tmp_path: Path) -> None:
    breaks = LineBreaks(Tokenizer(tmp_path, write_bytes(tmp_path, 96, composed=False)), 96)
    assert breaks.allowed(Indentation(breaks, "def f():").place()) is None


@pytest.mark.parametrize(
    ("text", "pieces", "shown"),
    [
        ("def f():", ["\n    x = 1", "\n", "\n\ny", " = 2"], "\n    x = 1"),
        ("class A:\n    def f(self):", ["\n        x\n", "\n    ", "def g"], "\n        x"),
        ("def f():", ['\n    """a\nb\n', '"""\n    x'], '\n    """a\nb\n"""\n    x'),
        ("def f():", ["\n    f(\n", ")\n", "    x\n"], "\n    f(\n)\n    x\n"),
        ("def f():", [" x", "\ny"], " x"),
        ("x = 1", ["\n    y", "\nz"], "\n    y\nz"),
    ],
)
def test_a_body_ends_where_a_line_stands_as_far_out_as_its_heading(text: str, pieces: list[str], shown: str) -> None:
    dedent = Dedent([], text)
    assert "".join(map(dedent.add, pieces)) + dedent.flush() == shown
    assert dedent.found == ("".join(pieces) != shown)


@pytest.mark.parametrize(
    ("text", "pieces", "shown"),
    [
        ("function f() {", ["\n  return 1;\n", "}", "\n", "\nfunction g"], "\n  return 1;\n}"),
        ("function f() {\n", ["  return 1;\n}", "\nx"], "  return 1;\n}"),
        ("function f() {\n  ", ["const s = '}';\n", "  return s;\n}\nx"], "const s = '}';\n  return s;\n}"),
        ("if (a) {", ["\n  b();\n} el", "se {\n  c();\n}\n", "d();"], "\n  b();\n} else {\n  c();\n}"),
        ("  run(() => {", ["\n    if (a) {\n    }\n  });\n  x"], "\n    if (a) {\n    }\n  });"),
        ("const f = () => {", [" return 1 };", "\nconst g"], " return 1 };"),
        ("x = {", ["\n    'a': [\n        1,\n    ],\n}\n", "y = 1"], "\n    'a': [\n        1,\n    ],\n}"),
        ("class A {", ["\n  b = {};\n\n  c() {}\n"], "\n  b = {};\n\n  c() {}\n"),
    ],
)
def test_what_stands_in_braces_ends_with_the_line_that_closes_them(text: str, pieces: list[str], shown: str) -> None:
    end = end_body([], text)
    assert "".join(map(end.add, pieces)) + end.flush() == shown
    assert end.found == ("".join(pieces) != shown)


def test_strings_stop_what_stands_in_braces_too() -> None:
    end = end_body(["\n\n\n"], "function f() {")
    assert end.add("\n  a();\n\n\n  b();\n}\n") == "\n  a();"
    assert end.found


def test_an_engine_begins_a_file_indents_and_ends_with_the_block(tokenizer: Tokenizer) -> None:
    said = tokenizer.encode("\n    return 1\n\nx = 2\n")
    prompt = tokenizer.encode("def f():")

    def script(tokens: Sequence[int], logits: np.ndarray) -> None:
        logits[:] = 0
        logits[tokenizer.encode("\n        ")] = 9  # the likeliest, where it is allowed
        logits[said[len(tokens) - len(prompt) - 1]] = 8

    engine, session = make_engine(tokenizer, script, vocab_size=tokenizer.vocabulary.get_vocab_size())
    options = Options(temperature=0, file_start=1, indentation=1, stop_at_dedent=1, max_tokens=20)
    assert text_of(engine.complete("def f():", options)) == "\n    return 1"
    assert session.rows[0][: len(prompt) + 1] == [tokenizer.token_id("<file_sep>"), *prompt]


def test_what_is_for_free_text_is_refused_where_it_has_no_meaning(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, chat_template=CHATML, eos_token="<|endoftext|>")
    engine, _ = make_engine(Tokenizer(folder), hashed)
    with pytest.raises(OptionError, match="no token for the start of a file"):
        engine.complete("x", Options(file_start=1))
    for options in (Options(file_start=1), Options(indentation=1), Options(stop_at_dedent=1)):
        with pytest.raises(OptionError, match="is for models that continue text"):
            engine.chat([], options)
