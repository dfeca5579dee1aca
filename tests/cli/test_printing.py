"""How an answer is printed while it arrives."""

import io
from collections.abc import Callable, Generator
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest

from chatapp.cli.main import main
from chatapp.cli.printing import Form, Printout
from chatapp.cli.progress import show_steps
from chatapp.generation import Delta, GenerationError
from chatapp.generation.delta import Timings

Print = Callable[..., object]


class Output(io.StringIO):
    """Standard output that remembers what each flush brought to its reader."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def flush(self) -> None:
        text = self.getvalue()[len("".join(self.seen)) :]
        self.seen += [text] if text else []


class Terminal(Output):
    """Output that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def output() -> Output:
    return Output()


def delta(text: str, index: int = 0) -> Delta:
    return Delta(text, index, (), None, Timings(0.0, 0.0, 0.0, 0.0), None)


@pytest.fixture
def print_all(tmp_path: Path, output: Output) -> Print:
    """Print a number of completions, one unless told otherwise, from deltas."""

    def print_all(deltas: Generator[Delta, None, None], count: int = 1, form: Form = Form()) -> None:  # noqa: B008
        with redirect_stdout(output):
            with Printout(count, form) as printout, closing(deltas):
                for delta in deltas:
                    if printout.add(delta):
                        break
            printout.finish(None)

    return print_all


def test_each_delta_is_printed_at_once(output: Output, print_all: Print) -> None:
    def slowly() -> Generator[Delta, None, None]:
        for number, word in enumerate(("one ", "two ", "three ")):
            assert len(output.seen) == number
            yield delta(word)

    print_all(slowly())
    assert output.seen == ["one ", "two ", "three ", "\n"]


def test_the_first_block_of_code_is_printed_alone_where_that_is_asked_for(
    output: Output, print_all: Print, capsys: pytest.CaptureFixture[str]
) -> None:
    print_all((delta(text) for text in ("Here:\n\n``", "`py\nx = 1\n```\n\n```\ny\n```\n")), form=Form(extract=True))
    assert (output.getvalue(), capsys.readouterr().err) == ("x = 1\n", "")
    print_all((delta(text) for text in ("No ", "code.")), form=Form(extract=True))
    assert output.getvalue() == "x = 1\n"
    assert capsys.readouterr().err == "No code block in the answer:\nNo code.\n"


def test_a_terminal_is_told_how_much_of_a_long_prompt_is_read_until_there_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, print_all: Print
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    parts = [replace(delta(""), reading=(read, 1300)) for read in (256, 1024)]
    with redirect_stdout(terminal), redirect_stderr(terminal), Printout(1, Form()) as printout:
        for part in (*parts, delta("Hello"), delta(".")):
            printout.add(part)
    told = [f"\rreading the prompt: {read} of 1,300 tokens\x1b[K" for read in ("256", "1,024")]
    assert terminal.seen == [*told, "\r\x1b[K", "Hello", "."]


def test_an_answer_that_breaks_off_is_printed_as_far_as_it_came(output: Output, print_all: Print) -> None:
    def broken() -> Generator[Delta, None, None]:
        yield delta("This ")
        yield delta("far")
        raise GenerationError("the model failed")

    with pytest.raises(GenerationError):
        print_all(broken())
    assert "".join(output.seen) == "This far"


def test_of_several_answers_the_first_is_printed_while_they_come_and_then_the_others(
    output: Output, print_all: Print
) -> None:
    def two() -> Generator[Delta, None, None]:
        yield delta("a", 0)
        yield delta("x", 1)
        yield delta("b", 0)
        yield delta("y", 1)
        assert "".join(output.seen) == "ab"

    print_all(two(), 2)
    assert output.getvalue() == "ab\nxy\n"


@pytest.mark.parametrize(("kind", "said"), [("xterm", "\r/模型: lowering 69%\x1b[K\r\x1b[K"), ("dumb", "")])
def test_a_line_that_is_drawn_again_is_no_wider_than_the_terminal(
    kind: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    with redirect_stderr(terminal), show_steps("/home/somebody/模型") as show:
        if show:
            show("lowering", 0.694)
    assert terminal.getvalue() == said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("word", ["--help", "version"])
def test_a_full_disk_is_an_error(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w") as full, redirect_stdout(full):
        assert main([word]) == 1
    assert capsys.readouterr().err == "Error: no space left on device\n"
