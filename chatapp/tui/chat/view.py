"""The screen as slash commands see it, the sampling drawer, and actions on saved conversations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from chatapp.commands import actions, run
from chatapp.commands.parse import line_of
from chatapp.text.errors import InputError
from chatapp.tui.chat.reply import BUSY
from chatapp.tui.errors import telling
from chatapp.tui.widgets.windows import AskLine, NoteScreen

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue, WhenFull
    from chatapp.conversation.tools.toolset import Toolset
    from chatapp.generation import Engine, Options
    from chatapp.generation.decoding.preview import Preview
    from chatapp.history import Conversation, Found, History, Message
    from chatapp.tui.chat.conversations import Conversations
    from chatapp.tui.chat.pane import Pane
    from chatapp.workspace import Opened


DRAFT = "The draft"
"""The title of a conversation without messages."""


class ScreenView:
    """The `View` of the chat screen, for slash commands and the screens over it."""

    def __init__(self, screen: Conversations, use: Callable[[str], Awaitable[None]]) -> None:
        """`use` switches to another model."""
        self.screen, self.workspace, self.use = screen, screen.workspace, use
        self.give_back: Callable[[], object] = lambda: None
        """Puts the line being run back into the prompt."""

    def run_line(self, line: str, give_back: Callable[[str], object] = lambda line: None) -> None:
        """Run a slash command; if it fails, the user is told and the line is put back."""
        self.give_back, before = partial(give_back, line), self.give_back
        with telling(self.screen):
            command = actions.parse(line)
            assert command is not None, "the prompt sends texts as messages"
            run.run(command, self)
            self.give_back = before
            self.screen.shown(self.screen.pane)
            self.screen.list_conversations()
            return
        self.give_back = before
        give_back(line)

    # The methods of View, for slash commands

    @property
    def dialogue(self) -> Dialogue:
        """The conversation that is shown."""
        if self.screen.pane.dialogue is None:
            raise InputError("the conversation is not open yet; try again in a moment")
        return self.screen.pane.dialogue

    @property
    def opened(self) -> Opened:
        """The open model."""
        if self.screen.pane.opened is None:
            raise InputError(self.screen.pane.failure or "the model is still loading; try again in a moment")
        return self.screen.pane.opened

    @property
    def engine(self) -> Engine:
        """The engine of the open model."""
        return self.opened.engine

    @property
    def model(self) -> str:
        """The name of the conversation's model."""
        return self.screen.pane.choice.model

    def open_history(self) -> History | None:
        if not self.screen.history:
            self.say("Conversations are not being saved: there is no history.")
        return self.screen.history

    def say(self, text: str, brief: str = "") -> None:
        self.screen.notify(brief or text, markup=False)

    def show_text(self, title: str, text: str) -> None:
        self.screen.app.push_screen(NoteScreen(title, text))

    def open(self, place: str, text: Callable[[], str]) -> None:
        self.screen.call_next(self.screen.run_action, place)

    def work(self, act: Callable[[], str]) -> None:
        """Run something slow in a thread and show the text it returns."""
        give_back = self.give_back

        def do() -> None:
            with telling(self.screen):
                self.screen.notify(act(), markup=False, timeout=10)
                self.screen.call_later(self.screen.list_conversations)
                return
            self.screen.call_later(give_back)

        self.screen.run_worker(do, thread=True, group="behind")

    def begin(self, kept: bool | None = None) -> None:
        self.screen.call_next(self.screen.action_new if kept is not False else self.screen.begin_unkept)
        if kept:
            self.say(
                "This conversation is saved."
                if self.screen.history
                else "This conversation is not saved: there is no history."
            )

    def use_model(self, name: str) -> None:
        self.screen.call_next(self.use, self.workspace.find_model(name))

    def again(self) -> None:
        self.need_question()
        self.screen.call_next(self.screen.pane.again)

    def resume(self) -> None:
        self.need_question()
        self.screen.call_next(self.screen.pane.resume)

    def need_question(self) -> None:
        """Raise InputError in a chat without a question; a text needs none."""
        if self.screen.pane.kind == "chat":
            run.last_message(self, "user")

    def edit(self, text: str) -> None:
        pane = self.screen.pane
        if pane.kind != "chat":
            raise InputError("/edit is for a question in a chat; edit this text directly")
        asked = run.last_message(self, "user")
        pane.outbox.edit(asked, line_of(text) if text else None)
        if text:
            pane.prompt.send()

    def copy(self, text: Callable[[], str]) -> None:
        self.screen.app.copy_to_clipboard(text())

    def tell_timings(self, wanted: bool) -> None:
        self.say("Timings are always shown below the conversation; ctrl+l shows all of them.")

    def choose_theme(self, name: str) -> None:
        known = sorted(self.screen.app.available_themes)
        if name and name not in known:
            raise InputError(f"there is no theme {name!r}; choose from {', '.join(known)}")
        self.open(f"app.keep_theme({name!r})" if name else "app.theme", lambda: "")

    def describe_tools(self, dialogue: Dialogue) -> tuple[str, str]:
        """The conversation's tool servers for the status line, and the machines that text goes to."""
        from chatapp.commands.tools import find_destinations

        names, away = dialogue.setup.tools, find_destinations(dialogue)
        told = f" · tools: {', '.join(names)}" if names else ""
        return told + (f" (text goes to {away})" if away else ""), away

    def find_tools(self) -> Toolset:
        toolset = self.dialogue.toolset
        assert toolset
        return toolset

    def leave(self) -> None:
        self.screen.app.exit()

    # Sampling

    def typed(self) -> str:
        pane = self.screen.pane
        asked = pane.page.last("user")
        return pane.box.text or (asked.text if asked else "")

    async def several(self, n: int) -> None:
        await self.screen.pane.several(n)

    async def toggle_drawer(self) -> None:
        """Show and focus the drawer, or hide it if it has the focus."""
        if self.screen.drawer:
            if self.screen.drawer.has_focus:
                return await self.close_drawer()
            self.screen.drawer.focus()
        else:
            from chatapp.tui.sampling.drawer import SamplingDrawer

            defaults, chosen = find_options(self.engine, self.dialogue)
            self.screen.drawer = SamplingDrawer(
                defaults, chosen, when_full=self.dialogue.setup.when_full, look=self.look
            )
            self.screen.add_class("-sampling")
            await self.screen.middle.mount(self.screen.drawer)
            self.screen.drawer.focus()

    async def close_drawer(self) -> None:
        """Hide the drawer."""
        if self.screen.drawer:
            await self.screen.drawer.remove()
            self.screen.drawer = None
            self.screen.remove_class("-sampling")
            self.screen.pane.box.focus()

    def show_setup(self) -> None:
        """Show the current conversation's options in the drawer."""
        opened, dialogue = self.screen.pane.opened, self.screen.pane.dialogue
        if self.screen.drawer and opened and dialogue:
            self.screen.drawer.take(*find_options(opened.engine, dialogue), dialogue.setup.when_full)

    def look(self, options: Options) -> Preview | None:
        """Preview the next token under these options; called in a thread. None while the model writes."""
        pane = self.screen.pane
        if not pane.opened or not pane.dialogue or pane.reply:
            return None
        if not (prompt := pane.page.prompt(pane.opened.engine, lambda: pane.prompt.text)):
            return None
        found = pane.opened.engine.next_token(
            prompt, wanted=lambda: not pane.reply, file_start=bool(options.file_start)
        )
        return found.under(options) if found else None

    def choose_options(self, options: Mapping[str, Any]) -> None:  # Any: what Options takes
        """Use these options from now on."""
        if dialogue := self.screen.pane.dialogue:
            dialogue.change(replace(dialogue.setup, options=dict(options)))
            self.show_setup()

    def choose_when_full(self, value: WhenFull) -> None:
        """Set what happens when the context is full."""
        if dialogue := self.screen.pane.dialogue:
            dialogue.change(replace(dialogue.setup, when_full=value))

    # Actions on a message

    def copy_block(self, message: Message) -> None:
        """Copy the last code block of a message."""
        from chatapp.text.clipboard import code_blocks

        if blocks := code_blocks(run.find_text(message)):
            self.screen.app.copy_to_clipboard(blocks[-1])
            if len(blocks) > 1:
                self.say(f"The last of {len(blocks)} code blocks; /copy N copies another.")
        else:
            self.say("This answer has no code block.")

    async def fork(self, pane: Pane, message: Message) -> None:
        """Begin a new conversation with the messages up to this one."""
        history = self.open_history()
        if history and pane.dialogue and pane.dialogue.conversation is not None:
            branch = list(pane.dialogue.branch())
            kept = branch[: [one.id for one in branch].index(message.id) + 1]
            await self.screen.open_conversation(history.fork(pane.dialogue.conversation, kept))

    # Actions on a saved conversation

    async def manage(self, action: str, number: int | None) -> None:
        """Run an action of the list on a conversation."""
        screen, history = self.screen, self.screen.history
        if number is not None and number < 0:
            if action != "open":
                return self.say("This conversation is not saved. It is gone when you quit.")
            pane = next((pane for pane in screen.panes if pane.number == number), screen.pane)
            await screen.show(pane)
            return await screen.give_model(pane)
        if history and action == "undelete":
            return self.restore(history)
        if not history or number is None:
            return
        conversation = history.get(number)
        if not conversation.messages and action == "export":
            return self.say("This conversation is empty.")
        match action:
            case "open":
                await screen.open_conversation(conversation)
                if screen.sidebar and screen.size.width < 100:  # there it covers the page
                    screen.sidebar.display = False
            case "rename":
                self.rename(history, conversation)
            case "pin":
                history.pin(number, not conversation.pinned)
                self.say(f"{conversation.title or DRAFT} is {'no longer pinned' if conversation.pinned else 'pinned'}.")
            case "delete":
                await self.delete(history, conversation)
            case "export":
                self.export(history, conversation)

    def ask(self, question: str, act: Callable[[str], None], value: str = "") -> None:
        """Ask for a line of text, and call `act` with it unless the user cancels."""

        def take(text: str | None) -> None:
            with telling(self.screen):
                if text:
                    act(text)

        self.screen.app.push_screen(AskLine(question, value), take)

    def rename(self, history: History, conversation: Conversation) -> None:
        """Ask for a new title."""

        def take(title: str) -> None:
            history.rename(conversation.id, title)
            self.screen.list_conversations()

        self.ask("New title", take, conversation.title)

    async def delete(self, history: History, conversation: Conversation) -> None:
        """Delete a conversation; it can be restored."""
        screen = self.screen
        shown = [one for one in screen.panes if one.dialogue and one.dialogue.conversation == conversation.id]
        if any(pane.busy for pane in shown):
            return self.say(BUSY)
        sidebar = screen.sidebar if screen.sidebar and screen.sidebar.has_focus else None
        history.delete(conversation.id)
        for pane in shown:
            if pane is screen.pane:
                await screen.action_new()
            if pane in screen.panes:
                screen.panes.remove(pane)
                await pane.remove()
        if screen.sidebar:
            screen.sidebar.note = "Deleted. u brings it back."
        self.say(f"{conversation.title or DRAFT} is deleted. u in the list brings it back.")
        if sidebar:
            sidebar.focus()

    def restore(self, history: History) -> None:
        """Restore the conversation that was deleted last."""
        back = history.undelete()
        if back and self.screen.sidebar:
            self.screen.sidebar.note = ""
        self.say(f"{back[0].title or DRAFT} is back." if back else "There is nothing to restore.")

    def export(self, history: History, conversation: Conversation) -> None:
        """Ask for a file name, and export to it in the form of its ending."""
        from chatapp.conversation import files

        question = "Export to a file: .md for Markdown, .html for a page, .json to import it again"
        name = files.free_name(conversation.title, "markdown").absolute()
        write = partial(run.export_conversation, self, history, conversation.id, None)
        self.ask(question, write, str(name))

    def import_file(self) -> None:
        """Ask for a file, and import its conversations."""
        if self.open_history():
            question = "Import from a file of chatapp, ChatGPT, Claude, Open WebUI or Ollama"
            self.ask(question, partial(run.import_file, self))

    async def go_to(self, found: Found) -> None:
        with telling(self.screen):
            pane = await self.screen.open_conversation(found.conversation)
            if found.message is not None:
                await pane.page.reach(found.message)


def find_options(engine: Engine, dialogue: Dialogue) -> tuple[Options, Mapping[str, Any]]:  # Any: what Options takes
    """The default options of a conversation and the chosen ones; a completion always has a token limit."""
    from chatapp.conversation.conversation import limit

    chosen = dialogue.setup.options
    if dialogue.kind == "chat":
        return engine.defaults, chosen
    return limit(engine.defaults), {name: value for name, value in chosen.items() if name != "max_tokens" or value}
