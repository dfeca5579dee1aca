"""Offers tools to the model, and finds its calls that have no result yet."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chatapp.conversation.turn import Turn
from chatapp.generation import Engine, ToolCall
from chatapp.generation.text.tools import Toolbox
from chatapp.history import Message

if TYPE_CHECKING:
    from chatapp.conversation.tools.toolset import Toolset

BEAT = 0.1
"""Seconds between two checks whether the turn was cancelled while waiting for a server."""
UNKNOWING = "{} cannot call tools: its chat template does not support them; the conversation continues without tools"


def offer(toolset: Toolset, names: Sequence[str], engine: Engine, turn: Turn) -> Generator[None, None, None]:
    """Add the tools of these servers to a turn; each yield is a chance to cancel while servers start."""
    if turn.options.n > 1 or turn.options.num_beams > 1 or turn.options.constraint:
        return
    if not engine.knows_tools:
        toolset.warn_once(UNKNOWING.format(turn.replies[0].model or "this model"))
        return
    tools = yield from toolset.looking(names, BEAT)
    box = Toolbox([one.function for one in tools])
    turn.options, turn.listener = replace(turn.options, **box.keep_to({})), box.listen()


def find_open(branch: Sequence[Message]) -> list[ToolCall]:
    """The calls of the last reply that have no result yet."""
    answered = set[str]()
    for one in reversed(branch):
        if one.role == "tool":
            answered |= {call.id for call in one.calls}
        else:
            return [call for call in one.calls if call.id not in answered] if one.role == "assistant" else []
    return []
