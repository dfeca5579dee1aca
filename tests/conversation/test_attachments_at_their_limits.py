"""Attachments at the limits: very full folders, names that repeat themselves, files without an end."""

import os
import time
from pathlib import Path

import pytest

from chatapp.conversation import attachments
from chatapp.conversation.attachments import LARGEST, Candidate, rank, read, scan
from chatapp.text.errors import InputError


def test_a_very_full_folder_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MOST_FILES", 3)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print()")
    for number in range(10):
        (tmp_path / f"a{number}.txt").write_text("x")
    found = scan(tmp_path)
    assert [one.path for one in found.candidates] == ["a0.txt", "a1.txt", "a2.txt", "src/", "src/main.py"]
    assert not found.complete


def test_a_name_that_repeats_itself_holds_nobody_up() -> None:
    start = time.process_time()
    assert rank("a" * 20 + "b", [Candidate("a" * 200)]) == []
    assert [one.path for one in rank("a" * 20 + "b", [Candidate("a" * 200 + "b")])] == ["a" * 200 + "b"]
    assert time.process_time() - start < 5, "each letter must be looked for once"


@pytest.mark.skipif(not os.path.exists("/proc/kallsyms"), reason="files that the system makes up")
def test_a_file_whose_size_tells_nothing_is_not_read_to_its_end() -> None:
    assert os.path.getsize("/proc/kallsyms") == 0
    with pytest.raises(InputError, match="kallsyms is too large to attach: 1 MB, at most 1 MB"):
        read("/proc/kallsyms", Path())


def test_a_file_as_large_as_allowed_is_taken(tmp_path: Path) -> None:
    (tmp_path / "most.txt").write_bytes(b"x" * LARGEST)
    assert len(read("most.txt", tmp_path).text) > LARGEST
