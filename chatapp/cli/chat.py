"""`chatapp` and `chatapp chat`: the screen, or plain lines if asked for or if the terminal cannot show a screen."""

import gc
import os
import sys
from argparse import Namespace
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from chatapp.cli.arguments import Parser, add_remote, add_setup, read_model
from chatapp.text.errors import InputError
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from chatapp.conversation import Setup

DETAILS = """\
Without --plain, opens the screen, as does chatapp without a command. Plain mode prints lines only, without colours or
cursor movement, for screen readers and simple terminals; it is the default if TERM=dumb.
"""
DUMB = "TERM=dumb cannot show the screen; using plain mode."


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp chat [MODEL] [options]"
    parser.add_argument("model", metavar="MODEL", nargs="?", help="as for `chatapp run` (default: as in settings.toml)")
    parser.add_argument("--plain", action="store_true", help="print lines only, for screen readers")
    add_setup(parser)
    add_remote(parser)


def run(given: Namespace) -> int:
    """Open the screen, or talk line by line, with the model given or the one in the settings."""
    workspace, asked = Workspace(shares=True), (given.preset, given.system, given.think, given.tools)
    setup = workspace.read_setup(*asked) if any(one is not None for one in asked) else None
    if not given.command:  # plain `chatapp`: with --remote, --model names one of the server's models
        given.remote = given.screen_remote
        given.model, given.remote_model = (None, given.screen_model) if given.remote else (given.screen_model, None)
    model = read_model(given, given.model or "")
    if given.plain:
        return talk(workspace, model, setup, given.system)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("the screen needs a terminal; for one answer, run: chatapp run builtin 'import numpy as'")
    if os.environ.get("TERM") == "dumb":
        print(DUMB, file=sys.stderr, flush=True)
        return talk(workspace, model, setup, given.system)
    gc.disable()  # enabled again after the first frame, which comes sooner this way
    from chatapp.tui.keys.typed_ahead import driver, typed_ahead

    with typed_ahead() as ahead:
        from chatapp.tui import app

        if setup and given.system is None:
            setup = replace(setup, system=workspace.read_system(model or workspace.read_settings().model))
        chosen = setup if setup and (setup.options or given.system is not None or setup.system or setup.tools) else None
        app.run(app.ChatApp(workspace, model=model, setup=chosen, driver=driver(ahead) if ahead else None))
    return 0


def talk(workspace: Workspace, model: str, setup: "Setup | None", system: str | None) -> int:
    """Talk in plain lines; `system` is the system prompt as the user named it."""
    from chatapp.cli.progress import open_model, tell_steps
    from chatapp.cli.repl import LineView
    from chatapp.cli.run import answer, fit, open_history
    from chatapp.conversation import Setup

    model, open_one = model or workspace.read_settings().model, partial(open_model, workspace, None, show=tell_steps)
    opened = open_one(model)
    setup = setup or Setup()
    if system is None and opened.engine.can_chat:
        setup = replace(setup, system=workspace.read_system(opened.name))
    setup = fit(opened, model, setup)
    history = open_history(workspace)
    return answer(LineView(opened.engine, setup, workspace, open_one, history=history, plain=True))
