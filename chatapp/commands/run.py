"""What slash commands do, each given a view: the line-mode loop or the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from chatapp.commands.commands import PRESETS, SEARCH, place_at
from chatapp.text.errors import InputError

if TYPE_CHECKING:
    from chatapp.commands.commands import Command
    from chatapp.conversation import Dialogue
    from chatapp.conversation.files import ExportForm
    from chatapp.conversation.tools.toolset import Toolset
    from chatapp.generation import Engine
    from chatapp.generation.text.thinking import Think
    from chatapp.history import History, Message, Role
    from chatapp.workspace import Workspace

Topic = Literal["info", "parameters", "system", "prompt", "template", "license", "modelfile"]
MODELFILE = "models here have no Modelfile; for the same facts: /show info, /show parameters, /show template"
SHORTCUTS = """\
Ctrl+C  stops the answer
Ctrl+D  quits
\"\"\"     begins and ends a text of several lines"""


class View(Protocol):
    """A front that shows a conversation; its errors are shown to the user."""

    @property
    def dialogue(self) -> Dialogue: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def model(self) -> str: ...
    @property
    def workspace(self) -> Workspace: ...

    def open_history(self) -> History | None:
        """The history; None if there is none, after telling the user."""

    def say(self, text: str, brief: str = "") -> None:
        """Show a line or two; a front with passing notices shows `brief` instead."""

    def show_text(self, title: str, text: str) -> None:
        """Show a longer text."""

    def open(self, place: str, text: Callable[[], str]) -> None:
        """Open a screen by its action; in line mode, print the text instead."""

    def work(self, act: Callable[[], str]) -> None:
        """Run something slow and show the text it returns."""

    def begin(self, kept: bool | None = None) -> None:
        """Begin a new conversation, saved or not; None: saved as the last one was."""

    def use_model(self, name: str) -> None:
        """Continue the conversation with another model."""

    def again(self) -> None:
        """Answer the last question again."""

    def resume(self) -> None:
        """Continue the last answer where it was cut off."""

    def edit(self, text: str) -> None:
        """Replace the last question; without a text, let the user edit it."""

    def copy(self, text: Callable[[], str]) -> None:
        """Copy a text to the clipboard."""

    def tell_timings(self, wanted: bool) -> None:
        """Tell the timings of each answer, or no longer."""

    def choose_theme(self, name: str) -> None:
        """Change the theme; without a name, let the user choose."""

    def find_tools(self) -> Toolset:
        """The tools of this conversation."""

    def leave(self) -> None:
        """Leave chatapp."""


def run(command: Command, view: View) -> None:
    """Run a command: one of the functions below, or the view's method of that name."""
    act = getattr(view, command.act) if isinstance(command.act, str) else partial(command.act, view)
    act(*command.arguments)


# The setup of answers


def set_option(view: View, name: str, value: Any) -> None:  # Any: each option has its own type
    """Set an option, from the next answer on."""
    from chatapp.commands.parameters import describe_value

    change_options(view, {**view.dialogue.setup.options, name: value})
    view.say(f"{name} is {describe_value(name, value)} from the next answer on.")


def set_system(view: View, text: str) -> None:
    """Set the system prompt; @NAME takes a saved one."""
    from chatapp.settings import system_prompts

    use_system(view, system_prompts.resolve(view.workspace.home / "prompts", text))


def use_system(view: View, text: str) -> None:
    """Set the system prompt; an empty one removes it."""
    view.dialogue.change(replace(view.dialogue.setup, system=text))
    view.say("System prompt set." if text else "System prompt removed.")


def set_thinking(view: View, think: Think) -> None:
    """Set whether, or with what effort, the model thinks before it answers."""
    from chatapp.conversation.setup import check_thinking, tell_thinking

    check_thinking(view.engine, view.model, {"think": think})
    change_options(view, {**view.dialogue.setup.options, "think": think})
    view.say(tell_thinking(think))


def choose_preset(view: View, name: str) -> None:
    """Use a preset's options; without a name, show the presets."""
    from chatapp.settings import presets

    path = view.workspace.home / "presets.toml"
    if not name:
        return view.open(place_at(PRESETS), lambda: "\n".join(presets.read(path)))
    found = presets.find(path, name)
    change_options(view, found.over(view.dialogue.setup.options))
    brief = f"The preset {found.name} is in use."
    view.say(f"The options are those of {found.name} from the next answer on.", brief)


def change_options(view: View, options: Mapping[str, Any]) -> None:  # Any: what Options takes
    """Answer with these options from now on."""
    view.dialogue.change(replace(view.dialogue.setup, options=dict(options)))


# The model


def choose_model(view: View, name: str = "") -> None:
    """Use another model; without a name, show the models."""

    def names() -> str:
        found, broken = view.workspace.open_store().survey()
        return "\n".join([*(model.name for model in found), *view.workspace.list_remote_models(), *broken.values()])

    if name:
        view.use_model(name)
    else:
        view.open("screen.models", names)


