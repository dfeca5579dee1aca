"""A model's thinking as clients get it: in a separate field, without its marks."""

from chatapp.generation import Delta, ToolCall
from chatapp.generation.text.thinking import EFFORTS, MARKS, Think
from chatapp.generation.text.tools import OPENERS, Listener, Toolbox, overlap


def read_effort(effort: str | None) -> Think | None:
    """OpenAI's reasoning effort as `Think`; an effort that no template knows means yes."""
    if effort is None:
        return None
    return next((known for known in EFFORTS if known == effort), effort != "none")


class Thought:
    """The thinking of one reply while it grows; what may be the beginning of a mark is held back."""

    def __init__(self) -> None:
        self._held = ""
        self._begun = False

    def add(self, text: str) -> str:
        """The thinking that can be passed on after another piece arrived."""
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
    """Splits the replies of a request, by index, into thinking, answer and tool calls."""

    def __init__(self, tools: Toolbox | None = None) -> None:
        self._tools = tools or Toolbox()
        self._thoughts: dict[int, Thought] = {}
        self._listeners: dict[int, Listener | None] = {}
        self.calls: dict[int, list[ToolCall]] = {}
        """The calls of replies that ended with calls."""

    def add(self, delta: Delta) -> tuple[str, str]:
        """What a delta adds to the thinking and to the answer."""
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
                text += "" if cut else rest  # an incomplete call is neither a call nor an answer
                self.calls |= {delta.index: calls} if calls else {}
        return thought, text
