"""What a model thinks, as clients are told it: in a field of its own, without the marks."""

from chatapp.generation import Delta, ToolCall
from chatapp.generation.text.thinking import EFFORTS, MARKS, Think
from chatapp.generation.text.tools import OPENERS, Listener, Toolbox, overlap


def read_effort(effort: str | None) -> Think | None:
    """Whether and how much a model is to think, as OpenAI has it; whether, of an effort that no template here knows."""
    if effort is None:
        return None
    return next((known for known in EFFORTS if known == effort), effort != "none")


class Thought:
    """The thinking of one reply while it grows; what may be the beginning of a mark is held back."""

    def __init__(self) -> None:
        self._held = ""
        self._begun = False

    def add(self, text: str) -> str:
        """What may be told of the thinking, after another part of it."""
        self._held += text
        if not self._begun:
            start = self._held.lstrip()
            if any(begin.startswith(start) for begin, _ in MARKS):
                return ""
            self._begun = True
            mark = next((begin for begin, _ in MARKS if start.startswith(begin)), "")
            self._held = start[len(mark) :]
        for _, end in MARKS:
            told, mark, _ = self._held.partition(end)
            if mark:
                self._held = ""
                return told.rstrip()
        safe = len(self._held) - max(overlap(self._held, end) for _, end in MARKS)
        safe = len(self._held[:safe].rstrip())
        told, self._held = self._held[:safe], self._held[safe:]
        return told


class Parts:
    """The texts of the replies of one request, by index: what is thought, answered, and to be called."""

    def __init__(self, tools: Toolbox | None = None) -> None:
        self._tools = tools or Toolbox()
        self._thoughts: dict[int, Thought] = {}
        self._listeners: dict[int, Listener | None] = {}
        self.calls: dict[int, list[ToolCall]] = {}
        """Of the replies that have ended with calls."""

    def add(self, delta: Delta) -> tuple[str, str]:
        """What a delta adds to the thinking, and to the answer."""
        thought, text = "", delta.text
        if delta.channel == "thinking":
            thought, text = self._thoughts.setdefault(delta.index, Thought()).add(delta.text), ""
        if delta.index not in self._listeners:
            self._listeners[delta.index] = self._tools.listen()
        if listener := self._listeners[delta.index]:
            text = listener.add(text) if text else ""
            if delta.finish_reason:
                rest, calls = listener.end()
                begun = rest.startswith(OPENERS) or bool(self._tools.forced)
                cut = delta.finish_reason == "length" and begun
                text += "" if cut else rest  # the beginning of a call is none, and no answer
                self.calls |= {delta.index: calls} if calls else {}
        return thought, text
