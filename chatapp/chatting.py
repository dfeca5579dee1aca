"""`chatapp` and `chatapp chat`: the screen, or plain lines where that is wanted or the terminal can do no more."""

import gc
import os
import sys
from typing import TYPE_CHECKING

from chatapp import settings
from chatapp.errors import InputError
from chatapp.manner import Manner

if TYPE_CHECKING:
    from chatapp.generation import Engine

DUMB = "This terminal cannot show a screen (TERM=dumb): this is the plain mode."


def chat(model: str | None, manner: Manner, *, plain: bool) -> int:
    """Open the screen, or talk line by line, with this model or the one in the settings."""
    chosen = settings.read()
    if plain:
        return talk(model or chosen.model, manner)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("the screen needs a terminal; for one answer, try: chatapp run builtin 'def fibonacci(n):'")
    if os.environ.get("TERM") == "dumb":
        print(DUMB, file=sys.stderr, flush=True)
        return talk(model or chosen.model, manner)
    gc.disable()  # until the first frame, which comes a tenth sooner
    from chatapp.tui import app, users

    app.run(users.start(model or "", manner))
    return 0


def talk(model: str, manner: Manner) -> int:
    """Talk in plain lines."""
    from chatapp import plain, running
    from chatapp.answer import Form, note
    from chatapp.dialogue import Setup
    from chatapp.steering import Outside, Steering
    from chatapp.stores import open_store
    from chatapp.talk import Talk

    engine = open_engine(model)
    system = running.fitting(engine, model, manner.system)
    talk = Talk(engine, Setup(open_store().get(model).name, manner.options, system))
    history = talk.history = running.open_history() if settings.read().history else None
    talk.begin_anew()
    try:
        return plain.loop(Steering(talk, Outside(open_engine, open_store, history), say=note), plain.PLAIN, Form())
    finally:
        if history:
            talk.dialogue.save()
            history.close()


def open_engine(name: str) -> "Engine":
    """Open a model where the settings say, telling each step in a line."""
    from chatapp.answer import note, warn
    from chatapp.selection import Wish, open_engine
    from chatapp.stores import open_store

    told = ""

    def tell(step: str, share: float) -> None:
        nonlocal told
        if step != told:
            told = step
            note(f"{name}: {step}")

    chosen = settings.read()
    wish = Wish(chosen.backend or None, objective=chosen.objective)
    return open_engine(open_store(), name, wish, on_progress=tell, on_fallback=warn)
