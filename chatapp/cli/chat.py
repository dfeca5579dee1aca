"""`chatapp` and `chatapp chat`: the screen, or plain lines where that is wanted or the terminal can do no more."""

import gc
import os
import sys
from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from chatapp.cli.arguments import Parser, add_setup
from chatapp.conversation import manner
from chatapp.conversation.manner import Manner, check_thinking
from chatapp.settings import settings
from chatapp.text.errors import InputError

if TYPE_CHECKING:
    from chatapp.generation import Engine
    from chatapp.placement.selection import PlacementOptions

DETAILS = """\
Without --plain it is the screen, as without any command. The plain mode prints lines and nothing else: no colours,
no cursor that jumps. It is for screen readers, and for terminals that can do no more (TERM=dumb chooses it).
"""
DUMB = "This terminal cannot show a screen (TERM=dumb): this is the plain mode."


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp chat [MODEL] [options]"
    parser.add_details(DETAILS)
    parser.add_argument("model", metavar="MODEL", nargs="?", help="as for run (default: the one in settings.toml)")
    parser.add_argument("--plain", action="store_true", help="lines only, for screen readers")
    add_setup(parser)


def run(given: Namespace) -> int:
    """Open the screen, or talk in plain lines."""
    model = given.model if given.command else given.screen_model
    return chat(model, manner.read(given.preset, given.system, given.think), plain=given.plain)


def chat(model: str | None, manner: Manner, *, plain: bool) -> int:
    """Open the screen, or talk line by line, with this model or the one in the settings."""
    chosen = settings.read()
    if plain:
        return talk(model or chosen.model, manner)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("the screen needs a terminal; for one answer, try: chatapp run builtin 'import numpy as'")
    if os.environ.get("TERM") == "dumb":
        print(DUMB, file=sys.stderr, flush=True)
        return talk(model or chosen.model, manner)
    gc.disable()  # until the first frame, which comes a tenth sooner
    from chatapp.tui.keys.typed_ahead import typed_ahead

    with typed_ahead() as ahead:
        from chatapp.tui import app, users

        app.run(users.start(model or "", manner), ahead)
    return 0


def talk(model: str, manner: Manner) -> int:
    """Talk in plain lines."""
    from chatapp.cli import repl
    from chatapp.cli.printing import Form, note
    from chatapp.cli.run import fitting, open_history
    from chatapp.commands.steering import Outside, Steering
    from chatapp.conversation import Setup
    from chatapp.conversation.talk import Talk
    from chatapp.placement.measuring import measure_quietly
    from chatapp.workspace import open_store

    engine = open_engine(model)
    check_thinking(engine, model, manner.options)
    system = fitting(engine, model, manner.system)
    talk = Talk(engine, Setup(open_store().get(model).name, manner.options, system))
    history = talk.history = open_history() if settings.read().history else None
    talk.begin_anew()
    try:
        outside = Outside(open_engine, open_store, history, partial(measure_quietly, open_store(), options=wanted()))
        return repl.loop(Steering(talk, outside, say=note), repl.PLAIN, Form())
    finally:
        if history:
            talk.dialogue.save()
            history.close()


def wanted() -> "PlacementOptions":
    """What the settings say about where a model runs."""
    from chatapp.placement.selection import PlacementOptions

    chosen = settings.read()
    return PlacementOptions(chosen.backend or None, objective=chosen.objective)


def open_engine(name: str) -> "Engine":
    """Open a model where the settings say, telling each step in a line."""
    from chatapp.cli.printing import note, warn
    from chatapp.placement.opening import open_engine
    from chatapp.workspace import open_store

    told = ""

    def tell(step: str, share: float) -> None:
        nonlocal told
        if step != told:
            told = step
            note(f"{name}: {step}")

    return open_engine(open_store(), name, wanted(), on_progress=tell, on_fallback=warn)
