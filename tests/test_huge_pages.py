"""Large blocks of memory are moved to huge pages, and only those; what they hold stays."""

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from backends import huge_pages

BLOCK = 8 << 20
SMAPS = """\
7f0000000000-7f0000{size} rw-p 00000000 00:00 0 {name}
Size:               {kilobytes} kB
Rss:                {resident} kB
VmFlags: rd wr mr
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_what_a_block_holds_stays() -> None:
    block = np.frombuffer(mmap.mmap(-1, BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)  # not shared
    block[:] = np.arange(BLOCK) % 251
    collapsed = huge_pages.collapse()
    assert collapsed % huge_pages.HUGE == 0  # 0 where the kernel is older than the call
    assert np.array_equal(block, np.arange(BLOCK) % 251)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 0),
        ("not a mapping\n", 0),
        (SMAPS.format(size="200000", name="", kilobytes=2048, resident=2048), 0),
        (SMAPS.format(size="800000", name="", kilobytes=8192, resident=1024), 0),
        (SMAPS.format(size="800000", name="/usr/lib/library.so", kilobytes=8192, resident=8192), 0),
        (SMAPS.format(size="800000", name="", kilobytes=8192, resident=8192), BLOCK),
        (SMAPS.format(size="800000", name="[heap]", kilobytes=8192, resident=8192), BLOCK),
    ],
    ids=["nothing", "nonsense", "small", "mostly not there", "a file", "anonymous", "heap"],
)
def test_only_large_blocks_that_are_in_memory_are_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, size: int
) -> None:
    asked: list[tuple[int, int, int]] = []

    class Library:
        """A C library that takes every request."""

        def __init__(self, name: str | None):
            pass

        @staticmethod
        def madvise(start: ctypes.c_void_p, length: ctypes.c_size_t, advice: int) -> int:
            asked.append((start.value or 0, length.value, advice))
            return 0

    monkeypatch.setattr(ctypes, "CDLL", Library)
    (tmp_path / "smaps").write_text(text)
    assert huge_pages.collapse(tmp_path / "smaps") == size
    assert asked == ([(0x7F0000000000, size, huge_pages.MADV_COLLAPSE)] if size else [])


def test_a_system_without_the_file_does_nothing(tmp_path: Path) -> None:
    assert huge_pages.collapse(tmp_path / "no such file") == 0
