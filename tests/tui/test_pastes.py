"""What is pasted is text: whatever sequences it has, and however it is cut into reads, nothing in it is a key."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from textual import events
from textual.message import Message

from chatapp.tui.keys import paste_parser
from chatapp.tui.keys.paste_parser import PasteParser
from support.tmux import DRIVER, Terminal

COLOURED = "log \x1b[31mERR\x1b[0m\rnext line\r"
SHOWN = "log ␛[31mERR␛[0m\nnext line\n"


def told(messages: Sequence[Message]) -> list[str]:
    """Keys by their names, and pastes in brackets."""
    return [f"[{one.text}]" if isinstance(one, events.Paste) else getattr(one, "key", "?") for one in messages]


def read(parser: PasteParser, *reads: str) -> list[str]:
    """What comes of some reads."""
    return told([message for one in reads for message in parser.feed(one)])


def test_a_paste_with_sequences_is_one_text() -> None:
    assert read(PasteParser(), f"a\x1b[200~{COLOURED}\x1b[201~b\r") == ["a", f"[{SHOWN}]", "b", "enter"]


@pytest.mark.parametrize("evil", ["\x1b[31m\x11", "\x1b\x11", "\x1b[200~\x07", "\x1b\x1b\x11", "\x1b[A\r", "\x1b[20"])
def test_no_key_comes_of_a_paste_wherever_reads_end(evil: str) -> None:
    typed = f"a\x1b[200~{evil}\x1b[201~b"
    whole = read(PasteParser(), typed)
    assert [one[0] for one in whole] == ["a", "[", "b"] and "\x1b" not in whole[1]
    assert read(PasteParser(), *typed) == whole
    for cut in range(1, len(typed)):
        assert read(PasteParser(), typed[:cut], typed[cut:]) == whole


def test_what_reads_cut_outside_of_pastes_is_as_before() -> None:
    assert read(PasteParser(), "\x1b", "[", "A", "\x1b[20", "0~x\x1b[201", "~\x1b[B") == ["up", "[x]", "down"]


def test_an_escape_key_before_letters_like_a_mark_begins_no_paste() -> None:
    parser = PasteParser()
    assert read(parser, "\x1b") == []
    parser._timeout_time = 0.0  # as if nothing had come for a while
    assert told([*parser.tick()]) == ["escape"]
    assert read(parser, "[200~")[1:] == ["2", "0", "0", "tilde"]


def test_a_paste_that_never_ends_gives_the_keyboard_back() -> None:
    parser = PasteParser()
    assert read(parser, f"\x1b[200~{COLOURED}") == [] and not told([*parser.tick()])
    parser.heard -= paste_parser.SILENCE + 1
    assert read(parser, "\x03") == []  # its user tries the keys, which does not count as more of the paste
    assert told([*parser.tick()]) == [f"[{SHOWN}␃]"]
    assert read(parser, "x\x1b[A\x1b[201~y") == ["x", "up", "y"]


def test_a_huge_paste_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paste_parser, "PART", 1_000)
    parts = read(PasteParser(), "\x1b[200~", *["\x1b[31m" + "x" * 495] * 5, "\x1b[201~")
    assert len(parts) > 1 and "".join(parts).replace("][", "") == "[" + ("␛[31m" + "x" * 495) * 5 + "]"


def test_in_a_real_terminal_a_coloured_log_is_pasted_and_neither_sends_nor_leaves(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(f"{COLOURED}\x1b[1m\x11\x07the end".encode())
    with Terminal(DRIVER, "chat", "--home", tmp_path / "home") as terminal:
        terminal.wait_for("● ready")
        terminal.tmux("load-buffer", str(file))
        terminal.tmux("paste-buffer", "-p", "-t", "app")
        terminal.wait_for("log ␛[31mERR␛[0m", "next line", "␛[1m␑␇the end", "● ready")