def about(view: View) -> None:
    """Show chatapp's version, its parts and their licences."""
    from chatapp import __version__
    from chatapp.text.about import tell

    view.show_text("About", tell(__version__))


def show(view: View, topic: Topic) -> None:
    """Show a topic of /show."""
    view.show_text(f"/show {topic}", describe(view, topic))


def describe(view: View, topic: Topic) -> str:
    """The text of a topic of /show."""
    setup, engine = view.dialogue.setup, view.engine
    match topic:
        case "parameters":
            from chatapp.commands.parameters import PARAMETERS, describe_value

            options = replace(engine.defaults, **setup.options)
            rows = ((name, getattr(options, name), "  (set)" * (name in setup.options)) for name in PARAMETERS)
            width = max(map(len, PARAMETERS))
            return "\n".join(f"{name:{width}} {describe_value(name, value)}{mark}" for name, value, mark in rows)
        case "system":
            return setup.system or "No system prompt; to set one: /set system TEXT"
        case "prompt":
            return describe_prompt(view)
        case "modelfile":
            return MODELFILE
    if view.workspace.split_remote(view.model):
        return f"{view.model} answers on {engine.placement.device} ({engine.placement.precision}): only it knows that."
    model = view.workspace.open_store().get(view.model)
    match topic:
        case "template":
            from model_store.tokenizers.chat_template import chat_template

            return chat_template(model.folder) or f"{model.name} has no chat template: it continues text."
        case "license":
            from model_store.checkpoint.card import licence

            return licence(model.folder) or f"{model.name} does not state its licence."
    from chatapp.models.facts import Fact, describe_kind, lay_out

    here = replace(model, context_length=engine.context_length)
    return lay_out([Fact("model", model.name), *describe_kind(here), Fact("runs on", str(engine.placement))])


def describe_prompt(view: View) -> str:
    """What the model read before its last answer, as its chat template writes it."""
    from chatapp.conversation import context_window

    said = list(view.dialogue.branch())
    while said and said[-1].role == "assistant":
        said.pop()
    if not said or not view.engine.can_chat:
        return (
            "There is no question yet." if view.engine.can_chat else "A model that continues text reads it unchanged."
        )
    return view.engine.render_chat(context_window.prompt(view.engine, said, system=view.dialogue.setup.system))


# Messages


def copy(view: View, block: int | None) -> None:
    """Copy the last answer, or its n-th code block, counted from 1."""
    view.copy(lambda: find_text(last_message(view, "assistant"), block))


def find_text(message: Message, block: int | None = None) -> str:
    """The text of a message without its thinking, or its n-th code block."""
    from chatapp.history.exports import split_thinking, strip_calls
    from chatapp.text.clipboard import code_blocks

    text = split_thinking(strip_calls(message))["text"]
    if block is None:
        return text
    blocks = code_blocks(text)
    if block > len(blocks):
        raise InputError(f"there is no code block {block}: this answer has {len(blocks)}")
    return blocks[block - 1]


def last_message(view: View, role: Role) -> Message:
    """The last message of this role; InputError if there is none."""
    found = view.dialogue.last(role)
    if found is None:
        raise InputError("there is no question yet" if role == "user" else "there is no answer yet")
    return found


# The history


def rename(view: View, title: str) -> None:
    """Give the conversation a title."""
    if history := view.open_history():
        history.rename(number_of(view), title)
        view.say(f"This conversation is called {title}.")


def export(view: View, form: ExportForm | None, path: str) -> None:
    """Export the conversation; without a path, to a file named after its title."""
    if history := view.open_history():
        export_conversation(view, history, number_of(view), form, path)


def export_conversation(view: View, history: History, number: int, form: ExportForm | None, path: str) -> None:
    """Export one conversation of the history to a new file."""
    from chatapp.conversation import files

    view.work(lambda: f"Written to {files.export(history, number, form, path)}.")


def import_file(view: View, path: str) -> None:
    """Import the conversations of a file."""
    from chatapp.conversation import files

    if history := view.open_history():
        view.work(lambda: files.describe_import(files.import_file(history, path)))


def search(view: View, words: str) -> None:
    """Search the messages of all conversations."""
    if history := view.open_history():

        def found() -> str:
            lines = ((one.conversation, one.snippet) for one in history.search(words))
            texts = (f"{one.id}  {' '.join(f'{one.title}: {snippet}'.split())}" for one, snippet in lines)
            return "\n".join(texts) or "Nothing found."

        view.open(place_at(SEARCH, words), found)


def number_of(view: View) -> int:
    """The conversation's id in the history; InputError if it is not saved."""
    if view.dialogue.conversation is None:
        said = bool(view.dialogue.branch())
        raise InputError("this conversation is not saved" if said else "this conversation is empty")
    return view.dialogue.conversation
