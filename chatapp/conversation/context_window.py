"""Which messages go into the prompt when the conversation does not fit the context."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chatapp.generation import Engine, GenerationError, Message, Options, ToolCall
from chatapp.generation.text.tools import strip_calls
from chatapp.history import Message as Kept

PROBE = "You are a probe. " * 30
"""A system prompt that no template contains by itself."""
SUMMARY = "Summary of the conversation so far:"


@dataclass
class Window:
    """Where the prompt begins; kept from turn to turn while possible, so that the KV cache can be reused."""

    first: int | None = None
    """The id of the message it begins with; for a completion, how many characters are left out."""
    limit: int | None = None
    """The number of tokens it was chosen for; None if not known yet."""

    def choose(self, engine: Engine, options: Options, starts: Sequence[int], count: Callable[[int], int]) -> int:
        """Choose where the prompt begins; `count` gives the tokens of a prompt that begins at a start.

        If something must be left out, enough is dropped that the next few turns fit as well.
        """
        limit = engine.context_length - room(engine, options)
        first = self.first
        if first is not None and first in starts and self.limit in (None, limit) and count(first) <= limit:
            self.limit = limit
            return first
        first = starts[0]
        if count(first) > limit:
            spare = limit - engine.context_length // 4
            first = starts[min(bisect_left(starts, True, key=lambda at: count(at) <= spare), len(starts) - 1)]
        self.first, self.limit = first, limit
        return first


def room(engine: Engine, options: Options) -> int:
    """The tokens reserved for the answer."""
    quarter, half = engine.context_length // 4, engine.context_length // 2
    return min(options.max_tokens or quarter, half)


def prompt(engine: Engine, said: Sequence[Kept], *, system: str, summary: str = "") -> list[Message]:
    """The conversation as messages for the model, with its system prompt and summary.

    If the chat template takes no system prompt, it is put before the first user message.
    """
    called = any(one.calls for one in said)
    messages = to_messages(said, knows_tools=called and takes_results(engine))
    if summary:
        system = f"{system}\n\n{SUMMARY}\n{summary}".strip()
    if not system:
        return messages
    if takes_system(engine):
        return [Message("system", system), *messages]
    place = next((i for i, one in enumerate(messages) if one.role == "user"), None)
    if place is not None:
        messages[place] = Message("user", f"{system}\n\n{messages[place].text}")
    return messages


def to_messages(said: Sequence[Kept], *, knows_tools: bool) -> list[Message]:
    """Messages in the model's form; a template that knows no tools gets tool results as user messages."""
    told = list[Message]()
    for place, one in enumerate(said):
        if not one.calls or not knows_tools:
            role, text = ("user", describe_result(one)) if one.role == "tool" else (one.role, one.text)
            if role == "user" and place and said[place - 1].role == "tool" and told[-1].role == "user":
                text = f"{told.pop().text}\n\n{text}"  # roles have to alternate
            told.append(Message(role, text))
        elif one.role == "tool":
            told.append(Message("tool", one.text, answers=one.calls[0]))
        else:
            answered = {call.id for other in said[place + 1 :] if other.role == "tool" for call in other.calls}
            calls = tuple(call for call in one.calls if call.id in answered)
            told.append(Message(one.role, strip_calls(one.text, [call.name for call in one.calls]), calls))
    return told


def describe_result(message: Kept) -> str:
    """A tool result as text for a user message."""
    return f"[{message.calls[0].name if message.calls else 'a tool'} gave]\n{message.text}"


def takes_results(engine: Engine) -> bool:
    """Whether the chat template renders tool calls and their results; some only list the tools."""
    if not engine.knows_tools:
        return False
    call = ToolCall("probe", "{}", "123456789")
    asked = [Message("user", "x"), Message("assistant", "", (call,))]
    return differ(engine, *([*asked, Message("tool", text, answers=call)] for text in ("x", PROBE)))


def takes_system(engine: Engine) -> bool:
    """Whether the chat template renders a system prompt."""
    asked = Message("user", "x")
    return differ(engine, [asked], [Message("system", PROBE), asked])


def differ(engine: Engine, one: Sequence[Message], other: Sequence[Message]) -> bool:
    """Whether the chat template accepts both conversations and renders them differently."""
    try:
        return engine.count_chat(one) != engine.count_chat(other)  # a template's own system prompt may be longer
    except GenerationError:
        return False


def turns(said: Sequence[Kept]) -> list[int]:
    """The indices at which the turns of a conversation begin."""
    return sorted({0, *(place for place, one in enumerate(said) if one.role == "user")})
