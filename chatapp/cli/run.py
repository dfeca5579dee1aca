"""`chatapp run`: answer one prompt, or hold a conversation line by line, saved unless told otherwise."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Any

from chatapp.cli.arguments import (
    Parser,
    add_beams,
    add_generation,
    add_grammars,
    add_output,
    add_remote,
    add_setup,
    add_speculation,
    parse_number,
    read_form,
    read_model,
    read_options,
    read_placement,
)
from chatapp.cli.printing import note, warn
from chatapp.cli.progress import open_model
from chatapp.cli.repl import LineView, loop
from chatapp.conversation import Dialogue, Setup, attachments
from chatapp.conversation.setup import check_thinking
from chatapp.conversation.states import write_states
from chatapp.generation import GenerationError, OptionError
from chatapp.history import Conversation, HistoryError, Message
from chatapp.text.errors import InputError, UsageError
from chatapp.text.files import read_input
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from chatapp.history import History
    from chatapp.workspace import Opened

DETAILS = """\
MODEL is builtin, a name from `chatapp list`, a checkpoint folder or a GGUF file.
PROMPT is added after piped input, if there is any; `-` is standard input. Without either, chat line by line.
A model with a chat template answers; any other continues the text, by up to 256 tokens (see --max-tokens).

With -c, --session or --remote, MODEL may be omitted: a single argument is PROMPT. The model is then the one that
answered before, or the server's.

