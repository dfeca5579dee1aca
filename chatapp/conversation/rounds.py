"""Runs the tool calls of a reply one by one, asking the user first.

Both the screen and the line-mode loop iterate `answer_calls` and send it the user's decisions.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from chatapp.conversation.tools import Result
from chatapp.generation import ToolCall
from chatapp.history import Message

if TYPE_CHECKING:
    from concurrent.futures import Future

    from chatapp.conversation.conversation import Dialogue
    from chatapp.conversation.tools.toolset import Tool

ROUNDS = 8
"""Consecutive replies that may call tools before it is the user's turn."""
SHOWN = 2_000
"""Characters of a call's arguments that the user is shown."""
REFUSED = Result("The user has refused this call. Do not repeat it; say what you can without it.", "refused")
STOPPED = Result("The user has stopped this call.", "refused")
LATE = "{} answers in a row called tools, which is the limit. To let the model continue, send any message."
Decision = Literal["once", "conversation", "refuse", "stop"]


@dataclass(frozen=True)
class Question:
    """A call that the user must approve."""

    call: ToolCall
    tool: Tool
    changed: bool
    """Whether the tool was allowed before, but its description has changed since."""


@dataclass(frozen=True)
class RunningCall:
    """A call that is running."""

    call: ToolCall
    tool: Tool
    result: Future[Result]
    unasked: bool
    """Whether it runs without asking, because the user allowed the tool earlier."""


Step = Question | RunningCall
"""What `answer_calls` yields: send it a Decision for a Question, and a Result for a RunningCall."""


def answer_calls(dialogue: Dialogue) -> Generator[Step, Decision | Result, bool]:
    """Run the calls of the last reply one after another; returns whether the model may continue."""
    toolset = dialogue.toolset
    for call in dialogue.open_calls():
        tool = toolset.find(call.name) if toolset else None
        if toolset is None or tool is None:
            dialogue.answer_call(call, Result(f"The tool {call.name} no longer exists.", "failed"))
            continue
        decision: object = "once"
        if not (unasked := toolset.is_allowed(tool)):
            decision = yield Question(call, tool, toolset.has_changed(tool))
        if decision == "conversation":
            toolset.allow(tool)
        if decision not in ("once", "conversation"):
            dialogue.answer_call(call, REFUSED, server=tool.server.name)
            if decision == "stop":
                return False
            continue
        began = time.monotonic()
        result = yield RunningCall(call, tool, toolset.call(tool, call), unasked)
        assert isinstance(result, Result)
        dialogue.answer_call(call, result, server=tool.server.name, seconds=time.monotonic() - began)
        if result is STOPPED:
            return False
    return count_rounds(dialogue.branch()) < ROUNDS


def describe_call(call: ToolCall, tool: Tool) -> str:
    """One line about a call for the user: tool, server, where text goes, and the arguments."""
    from chatapp.conversation.tools.http import leaves

    away = leaves(tool.server)
    more = len(call.arguments) - SHOWN
    arguments = call.arguments if more <= 0 else f"{call.arguments[:SHOWN]} … and {more:,} characters more"
    where = f"{tool.server.name}, text goes to {away}" if away else tool.server.name
    return f"The model calls {tool.name} of {where}: {arguments}"


def count_rounds(branch: Sequence[Message]) -> int:
    """How many consecutive replies at the end of a branch have called tools."""
    rounds = 0
    for one in reversed(branch):
        if one.role == "user":
            break
        rounds += one.role == "assistant" and bool(one.calls)
    return rounds
