"""Tool calls in line mode: approved in the terminal, refused if there is none."""

import sys
import time
from concurrent.futures import wait

from chatapp.cli.printing import note, stoppable
from chatapp.conversation import Dialogue
from chatapp.conversation.rounds import (
    LATE,
    ROUNDS,
    STOPPED,
    Decision,
    Question,
    RunningCall,
    answer_calls,
    describe_call,
)
from chatapp.conversation.tool_calls import BEAT
from chatapp.conversation.tools import Result
from chatapp.text.units import milliseconds

ANSWERS: dict[str, Decision] = {"o": "once", "c": "conversation", "r": "refuse", "s": "stop"}
ASKING = "Allow it? [o]nce, for this [c]onversation, [r]efuse, [s]top: "
SHOWN = 10
"""Lines of a result that are shown; the others are only counted."""


def answer_in_lines(dialogue: Dialogue) -> bool:
    """Run the approved calls of the last answer; returns whether the model may continue."""
    steps = answer_calls(dialogue)
    try:
        step = next(steps)
        while True:
            step = steps.send(ask(step) if isinstance(step, Question) else run(step))
    except StopIteration as end:
        if not end.value and not dialogue.open_calls() and dialogue.branch()[-1].usage.get("outcome") != "refused":
            note(LATE.format(ROUNDS))
        return bool(end.value)


def ask(question: Question) -> Decision:
    """Ask whether a call may run; without a terminal it is refused."""
    note(describe_call(question.call, question.tool))
    if question.changed:
        note("This tool has changed since you allowed it.")
    if not is_terminal():
        note("Refused: no terminal to ask on.")
        return "refuse"
    while True:
        try:
            sys.stderr.write(ASKING)
            sys.stderr.flush()
            typed = input().strip().lower()
        except (EOFError, KeyboardInterrupt):
            note("")
            return "stop"
        if typed[:1] in ANSWERS:
            return ANSWERS[typed[:1]]
        note("Type o, c, r or s.")


def is_terminal() -> bool:
    """Whether there is a terminal to ask at."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def run(running: RunningCall) -> Result:
    """Wait for a call, or stop it on Ctrl+C, and show its result."""
    name, began = running.tool.name, time.monotonic()
    if running.unasked:
        note(describe_call(running.call, running.tool))
    with stoppable() as stop:
        while not wait([running.result], BEAT).done:
            if stop.is_set():
                running.result.cancel()
                note("Stopped.")
                return STOPPED
    result, took = running.result.result(), milliseconds(time.monotonic() - began)
    lines = result.text.split("\n")
    more = f"\n… {len(lines) - SHOWN:,} more lines" if len(lines) > SHOWN else ""
    shown = "\n".join(line[:200] for line in lines[:SHOWN])
    note(f"{name} {'failed' if result.outcome == 'failed' else 'gave'}, after {took}:\n{shown}{more}")
    return result
