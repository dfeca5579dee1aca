"""A conversation that slash commands steer, told in lines: `chatapp run` and `chatapp chat --plain` share it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chatapp.commands import commands, parameters, parse
from chatapp.conversation import Setup, Turn, files
from chatapp.conversation.setup import NO_SWITCH, THINKS, check_thinking
from chatapp.conversation.talk import Talk
from chatapp.generation import Engine
from chatapp.history import Message as Kept
from chatapp.settings import presets, settings
from chatapp.text.errors import InputError

if TYPE_CHECKING:
    from chatapp.history import History
    from model_store import Store, StoredModel

SHORTCUTS = """\
Ctrl+C  stops the answer
Ctrl+D  leaves
\"\"\"     begins and ends a text of several lines"""
SCREEN = "that needs the screen: chatapp without --plain opens it"
NO_TEMPLATE = "{} has no chat template: it cannot continue a conversation; use /clear first"
MODELFILE = "models here have no Modelfile; /show info, /show parameters and /show template tell what one would"


@dataclass(frozen=True)
class Outside:
    """What a conversation in lines needs of the rest."""

    open: Callable[[str], Engine]
    """Opens another model."""
    store: Callable[[], Store]
    history: History | None
    """Where conversations are kept; None: nowhere."""
    quiet: Callable[[str], AbstractContextManager[object]] = nullcontext
    """What may be done about a model while its user thinks."""


class Steering:
    """Does what slash commands say."""

    def __init__(self, talk: Talk, outside: Outside, *, say: Callable[[str], None]) -> None:
        self.talk, self.outside, self.say = talk, outside, say

    def do(self, command: commands.Command) -> Turn | None:
        """Do what a command says; an answer, where the model gives one."""
        match command:
            case commands.SetParameter(name, value):
                setup = self.talk.setup
                self.talk.dialogue.change(replace(setup, options={**setup.options, name: value}))
                self.say(f"{name} is {value!r} from the next answer on.")
            case commands.SetSystem(text):
                self.talk.dialogue.change(replace(self.talk.setup, system=text))
                self.say("The system prompt is set." if text else "There is no system prompt any more.")
            case commands.SetThinking(on):
                check_thinking(self.talk.engine, self.talk.setup.model, {"think": on})
                setup = self.talk.setup
                self.talk.dialogue.change(replace(setup, options={**setup.options, "think": on}))
                self.say(THINKS[on])
            case commands.SetHistory(kept):
                self.keep(kept)
            case commands.Show(what):
                self.say(
                    describe(self.talk.setup, self.talk.engine, self.outside.store().get(self.talk.setup.model), what)
                )
            case commands.Load(model):
                self.load(model)
            case commands.Models():
                store = self.outside.store()
                self.say("\n".join([one.name for one in store.list()] + list(store.broken().values())))
            case commands.Clear():
                self.talk.begin_anew()
                self.say("Another conversation begins.")
            case commands.Help(about):
                self.say(SHORTCUTS if about == "shortcuts" else parse.explain(about))
            case commands.Again():
                return self.talk.dialogue.again(self.talk.engine, self.last("assistant").id, self.talk.n)
            case commands.Continue():
                return self.talk.dialogue.resume(self.talk.engine, self.last("assistant").id)
            case commands.Edit(text):
                if not text:
                    raise InputError("write the new words after /edit")
                return self.talk.dialogue.edit(self.talk.engine, self.last("user").id, text)
            case commands.Preset(name):
                self.preset(name)
            case commands.Copy() | commands.ChooseTheme():
                raise InputError(SCREEN)
            case _:
                self.file(command)
        return None

    def last(self, role: str) -> Kept:
        """The last message of the user's or the model's."""
        found = next((one for one in reversed(self.talk.dialogue.branch()) if one.role == role), None)
        if found is None:
            raise InputError("nothing was said yet in this conversation")
        return found

    def load(self, name: str) -> None:
        """Go on with another model; the conversation stays."""
        engine = self.outside.open(name)
        if not engine.can_chat and self.talk.engine.can_chat and self.talk.dialogue.branch():
            raise InputError(NO_TEMPLATE.format(name))
        changed = engine.can_chat != self.talk.engine.can_chat
        self.talk.engine = engine
        setup = replace(self.talk.setup, model=self.outside.store().get(name).name)
        if "think" in setup.options and not engine.can_switch_thinking:
            setup = setup.without_thinking()
            self.say(NO_SWITCH.format(setup.model))
        self.talk.dialogue.change(setup)
        if changed:
            self.talk.begin_anew()
        self.say(f"{self.talk.setup.model} answers from now on.")

    def preset(self, name: str) -> None:
        """Take the options of a preset, or tell which there are."""
        path = settings.home() / "presets.toml"
        if not name:
            return self.say("\n".join(presets.read(path)))
        found = presets.find(path, name)
        self.talk.dialogue.change(replace(self.talk.setup, options=found.over(self.talk.setup.options)))
        self.say(f"The options are those of {found.name} from the next answer on.")

    def keep(self, kept: bool) -> None:
        """Begin a conversation that is kept, or one that is not."""
        if kept and self.outside.history is None:
            raise InputError("no history is open, so nothing can be kept; see --no-history and settings.toml")
        self.talk.history = self.outside.history if kept else None
        self.talk.begin_anew()
        self.say("Another conversation begins; it is " + ("kept." if kept else "not kept."))

    def file(self, command: commands.Command) -> None:
        """The commands that need the history."""
        history = self.outside.history
        if history is None:
            raise InputError("conversations are not kept, so there is no history to work with")
        match command:
            case commands.Save(title):
                history.rename(self.kept(), title)
                self.say(f"This conversation is called {title}.")
            case commands.Export(form, given):
                self.say(f"Written to {files.export(history, self.kept(), form, given)}.")
            case commands.Import(given):
                self.say(files.told(files.bring_in(history, given)))
            case commands.Search(words):
                found = history.search(words)
                lines = [(one.conversation.id, f"{one.conversation.title}: {one.snippet}") for one in found]
                self.say("\n".join(f"{n}  {' '.join(line.split())}" for n, line in lines) or "Nothing was found.")

    def kept(self) -> int:
        """The number of this conversation in the history."""
        if self.talk.dialogue.conversation is None:
            raise InputError(
                "this conversation is not kept"
                if self.talk.dialogue.branch()
                else "nothing was said yet in this conversation"
            )
        return self.talk.dialogue.conversation


def describe(setup: Setup, engine: Engine, model: StoredModel, what: commands.What) -> str:
    """What /show shows of a model and of how it is asked."""
    match what:
        case "parameters":
            options = replace(engine.defaults, **setup.options)
            return "\n".join(
                f"{name:19} {getattr(options, name)!r}{'  (set)' if name in setup.options else ''}"
                for name in parameters.PARAMETERS
            )
        case "system":
            return setup.system or "There is no system prompt; /set system TEXT sets one."
        case "template":
            from model_store.tokenizers.chat_template import chat_template

            return chat_template(model.folder) or f"{model.name} has no chat template: it continues text."
        case "license":
            from model_store.checkpoint.card import licence

            return licence(model.folder) or f"{model.name} says nothing about its licence."
        case "modelfile":
            return MODELFILE
    placement = engine.placement
    rows = {
        "model": model.name,
        "family": model.family,
        "parameters": f"{model.parameters:,}",
        "context": f"{engine.context_length:,} tokens",
        "kind": "answers messages" if engine.can_chat else "continues text (base model)",
        "runs on": f"{placement.backend} {placement.device} {placement.precision}",
    }
    return "\n".join(f"{name:10}  {value}" for name, value in rows.items())