Line by line: /? lists the commands, such as /clear and /bye. Three double quotes begin and end several lines.
Ctrl+C stops an answer, or quits.
"""
PATIENCE = 3.0
"""Seconds to wait for piped input when a prompt is given."""
ENOUGH = 256
"""Default number of tokens by which a base model continues a prompt: few stop by themselves."""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp run MODEL [PROMPT | -] [options]"
    add_generation(parser, temperature="0.8", max_tokens="until the context is full; without a chat template, 256")
    add_grammars(parser)
    add_beams(parser)
    add_speculation(parser)
    add_setup(parser)
    add_remote(parser)
    group = parser.add_argument_group("conversation")
    group.add_argument(
        "-f", "--file", metavar="PATH", action="append", help="attach a text file or a folder to the prompt; repeatable"
    )
    which = group.add_mutually_exclusive_group()
    which.add_argument("-c", "--continue", dest="resume", action="store_true", help="continue the last one")
    which.add_argument(
        "--session", metavar="ID", type=parse_number, help="continue this one; see `chatapp sessions ls`"
    )
    group.add_argument("--no-history", action="store_true", help="do not save the conversation")
    add_output(parser)


def name_words(parser: Parser, given: Namespace, words: list[str]) -> list[str]:
    """Assign MODEL and PROMPT from the words; returns the surplus."""
    if (given.resume or given.session or given.remote) and len(words) < 2:
        given.model, given.prompt = None, words[0] if words else None  # the conversation or the server has the model
    elif not words:
        parser.error("no MODEL given; to see your models: chatapp list")
    elif len(words) == 1 and " " in words[0].strip() and not os.path.exists(os.path.expanduser(words[0])):
        parser.error("no MODEL given; write it before the prompt; to see your models: chatapp list")
    else:
        given.model, given.prompt = words[0], words[1] if words[1:] else None
    return words[2:]


def run(given: Namespace) -> int:
    """Open the model, then answer the prompt or talk line by line."""
    workspace = Workspace(shares=True)
    wanted = workspace.read_setup(given.preset, given.system, tools=given.tools)
    chosen = {**wanted.options, **read_options(given)}
    prompt = attach(read_prompt(given.prompt), given.file)
    if prompt == "":  # before a model is loaded
        raise InputError("the prompt is empty; give the model some text")
    before = find_past(workspace, given.session, last=given.resume)
    kept = Setup.of_json(before.conversation.setup) if before else Setup()
    if given.check_lossless:
        check_comparable(prompt, chosen, wanted.tools or kept.tools)
    model = read_model(given, given.model or (before.conversation.model if before and not given.remote else ""))
    placement = read_placement(given)
    opened = open_model(workspace, placement, model, draft=given.draft_model or "")
    engine = opened.engine
    options = replace(engine.defaults, **chosen)
    if options.max_tokens is None and not engine.can_chat:
        chosen["max_tokens"] = ENOUGH
    usual = "" if before or given.system is not None or not engine.can_chat else workspace.read_system(opened.name)
    wanted = replace(wanted, options=chosen, system=wanted.system or kept.system or usual)
    setup = fit(opened, model, wanted, files=given.file)
    setup = replace(setup, tools=setup.tools or kept.tools)
    # A single continuation by a base model, perhaps in a pipe, is not saved: nobody comes back to it.
    keeps = not given.no_history and (prompt is None or engine.can_chat)
    view = LineView(
        engine,
        setup,
        workspace,
        partial(open_model, workspace, placement),
        history=open_history(workspace) if keeps else None,
        placement=placement,
        n=options.n,
        form=read_form(given),
    )
    return answer(view, prompt, before, compared=given.check_lossless)


def read_prompt(prompt: str | None) -> str | None:
    """Piped input followed by the prompt; None at a terminal without a prompt, to talk line by line."""
    if prompt != "-" and sys.stdin.isatty():
        return prompt
    if prompt not in (None, "-") and not is_input_ready(PATIENCE):
        note(f"No piped input within {PATIENCE:.0f} seconds; using the prompt alone. To avoid the wait, add </dev/null")
        return prompt
    piped = read_input("-").removesuffix("\n")
    return "\n\n".join(filter(None, (piped, "" if prompt == "-" else prompt)))


def attach(prompt: str | None, paths: Sequence[str]) -> str | None:
    """The prompt with these files, if there are any, as if it named them on the screen."""
    if not paths:
        return prompt
    if prompt is None:
        raise UsageError("--file needs a PROMPT; line by line, attach a file with @PATH in a message")
    named = " ".join([prompt, *map(attachments.mention, paths)])
    return attachments.message(named, [attachments.read(path, Path.cwd()) for path in paths])


def is_input_ready(seconds: float) -> bool:
    """Whether standard input has data or ends within so many seconds.

    The parent process may have left a pipe open that nobody writes to.
    """
    try:
        return bool(select([sys.stdin], [], [], seconds)[0])
    except (OSError, ValueError):  # not a real file, or Windows, where select takes only sockets
        return True


def check_comparable(
    prompt: str | None,
    chosen: Mapping[str, Any],  # values of Options
    tools: Sequence[str],
) -> None:
    """Refuse `--check-lossless` unless there is exactly one answer, without tools."""
    if prompt is None or tools or chosen.get("n", 1) > 1 or chosen.get("num_beams", 1) > 1:
        raise OptionError("--check-lossless needs a PROMPT, a single answer and no tools")


@dataclass(frozen=True)
class Past:
    """The saved conversation to continue."""

    conversation: Conversation
    messages: Sequence[Message]


def find_past(workspace: Workspace, session: int | None, *, last: bool) -> Past | None:
    """The conversation with this id, or the last one if `last`; None if neither is asked for."""
    if session is None and not last:
        return None
    with workspace.open_history() as history:
        conversation = history.get(session) if session is not None else history.last("chat")
        if conversation is None:
            raise InputError("no conversation to continue; to start one, run: chatapp run MODEL")
        if conversation.kind == "completion":
            raise InputError(
                f"{conversation.id} is a base model's continuation, not a conversation; "
                f"to print it, run: chatapp sessions show {conversation.id}"
            )
        messages = history.messages(conversation.id)
        for line in history.new_damage():
            warn(line)
        return Past(conversation, messages)


def fit(opened: "Opened", model: str, setup: Setup, *, files: Sequence[str] = ()) -> Setup:
    """The setup for an opened model; raises if it asks for what the model cannot do."""
    check_thinking(opened.engine, model, setup.options)
    if setup.tools and not opened.engine.knows_tools:
        raise GenerationError(f"{model} cannot call tools: its chat template does not support them")
    if files and not opened.engine.can_chat:
        raise GenerationError(f"{model} has no chat template, so --file does not work; pipe the text into chatapp run")
    if setup.system and not opened.engine.can_chat:
        raise GenerationError(f"{model} has no chat template, so it takes no system prompt")
    return replace(setup, model=opened.name)


def answer(view: LineView, prompt: str | None = None, past: Past | None = None, *, compared: bool = False) -> int:
    """Answer one prompt, or talk line by line, perhaps continuing a conversation; returns the exit code."""
    with ExitStack() as copies:
        try:
            if past:
                go_on(view, past, copies)
            if prompt is not None:
                printout = view.print(turn := view.ask(prompt))
                if compared and not printout.interrupted:
                    from chatapp.cli.lossless import check_lossless

                    return check_lossless(view, turn, printout.replies[0])
                return 130 if printout.interrupted else int(printout.missing)
            if past and past.messages:
                note(f"Continuing conversation {past.conversation.id}, {len(past.messages)} messages so far")
            return loop(view)
        finally:
            if view.history:
                view.dialogue.save()
                write_states(view.engine, view.history)
                view.history.close()


def go_on(view: LineView, past: Past, copies: ExitStack) -> None:
    """Continue a saved conversation; with --no-history, continue a copy in memory."""
    if not view.engine.can_chat:
        raise GenerationError(f"{view.model} has no chat template and cannot continue a conversation")
    history, conversation = view.history, past.conversation
    if history is None:
        from chatapp.history import History

        history = copies.enter_context(closing(History(None)))
        conversation = history.restore(conversation, past.messages)
    setup, toolset = view.dialogue.setup, view.dialogue.toolset
    view.dialogue = Dialogue(history, conversation, kind="chat", setup=setup, warn=warn, toolset=toolset)


def open_history(workspace: Workspace) -> "History | None":
    """Open the history if the settings keep one; None, after a warning, if it cannot be opened."""
    try:
        return workspace.open_history() if workspace.read_settings().history else None
    except HistoryError as error:
        warn(f"this conversation is not being saved: {error}")
        return None
