"""Numbers and tables as people read them."""

import math
from collections.abc import Sequence

from chatapp.text.printable import printable


def milliseconds(seconds: float) -> str:
    """A duration as people compare it: 0.42 ms, 7.3 ms, 128 ms, 1.4 s."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    value = seconds * 1000
    return f"{value:.0f} ms" if value >= 99.5 else f"{value:.1f} ms" if value >= 0.995 else f"{value:.2f} ms"


def duration(seconds: float) -> str:
    """A time to wait, as people say it: 18 s, 12 min, 1.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def rate(tokens_per_second: float | None) -> str:
    """Tokens per second with about three digits; a dash if not measured."""
    return f"{tokens_per_second:,.{0 if tokens_per_second >= 100 else 1}f}" if tokens_per_second else "–"


def percent(share: float) -> str:
    """A share as a whole percentage; 100 % only if it is all."""
    return f"{int(share * 100 + 1e-9)} %"  # 0.29 * 100 is a little less than 29


def count(number: int) -> str:
    """A large number with three digits: 25.3M, 1.24B."""
    rounded = float(f"{number:.3g}")
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if rounded >= unit:
            return f"{rounded / unit:.3g}{letter}"
    return str(number)


def size(number: int) -> str:
    """Bytes as file managers show them: 812 B, 4.1 MB, 1.24 GB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= unit:
            value = number / unit
            return f"{value:.0f} {name}" if value >= 100 else f"{value:.3g} {name}"
    return f"{number} B"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their heads, as wide as needed; names in them may have been given by anyone."""
    return columns([heads, *([printable(text) for text in row] for row in rows)])


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines, each column as wide as needed."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    lines = (zip(row, widths, strict=True) for row in rows)
    return "\n".join("  ".join(text + " " * (width - cells(text)) for text, width in line).rstrip() for line in lines)


def cells(text: str) -> int:
    """The terminal cells of a text: two for a Chinese character, none for a combining accent."""
    if text.isascii():  # most texts are
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def round_up(value: float) -> float:
    """Round up to 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten, for scales that read well and rarely change."""
    value = max(value, 1e-6)  # for an empty plot
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if value <= power * step * 1.000001)


def bar(share: float, width: int) -> str:
    """A bar of blocks, `share` of `width` characters long."""
    full, eighths = divmod(round(share * width * 8) if math.isfinite(share) else 0, 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[eighths].strip()


def bars(labels: Sequence[str], values: Sequence[float], numbers: Sequence[str]) -> str:
    """Bars between labels and numbers, the largest 40 characters long."""
    widest, largest = max(map(len, labels)), max(values) or 1
    lines = [
        f"{label:{widest}}  {bar(value / largest, 40)} {number}"
        for label, value, number in zip(labels, values, numbers, strict=True)
    ]
    return "\n".join(lines)
