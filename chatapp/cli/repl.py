"""The line-mode conversation of `chatapp run`; its plain mode is for screen readers and simple terminals."""

from __future__ import annotations

import io
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.cli.printing import Form, Printout, note, warn
from chatapp.commands import run
from chatapp.commands.parse import FENCE, is_command, text_of
from chatapp.conversation import Dialogue, Setup, Turn, attachments, shell
from chatapp.conversation.setup import NO_TEMPLATE
from chatapp.generation import Engine, Usage
from chatapp.generation.contract import UNKNOWN_CONTEXT
from chatapp.text.errors import InputError, UserError, one_line
from chatapp.text.printable import printable
from chatapp.text.units import milliseconds

if TYPE_CHECKING:
    from chatapp.conversation.tools.toolset import Toolset
    from chatapp.history import History, Kind
    from chatapp.placement.selection import PlacementOptions
    from chatapp.workspace import Opened, Workspace

MORE = "... "
LEAVING = "To quit: /bye or Ctrl+D."
NEEDS_SCREEN = "that needs the screen; to open it, run chatapp without --plain"


class LineView:
    """A conversation in lines of text; a base model starts a new text with each prompt.

    In `plain` mode speakers are named, latencies are given in words, and Ctrl+C never leaves.
    """

    def __init__(
        self,
        engine: Engine,
        setup: Setup,
        workspace: Workspace,
        open_model: Callable[[str], Opened],
        *,
        history: History | None,
        placement: PlacementOptions | None = None,
        n: int = 1,
        plain: bool = False,
        form: Form | None = None,
    ) -> None:
        self.engine, self.workspace, self.open_model, self.placement = engine, workspace, open_model, placement
        self.n, self.plain, self.form = n, plain, form or Form()
        self.history = self.kept_in = history
        """The open history, and the one where new conversations are saved (None for temporary ones)."""
        self.left = False
        """Whether the user has asked to leave."""
        self.outputs: list[str] = []
        """Output of shell commands, for the next message."""
        self.dialogue = self.begin_dialogue(setup)

    def begin_dialogue(self, setup: Setup) -> Dialogue:
        """A new conversation with this setup."""
        kind: Kind = "chat" if self.engine.can_chat else "completion"
        logprobs = 0 if self.kept_in else None  # for `chatapp replay`
        toolset = self.workspace.open_tools(warn)
        return Dialogue(self.kept_in, kind=kind, setup=setup, warn=warn, logprobs=logprobs, toolset=toolset)

    def begin_anew(self) -> None:
        """Begin a new conversation with the same setup."""
        self.dialogue = self.begin_dialogue(self.dialogue.setup)

    def take(self, line: str, *, fenced: bool = False) -> None:
        """Handle a line: a slash command, a shell command or a prompt; a fenced text is always a prompt."""
        from chatapp.commands.actions import parse

        command = None if fenced else parse(line)
        if command:
            run.run(command, self)
        elif not fenced and (wanted := shell.command_in(line)):
            self.outputs.append(output_of(wanted))
        elif line.strip():
            text = "\n\n".join([line if fenced else text_of(line), *self.outputs])
            if sys.stdin.isatty() and self.engine.can_chat:  # no word that is piped in opens a file
                text = attachments.message(text, attachments.attach(line, Path.cwd()))
            self.outputs.clear()
            self.answer(self.ask(text))

    def ask(self, text: str) -> Turn:
        """Begin a turn that answers a text, or continues it if the model is a base model."""
        if self.engine.can_chat:
            return self.dialogue.ask(self.engine, text, self.n)
        self.begin_anew()
        return self.dialogue.continue_text(self.engine, text, self.n)

    def answer(self, turn: Turn) -> None:
        """Print the replies of a turn as they arrive, and any note about it."""
        if self.plain:
            sys.stdout.write(f"{printable(self.model)}: ")
        printout = self.print(turn)
        if turn.left_out:
            note(f"{turn.left_out} earlier messages no longer fit the context and were left out.")
        if self.plain and self.engine.last_usage and not printout.interrupted:
            note(in_words(self.engine.last_usage, self.engine.context_length))

    def print(self, turn: Turn) -> Printout:
        """Print the replies of a turn, run the tools they call, and print the replies that follow."""
        printout = self.print_turn(turn)
        while turn.calls and not printout.interrupted:
            from chatapp.cli.tool_calls import answer_in_lines

            if not answer_in_lines(self.dialogue):
                break
            turn = self.dialogue.go_on_with_results(self.engine)
            printout = self.print_turn(turn)
        return printout

    def print_turn(self, turn: Turn) -> Printout:
        """Print the replies of one turn as they arrive, and what else was asked for, such as statistics."""
        with Printout(len(turn.replies), self.form) as printout, closing(turn.deltas) as deltas:
            for delta in deltas:
                if printout.add(delta):
                    break
        for delta in turn.taken:
            printout.add(delta)
        printout.finish(self.engine.last_usage)
        return printout

    # The methods of View, for slash commands

    @property
    def model(self) -> str:
        """The name of the model that answers."""
        return self.dialogue.setup.model

    def open_history(self) -> History:
        if self.history is None:
            raise InputError("conversations are not being saved, so there is no history")
        return self.history

    def say(self, text: str, brief: str = "") -> None:
        note(text)

    def show_text(self, title: str, text: str) -> None:
        self.say(text)

    def open(self, place: str, text: Callable[[], str]) -> None:
        self.say(text())

    def work(self, act: Callable[[], str]) -> None:
        self.say(act())

    def begin(self, kept: bool | None = None) -> None:
        if kept and self.history is None:
            raise InputError("conversations are not being saved; see --no-history, and history in settings.toml")
        if kept is not None:
            self.kept_in = self.history if kept else None
        self.begin_anew()
        told = {None: ".", True: "; it is saved.", False: "; it is not saved."}
        self.say(f"New conversation{told[kept]}")

    def use_model(self, name: str) -> None:
        opened = self.open_model(name)
        engine = opened.engine
        if not engine.can_chat and self.engine.can_chat and self.dialogue.branch():
            raise InputError(NO_TEMPLATE.format(name))
        changed = engine.can_chat != self.engine.can_chat
        self.engine = engine
        if wrong := self.dialogue.change_model(engine, opened.name):
            self.say(wrong)
        if changed:
            self.begin_anew()
        self.say(f"{self.model} answers from now on.")

    def again(self) -> None:
        last = self.dialogue.unanswered or run.last_message(self, "assistant")
        self.answer(self.dialogue.again(self.engine, last.id, self.n))

    def resume(self) -> None:
        if self.dialogue.unanswered:
            return self.again()
        self.answer(self.dialogue.resume(self.engine, run.last_message(self, "assistant").id))

    def edit(self, text: str) -> None:
        if not text:
            raise InputError("give the new text after /edit")
        self.answer(self.dialogue.edit(self.engine, run.last_message(self, "user").id, text))

    def copy(self, text: Callable[[], str]) -> None:
        from chatapp.text import clipboard

        shows = sys.stdout.isatty() and not self.plain
        environment = os.environ if shows else {**os.environ, "TERM": ""}  # no sequence where only lines are wanted
        self.say(str(clipboard.copy(text(), send_to_terminal, self.workspace.home, environment)))

    def find_tools(self) -> Toolset:
        assert self.dialogue.toolset
        return self.dialogue.toolset

    def tell_timings(self, wanted: bool) -> None:
        self.form = replace(self.form, stats="text" if wanted else None)
        self.say(f"Timings {'on' if wanted else 'off'}.")

    def choose_theme(self, name: str) -> None:
        raise InputError(NEEDS_SCREEN)

    def leave(self) -> None:
        self.left = True


