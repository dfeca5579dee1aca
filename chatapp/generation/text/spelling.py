"""A vocabulary's tokens by the bytes that they spell."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

LINE_ENDS = (b"\n", b"\r")


class Spelling:
    """Finds tokens that agree with the beginning of a text, and tokens that end a line."""

    def __init__(self, contents: Iterable[tuple[bytes, int]]):
        """`contents` are tokens and their bytes, which are not empty."""
        known = sorted(contents)
        self._contents = [content for content, _ in known]
        self._ids = np.array([token for _, token in known], np.int64)
        breaking = defaultdict[bytes, list[int]](list)
        for content, token in known:
            if (end := find_line_end(content)) is not None:
                breaking[content[:end]].append(token)
        self.breaking = {head: np.array(ids, np.int64) for head, ids in breaking.items()}
        """Tokens with a line break, by what they spell before it."""

    def agreeing(self, text: bytes) -> np.ndarray:
        """Ids of the tokens that begin with a text, or that a text begins with."""
        low, high = (
            cut(self._contents, text, key=lambda content: content[: len(text)]) for cut in (bisect_left, bisect_right)
        )
        found = [self._ids[low:high]]
        for length in range(1, len(text)):
            begun = text[:length]
            found.append(self._ids[bisect_left(self._contents, begun) : bisect_right(self._contents, begun)])
        return np.concatenate(found)


def find_line_end(content: bytes) -> int | None:
    """Where the first line ends; None if it does not."""
    places = [place for end in LINE_ENDS if (place := content.find(end)) >= 0]
    return min(places) if places else None
