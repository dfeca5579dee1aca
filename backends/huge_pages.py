"""Move large blocks of memory to huge pages, on Linux: what reads all weights for each token looks up fewer pages."""

import ctypes
import re
from pathlib import Path

HUGE = 1 << 21
"""Bytes of a huge page."""
SMALLEST = 4 << 20
"""Bytes from which a block is worth it."""
MADV_COLLAPSE = 25
"""Since Linux 6.1; older kernels refuse it, and nothing happens."""
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?\n((?:[A-Z]\w*: .*\n)+)")
RESIDENT = re.compile(r"^Rss: +(\d+) kB", re.MULTILINE)


def collapse(smaps: Path = Path("/proc/self/smaps")) -> int:
    """Collapse this process's large private blocks, and return how many bytes they are.

    Only blocks that are in memory already, so that it takes no more of it than before.
    """
    try:
        text = smaps.read_text()
        madvise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError, TypeError):
        return 0
    collapsed = 0
    for start, end, facts in MAPPING.findall(text):
        first, last = -(-int(start, 16) // HUGE) * HUGE, int(end, 16) // HUGE * HUGE
        resident = RESIDENT.search(facts)
        size = int(end, 16) - int(start, 16)
        if last - first >= SMALLEST and resident and int(resident[1]) * 1024 >= 0.95 * size:
            refused = madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), MADV_COLLAPSE)
            collapsed += 0 if refused else last - first
    return collapsed
