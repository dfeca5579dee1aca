"""The chat screen: conversations, and the actions for its keys."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget

from chatapp.text.errors import one_line
from chatapp.tui.chat.conversations import Conversations
from chatapp.tui.chat.reply import BUSY
from chatapp.tui.errors import telling
from chatapp.tui.keys.bindings import bindings
from chatapp.tui.keys.key_line import Keys
from chatapp.tui.models.lines import JobLine, OfferLine
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatapp.conversation import Setup
    from chatapp.generation import Token
    from chatapp.generation.beam_tree import Beam
    from chatapp.history import Kind, Message
    from chatapp.tui.answers.columns import Columns
    from chatapp.tui.chat.message import MessageAction, Said
    from chatapp.tui.chat.models import Models
    from chatapp.tui.chat.pane import Pane
    from chatapp.tui.chat.sidebar import Sidebar
    from chatapp.tui.chat.view import ScreenView
    from chatapp.tui.opening import Opening
    from chatapp.tui.prompt import Prompt
    from chatapp.tui.sampling.drawer import SamplingDrawer
    from chatapp.tui.widgets.vim_area import VimArea


class ChatScreen(Conversations):
    """The chat screen; what is not needed at once is imported when its key is pressed."""

    BINDING_GROUP_TITLE = "Conversation"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", key_display="esc", id="chat.back"),
        Binding("ctrl+c", "interrupt", "Stop or copy", show=False, id="chat.interrupt"),
        *bindings("screen"),
    ]

    def __init__(self, workspace: Workspace, model: str, *, setup: Setup | None = None, resumes: bool = True) -> None:
        super().__init__(workspace, model, setup=setup, resumes=resumes)
        self.offer_line, self.job_line = OfferLine(), JobLine()
        self.shell_known = False
        """Whether the user has confirmed running shell commands."""

    @cached_property
    def view(self) -> ScreenView:
        """The screen as slash commands see it; created on first use, to speed up the first frame."""
        from chatapp.tui.chat.view import ScreenView

        return ScreenView(self, lambda name: self.models.use(name))

    def compose(self) -> ComposeResult:
        with self.middle:
            yield self.stage
        yield self.offer_line
        with Horizontal(id="foot"):
            yield Keys()
            yield self.job_line

    @cached_property
    def models(self) -> Models:
        """The models; created on first use."""
        from chatapp.tui.chat.models import Models

        return Models(self, self.job_line)

    def shut_down(self, seconds: float) -> bool:
        if "models" in vars(self):  # only if the property was used
            self.models.jobs.close(seconds)
        return super().shut_down(seconds)

    # Offers

    def begin_idle_work(self) -> None:
        self.look_for_offer()

    @work(thread=True, group="offer")
    def look_for_offer(self) -> None:
        """Look for something to offer, such as a download; its errors are ignored."""
        from chatapp.models import suggestion

        try:
            found = suggestion.suggest(self.workspace.open_store(), self.workspace.home)
        except Exception as error:
            if not one_line(error):
                raise
            return
        if found:
            self.app.call_from_thread(setattr, self.offer_line, "offer", found)

    def action_accept(self) -> None:
        self.answer_offer(accepted=True)

    def action_hide(self) -> None:
        self.answer_offer(accepted=False)

    def answer_offer(self, *, accepted: bool) -> None:
        """Accept or decline the offer."""
        if offer := self.offer_line.offer:
            self.offer_line.offer = None
            self.models.answer_offer(offer, accepted=accepted)

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        writing = self.pane.busy
        if action == "stop":
            return writing
        if action == "back":
            return not self.at_home or (self.pane.outbox.editing is not None and not writing)
        if action == "continue":
            return self.pane.kind == "completion" or self.pane.begun
        if action in ("accept", "hide"):
            return self.is_mounted and self.offer_line.offer is not None
        return not writing if action == "again" else True

    @property
    def at_home(self) -> bool:
        """Whether the focus is on the prompt."""
        return self.pane.box.has_focus or self.focused is None

    def action_stop(self) -> None:
        """Stop the reply."""
        self.pane.stop()

    def action_back(self) -> None:
        """Return to the prompt, or leave an edit."""
        if self.at_home:
            self.pane.outbox.leave_edit()
        elif self.sidebar and self.sidebar.has_focus and self.size.width < 100:
            self.sidebar.display = False
        self.pane.box.focus()

    def action_interrupt(self) -> None:
        """Ctrl+C never quits: it copies a selection, stops the reply, or says how to leave."""
        if selected := self.get_selected_text():
            self.app.copy_to_clipboard(selected)
            self.clear_selection()  # so that the next Ctrl+C stops the reply
        elif self.pane.busy:
            self.pane.stop()
        else:
            self.notify("ctrl+q quits chatapp.")

    async def action_again(self) -> None:
        """Write another version of the last answer."""
        await self.pane.again()

    async def action_continue(self) -> None:
        """Continue the last answer where it was cut off."""
        await self.pane.resume()

    async def action_kind(self, kind: Kind) -> None:
        """Switch between completion and chat, in a new conversation if this one has messages."""
        opened = self.pane.opened
        if kind == "chat" and opened and not opened.engine.can_chat:
            self.notify(f"{opened.name} has no chat template: it continues text.", severity="warning", markup=False)
        elif self.pane.busy:
            self.notify(BUSY)
        elif kind != self.pane.kind:
            if self.pane.begun:
                await self.action_new()
            await self.pane.change_kind(kind)

    def action_heat(self) -> None:
        """Show the probability of each token."""
        self.pane.outbox.show_tip("")
        with telling(self):
            self.show_heat(None)

    def on_columns_heat_wanted(self, message: Columns.HeatWanted) -> None:
        if reply := self.pane.newest:
            self.show_heat(reply.turn.replies[message.index], message.index)

    def action_latencies(self) -> None:
        """Show the latency of each token."""
        with telling(self):
            self.show_latencies(None)

    def show_heat(self, said: Message | None, index: int = 0) -> None:
        """Show the token probabilities of an answer; None: the one in progress, or the last."""
        from chatapp.tui.insight.heat import HeatScreen

        pane = self.pane
        reply = pane.reply
        writing = reply is not None and (said is None or said.id == reply.turn.replies[index].id)
        said = said or pane.page.last("assistant")
        if not pane.dialogue or not (writing or said):
            return pane.notify("There is no answer yet.")
        tokens: Sequence[Token] = ()
        if pane.newest and (writing or pane.columns):
            tokens = pane.newest.tokens[index]
        elif said:
            reached = pane.page.reached()
            there = reached is not None and reached.reply.id == said.id
            tokens = reached.tokens if reached and there else pane.dialogue.tokens(said.id)

        async def take(chosen: tuple[Token, ...] | None) -> None:
            if chosen and said:
                await pane.go_on(said, chosen)

        if not tokens and not writing:
            return pane.notify(
                "No probabilities were saved with this answer: it was imported, or written outside the screen."
            )
        self.app.push_screen(HeatScreen(tokens, lambda: writing and pane.reply is reply, pane.stop), take)

    def action_beams(self) -> None:
        """Show the tree of the current or last beam search; a chosen beam becomes the answer."""
        from chatapp.tui.insight.beams import BeamScreen

        pane, reply = self.pane, self.pane.newest
        if not reply or not pane.dialogue or reply.turn.options.num_beams == 1:
            return self.notify("No beam search yet: set num_beams first (^S, or /set parameter num_beams 4).")
        dialogue, turn = pane.dialogue, reply.turn

        async def take(beam: Beam | None) -> None:
            if beam and pane.reply is reply:
                turn.chosen = beam
                pane.stop()
            elif beam and pane.opened:
                engine, said = pane.opened.engine, dialogue.message(turn.replies[0].id)
                begun = [token.id for token in turn.tokens]
                spelt = beam.spell(lambda own: engine.text_of([*begun, *own], turn.options.think))
                own = spelt[:-1] if beam.state == "finished" and not beam.text else spelt  # drop the end token
                await pane.go_on(said, [*turn.tokens, *own])

        self.app.push_screen(BeamScreen(turn.beams, lambda: pane.reply is reply, pane.stop), take)

    def show_latencies(self, said: Message | None) -> None:
        """Show the token latencies of an answer; None: the last one."""
        from chatapp.evaluation.measurements import Answer
        from chatapp.tui.insight.latencies import LatencyScreen

        pane = self.pane
        said = said or pane.page.last("assistant")
        if not pane.dialogue or not said:
            return pane.notify("There is no answer yet.")
        dialogue, reply = pane.dialogue, pane.reply
        writing = [one.id for one in reply.turn.replies] if reply else []
        if reply and said.id in writing:
            found = Answer.of(None, reply.tokens[writing.index(said.id)], model=pane.choice.model)
        else:
            found = Answer.of(said.usage, dialogue.tokens(said.id), dialogue.latencies(said.id), model=said.model)
        self.app.push_screen(LatencyScreen(found))

    async def action_sampling(self) -> None:
        """Show and focus the sampling drawer, or hide it if it has the focus."""
        with telling(self):
            await self.view.toggle_drawer()

    def action_over(self, place: str, *arguments: object) -> None:
        """Open a screen over the chat, given as `module:Class` below chatapp.tui."""
        module, _, name = place.partition(":")
        with telling(self):
            opening: Opening = getattr(import_module(f"chatapp.tui.{module}"), name).over(self.view, *arguments)
            self.app.push_screen(*opening)

    def action_models(self, downloading: bool = False) -> None:
        """Open the list of models; with `downloading`, a recommended one is highlighted."""
        self.models.open(downloading=downloading)

    def action_message(self, action: MessageAction) -> None:
        """Run a message action on the focused message, or on the last one it applies to."""
        from chatapp.tui.chat.message import Said

        marked, pane = self.focused, self.pane
        last = pane.page.last("user" if action == "edit" else "assistant")
        said = marked.said if isinstance(marked, Said) else last
        if said and (pane.kind == "chat" or action in ("copy", "code", "fork")):
            pane.post_message(Said.Wanted(action, said))
        else:
            self.notify("There is no message here for that.")

    def action_open(self) -> None:
        """Unfold or fold the attachments of the focused message, or of the last one that has some."""
        from chatapp.tui.chat.message import Question

        questions = [view for view in self.pane.query(Question) if view.folded]
        if not questions:
            return self.notify("No message here has an attachment or a long paste.")
        (self.focused if self.focused in questions else questions[-1]).action_open()

    async def action_version(self, step: int) -> None:
        """Show an older or newer version of a message, or of the model's last reply in a text."""
        if self.pane.kind == "chat":
            self.action_message("older" if step < 0 else "newer")
        else:
            await self.pane.completion_page.walk(step)

    async def action_conversation(self, action: str) -> None:
        """Rename, pin, delete or export the conversation shown, or restore the one deleted last."""
        number = None if action == "undelete" else self.pane.number
        if number is not None and not self.pane.begun:
            return self.notify("This conversation is empty.")
        with telling(self):
            await self.view.manage(action, number)
        self.list_conversations()

    def action_slash(self, line: str) -> None:
        """Run a slash command."""
        self.view.run_line(line)

    def action_import(self) -> None:
        """Import conversations from a file."""
        self.view.import_file()

    def action_type(self, text: str) -> None:
        """Insert text into the prompt."""
        self.pane.box.focus()
        self.pane.box.insert(text)

    def action_jump(self) -> None:
        """Show a letter on each focusable place; pressing it focuses that place."""
        from chatapp.tui.chat.message import Said
        from chatapp.tui.keys.jump import Jump

        def go(target: Widget | None) -> None:
            if target:
                target.focus()

        places = [self.pane.box, self.sidebar, self.drawer, self.pane.columns]
        said: list[Widget] = [*self.pane.query(Said)]
        self.app.push_screen(Jump([place for place in places if place and place.display] + said[::-1]), go)

    # Messages from widgets

    def action_page(self, pages: int) -> None:
        """Scroll the conversation; reaching its end follows it again."""
        page = self.pane.page
        rows = pages * max(1, page.size.height - 1)
        if page.scroll_y + rows >= page.max_scroll_y:
            page.scroll_end(x_axis=False, animate=False)
        else:
            page.scroll_relative(y=rows, animate=False)

    def on_vim_area_command_entered(self, message: VimArea.CommandEntered) -> None:
        self.view.run_line(message.line, self.pane.box.give_back)

    def on_completion_page_help_wanted(self) -> None:
        """Say how to continue the text, and how to get a chat."""
        offered = self.offer_line.offer
        chat = "F8 downloads a model" if offered and offered.kind == "chat" else "ctrl+o chooses a model"
        if not self.pane.begun:
            self.pane.outbox.show_tip(f"ctrl+j continues the text; for chat, {chat}")

    async def on_sidebar_wanted(self, message: Sidebar.Wanted) -> None:
        """Run an action of the list of conversations."""
        with telling(self):
            await self.view.manage(message.action, message.conversation)
        self.list_conversations()

    def on_prompt_shell_entered(self, entered: Prompt.ShellEntered) -> None:
        """Run a shell command and attach its output; the first time, ask before."""
        from chatapp.conversation import shell
        from chatapp.tui.chat.shell_screen import ShellScreen
        from chatapp.tui.widgets.windows import AskLine

        def begin(command: str | None) -> None:
            if command is None:
                return entered.prompt.give_back(entered.draft)
            self.shell_known = True
            self.app.push_screen(ShellScreen(command), take)

        def take(output: shell.Output | None) -> None:
            if output is None:
                return entered.prompt.give_back(entered.draft)
            entered.prompt.take_output(output)
            if output.code != 0:
                self.notify(f"The command failed: {output.told}.", severity="warning", markup=False)

        if self.shell_known:
            return begin(entered.command)
        question = f"Run this in {shell.shell()[0]}? Its output goes into your message."
        self.app.push_screen(AskLine(question, entered.command, "enter runs it, esc cancels; asked only once"), begin)

    def on_sampling_drawer_changed(self, message: SamplingDrawer.Changed) -> None:
        self.view.choose_options(message.options)

    def on_sampling_drawer_when_full_changed(self, message: SamplingDrawer.WhenFullChanged) -> None:
        self.view.choose_when_full(message.value)

    async def on_said_wanted(self, message: Said.Wanted) -> None:
        """Message actions that concern more than one conversation."""
        from chatapp.commands.run import find_text

        with telling(self):
            match message.action:
                case "fork":
                    await self.view.fork(self.pane, message.said)
                case "heat":
                    self.show_heat(message.said)
                case "latencies":
                    self.show_latencies(message.said)
                case "copy":
                    self.app.copy_to_clipboard(find_text(message.said))
                case "code":
                    self.view.copy_block(message.said)

    def shown(self, pane: Pane) -> None:
        offer = self.offer_line.offer
        if offer and offer.kind == "chat" and pane.opened and pane.opened.engine.can_chat:
            self.offer_line.offer = None  # there is a chat model now
        if pane.dialogue and (pane.dialogue.setup.tools or pane.status.tools):
            pane.status.tools, pane.welcome.tools_leave = self.view.describe_tools(pane.dialogue)
            pane.text_changed()
        if self.drawer:
            self.view.show_setup()
