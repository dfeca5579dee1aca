"""Talk line by line, as `chatapp run` does; in plain mode for screen readers and for terminals that only print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from chatapp.cli.printing import Form, note
from chatapp.cli.run import print_answer
from chatapp.commands import commands, parse
from chatapp.commands.parse import FENCE
from chatapp.commands.steering import Steering
from chatapp.conversation import Turn, shell
from chatapp.generation import Usage
from chatapp.text.errors import InputError, UserError, one_line
from chatapp.text.printable import printable
from chatapp.text.units import milliseconds


@dataclass(frozen=True)
class Manner:
    """How the loop speaks to its user."""

    mark: str
    """Before what the user types."""
    labels: bool = False
    """Whether an answer begins with its model's name."""
    figures: bool = False
    """Whether its latency is told in words."""
    patient: bool = False
    """Whether Ctrl+C never leaves."""


RUN = Manner(">>> ")
PLAIN = Manner("You: ", labels=True, figures=True, patient=True)
MORE = "... "
LEAVING = "/bye leaves, and so does Ctrl+D."


def loop(steering: Steering, manner: Manner, form: Form) -> int:
    """Answer every line until the user leaves, and return the exit code."""
    prepare_input()
    note("/? for help, /bye to leave")
    interrupts, outputs = 0, list[str]()
    while True:
        try:
            with steering.outside.quiet(steering.talk.setup.model):
                line, typed = read(manner.mark)
            interrupts = 0
            command = None if typed else parse.parse(line)
            if isinstance(command, commands.Leave):
                return 0
            if not typed and (wanted := shell.command_in(line)):
                outputs.append(output_of(wanted))
                continue
            if command:
                respond(steering, lambda command=command: steering.do(command), manner, form)  # type: ignore[misc]
            elif line.strip():
                text = "\n\n".join([line if typed else parse.text_of(line), *outputs])
                outputs.clear()
                respond(steering, lambda text=text: steering.talk.ask(text), manner, form)  # type: ignore[misc]
        except UserError as error:
            note(f"Error: {error}")
        except EOFError:
            print()
            return 0
        except KeyboardInterrupt:
            print()
            if not manner.patient:
                return 130
            interrupts += 1
            if interrupts > 1:
                note(LEAVING)


def output_of(command: str) -> str:
    """Run a command for the next message, show what it writes, and give that as it goes into the message."""
    if not sys.stdin.isatty():
        raise InputError("a command runs only where somebody types; a text with a leading ! is written with two")
    note(f"Runs in {shell.shell()[0]}; what it writes goes with your next message. Ctrl+C cancels.")
    output = shell.run(command)
    print(output.text)
    note(output.told)
    return output.attachment


def respond(steering: Steering, act: Callable[[], Turn | None], manner: Manner, form: Form) -> None:
    """Do what was asked for, and print the answer where there is one."""
    talk = steering.talk
    try:
        turn = act()
        if turn is None:
            return
        if manner.labels:
            sys.stdout.write(f"{printable(talk.setup.model)}: ")
        interrupted = print_answer(talk.engine, turn.deltas, len(turn.replies), form)
        if turn.left_out:
            note(f"{turn.left_out} earlier messages no longer fit the context and were left out.")
        if manner.figures and talk.engine.last_usage and not interrupted:
            note(in_words(talk.engine.last_usage, talk.engine.context_length))
    except Exception as error:
        if not (message := one_line(error)):
            raise
        note(f"Error: {message}")


def in_words(usage: Usage, context: int) -> str:
    """How quick an answer was, in a sentence that can be listened to."""
    used = min(context, usage.prompt_tokens + usage.completion_tokens)
    tokens = f"{usage.completion_tokens} token{'s' * (usage.completion_tokens != 1)}"
    begin = f"{tokens}, the first after {milliseconds(usage.time_to_first_token)}"
    if usage.latencies:
        begin += f", then {usage.tokens_per_second:.1f} a second, 95 of 100 within {milliseconds(usage.p95)}"
    return f"{begin}. {used:,} of {context:,} tokens of the context are used."


# What the user types


def prepare_input() -> None:
    """Arrow keys and what was typed before, where the system has that and the terminal can show it."""
    if os.environ.get("TERM") == "dumb":
        return
    with suppress(ImportError):
        import readline

        readline.parse_and_bind("set enable-bracketed-paste off")
        readline.parse_and_bind("set enable-meta-key off")


def read(mark: str) -> tuple[str, bool]:
    """A line, or the lines between two fences; and whether it was between fences, where nothing is a command."""
    line = ask(mark)
    if line.startswith(FENCE):
        text = line.removeprefix(FENCE)
        while not text.endswith(FENCE):
            text += "\n" + ask(MORE)
        return text.removesuffix(FENCE), True
    while line.startswith("/") and line.count(FENCE) == 1:  # /set system """ goes on as well
        line += "\n" + ask(MORE)
    return line, False


def ask(mark: str) -> str:
    """A line of input after `mark`, which is no part of the output where that goes to a file."""
    if sys.stdout.isatty():
        return input(mark)
    sys.stderr.write(mark)
    sys.stderr.flush()
    return input()
