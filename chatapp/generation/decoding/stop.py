"""Stop strings, found even if they are spread over several tokens."""

from collections.abc import Sequence


class StopStrings:
    """Passes text on, except a stop string and what may be the beginning of one.

    The stop string that is complete first wins, so that it does not matter how the text is cut up. When `going_on` with
    another text, empty lines at the beginning do not stop it.
    """

    def __init__(self, strings: Sequence[str], *, going_on: bool = False):
        self.strings = strings
        self.leading = going_on
        """Whether there was only white space so far, which does not stop."""
        self.eager = bool(strings)
        """Whether each token has to be read at once, as there may be no next one."""
        self.held = ""
        self.found = False
        self.stop: str | None = None
        """The stop string that was found."""

    def add(self, text: str) -> str:
        """The text that can be shown now: up to the stop string, once it is found."""
        if not self.strings:
            return text
        if self.leading:
            begun = text.lstrip()
            self.leading = not begun
            return text[: len(text) - len(begun)] + (self.add(begun) if begun else "")
        self.held += text
        matches = [(start + len(stop), start, stop) for stop in self.strings if (start := self.held.find(stop)) >= 0]
        self.found = bool(matches)
        _, shown, self.stop = min(matches) if matches else (0, len(self.held) - self._beginning(), None)
        ready, self.held = self.held[:shown], "" if self.found else self.held[shown:]
        return ready

    def flush(self) -> str:
        """Return what was held back, at the end."""
        held, self.held = self.held, ""
        return held

    def _beginning(self) -> int:
        """Length of the longest suffix of the held text that begins a stop string."""
        longest = min(len(self.held), max(map(len, self.strings)) - 1)
        return next((n for n in range(longest, 0, -1) if self._begins(self.held[-n:])), 0)

    def _begins(self, end: str) -> bool:
        return any(stop.startswith(end) for stop in self.strings)
