"""Slash commands on the screen: each does what its key or its line does elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatapp.commands import commands, parse
from chatapp.generation.text.thinking import split
from chatapp.text.errors import InputError
from chatapp.tui.chat import upkeep
from chatapp.tui.errors import telling
from chatapp.tui.models import controller
from chatapp.tui.sampling import controller as sampling
from chatapp.tui.widgets.note_screen import NoteScreen

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue
    from chatapp.history import Message
    from chatapp.tui.chat.screen import ChatScreen


async def obey(screen: ChatScreen, line: str) -> bool:
    """Do what a line says; whether it could be done, which is told where not."""
    with telling(screen):
        command = parse.parse(line)
        assert command is not None, "the prompt sends texts as messages"
        await do(screen, command)
        return True
    return False


async def do(screen: ChatScreen, command: commands.Command) -> None:
    """Do what a command says."""
    pane = screen.pane
    match command:
        case commands.SetParameter(name, value):
            setup = opened(screen).setup
            sampling.choose_options(screen, {**setup.options, name: value})
            sampling.show_setup(screen)
            screen.notify(f"{name} is {value!r} from the next answer on.", markup=False)
        case commands.SetSystem(text):
            opened(screen)
            sampling.choose_system(screen, text)
        case commands.SetThinking(on):
            switch_thinking(screen, on)
        case commands.SetHistory(kept):
            await screen.begin_unkept() if not kept else await screen.action_new()
            if kept:
                screen.notify("This conversation is kept." if screen.history else "There is no history to keep it in.")
        case commands.Show(what):
            screen.app.push_screen(NoteScreen(f"/show {what}", describe(screen, what)))
        case commands.Load(model):
            await controller.use(screen, screen.workspace.open_store().get(model).name)
        case commands.Models():
            screen.action_models()
        case commands.Save(title):
            if history := screen.kept():
                history.rename(number(screen), title)
                screen.list_conversations()
                screen.notify(f"This conversation is called {title}.", markup=False)
        case commands.Clear():
            await screen.action_new()
        case commands.Leave():
            screen.app.exit()
        case commands.Help("shortcuts"):
            screen.app.run_worker(screen.app.run_action("help"))
        case commands.Help(about):
            screen.app.push_screen(NoteScreen("Commands", parse.explain(about)))
        case commands.Again():
            await pane.again()
        case commands.Continue():
            await pane.resume()
        case commands.Edit(text):
            pane.outbox.edit(last(screen, "user"))
            if text:
                pane.prompt.draft = text
        case commands.Copy(block):
            copy(screen, last(screen, "assistant"), block)
        case commands.ChooseTheme(name):
            await screen.app.run_action(f"keep_theme({name!r})" if name else "theme")
        case commands.Preset(name):
            take_preset(screen, name)
        case commands.Search(words):
            if history := screen.kept():
                upkeep.search(screen, history, words)
        case commands.Import(path):
            if history := screen.kept():
                upkeep.bring_in(screen, history, path)
        case commands.Export(form, path):
            if history := screen.kept():
                upkeep.write(screen, history, number(screen), form, path)


def opened(screen: ChatScreen) -> Dialogue:
    """The conversation that is shown."""
    if screen.pane.dialogue is None:
        raise InputError("the conversation is not open yet; try again in a moment")
    return screen.pane.dialogue


def switch_thinking(screen: ChatScreen, on: bool) -> None:
    """Let the model think before it answers, or answer at once, where that can be switched."""
    from chatapp.conversation.setup import THINKS, check_thinking

    if screen.pane.opened is None:
        raise InputError("the model is not open yet; try again in a moment")
    setup = opened(screen).setup
    check_thinking(screen.pane.opened.engine, screen.pane.opened.name, {"think": on})
    sampling.choose_options(screen, {**setup.options, "think": on})
    screen.notify(THINKS[on])


def number(screen: ChatScreen) -> int:
    """The number of this conversation in the history."""
    found = screen.pane.dialogue.conversation if screen.pane.dialogue else None
    if found is None:
        raise InputError("nothing was said yet in this conversation")
    return found


def last(screen: ChatScreen, role: str) -> Message:
    """The last message of the user's or the model's."""
    branch = screen.pane.dialogue.branch() if screen.pane.dialogue else ()
    found = next((message for message in reversed(branch) if message.role == role), None)
    if found is None:
        raise InputError("nothing was said yet in this conversation")
    return found


def copy(screen: ChatScreen, said: Message, block: int | None = None) -> None:
    """Copy a message, or one of its blocks of code."""
    if block is None:
        screen.app.copy(split(said.text).answer if said.role == "assistant" else said.text)
        return
    from chatapp.text.clipboard import code_blocks

    blocks = code_blocks(split(said.text).answer)
    if not 0 < block <= len(blocks):
        raise InputError(f"there is no block {block}: this answer has {len(blocks)}")
    screen.app.copy(blocks[block - 1].code)


def copy_code(screen: ChatScreen, said: Message) -> None:
    """Copy a block of code; of several, the last one."""
    from chatapp.text.clipboard import code_blocks

    if blocks := code_blocks(split(said.text).answer):
        screen.app.copy(blocks[-1].code)
        if len(blocks) > 1:
            screen.notify(f"The last of {len(blocks)} blocks: /copy N takes another.")
    else:
        screen.notify("There is no block of code in this answer.")


def take_preset(screen: ChatScreen, name: str) -> None:
    """Take the options of a preset, or let the user choose one."""
    if not name:
        return sampling.pick_preset(screen)
    from chatapp.settings import presets

    found = presets.find(screen.workspace.home / "presets.toml", name)
    if there := sampling.ready(screen):
        sampling.choose_options(screen, found.over(there[1].setup.options))
        sampling.show_setup(screen)
        screen.notify(f"Answers are {found.name} from now on.", markup=False)


def describe(screen: ChatScreen, what: commands.What) -> str:
    """What /show shows."""
    from chatapp.commands import steering

    setup, pane = opened(screen).setup, screen.pane
    if not pane.opened:
        raise InputError("the model is not open yet; try again in a moment")
    return steering.describe(setup, pane.opened.engine, screen.workspace.open_store().get(pane.choice.model), what)