def loop(view: LineView) -> int:
    """Answer every line until the user leaves; returns the exit code."""
    prepare_input(view.history.prompts() if view.history else (), "off" if view.plain else "on")
    note("/? for help, /bye to leave")
    interrupts = 0
    while not view.left:
        try:
            with view.workspace.measure(view.model, view.placement):
                line, fenced = read("You: " if view.plain else ">>> ")
            interrupts = 0
            try:
                view.take(line, fenced=fenced)
            except Exception as error:
                if not (message := one_line(error)):
                    raise
                note(f"Error: {message}")
        except UserError as error:
            note(f"Error: {error}")
        except EOFError:
            print()
            return 0
        except KeyboardInterrupt:
            print()
            if not view.plain:
                return 130
            interrupts += 1
            if interrupts > 1:
                note(LEAVING)
    return 0


def output_of(command: str) -> str:
    """Run a shell command, show its output, and return it as an attachment for the next message."""
    if not sys.stdin.isatty():
        raise InputError("!COMMAND works only at a terminal; to begin a message with !, type !!")
    note(f"Runs in {shell.shell()[0]}; its output goes with your next message. Ctrl+C cancels.")
    output = shell.run(command)
    print(output.text)
    note(output.told)
    return output.attachment


def send_to_terminal(text: str) -> None:
    """Give a text to the terminal's clipboard (OSC 52)."""
    sys.stdout.write(f"\x1b]52;c;{b64encode(text.encode()).decode()}\a")
    sys.stdout.flush()


def in_words(usage: Usage, context: int) -> str:
    """The speed of an answer as a sentence, for screen readers."""
    used = min(context, usage.prompt_tokens + usage.completion_tokens)
    tokens = f"{usage.completion_tokens} token{'s' * (usage.completion_tokens != 1)}"
    begin = f"{tokens}, the first after {milliseconds(usage.time_to_first_token)}"
    if usage.latencies:
        begin += f", then {usage.tokens_per_second:.1f} a second, 95 % within {milliseconds(usage.p95)}"
    if context >= UNKNOWN_CONTEXT:
        return f"{begin}."
    return f"{begin}. {used:,} of {context:,} tokens of context used."


# What the user types


def prepare_input(past: Sequence[str], pastes: str = "off") -> None:
    """Enable line editing, with earlier prompts as its history, if the system and the terminal support it."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # invalid UTF-8 must not end the conversation
    if os.environ.get("TERM") == "dumb":
        return
    with suppress(ImportError):
        import readline

        readline.parse_and_bind(f"set enable-bracketed-paste {pastes}")  # several lines are then one message
        readline.parse_and_bind("set enable-meta-key off")
        for text in reversed(past):
            if text.isprintable():  # in one line
                readline.add_history(text)


def read(mark: str) -> tuple[str, bool]:
    """A line, or the lines between two fences; and whether it was fenced, so that it cannot be a command."""
    line = ask(mark)
    if line.startswith(FENCE):
        text = line.removeprefix(FENCE)
        while not text.endswith(FENCE):
            text += "\n" + ask(MORE)
        return text.removesuffix(FENCE), True
    while is_command(line) and line.count(FENCE) == 1:  # a command's argument may be fenced: /set system """
        line += "\n" + ask(MORE)
    return line, False


def ask(mark: str) -> str:
    """Read a line after showing `mark`, on standard error if the output goes to a file."""
    if sys.stdout.isatty():
        return input(mark)
    sys.stderr.write(mark)
    sys.stderr.flush()
    return input()
