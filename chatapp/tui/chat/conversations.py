"""The conversations of the chat screen: which are open, which is shown, and opening history and models for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

from textual import on
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import TextArea

from chatapp.text.errors import UserError, one_line
from chatapp.tui.chat.pane import Pane
from chatapp.tui.engines import Choice, Engines
from chatapp.tui.errors import telling
from chatapp.tui.threads import aside, wait_for
from chatapp.tui.widgets.textual_fixes import LaidOutOnce
from chatapp.workspace import Opened, Workspace

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue, Setup
    from chatapp.history import Conversation, History, Kind
    from chatapp.placement.measuring import Measuring
    from chatapp.placement.record import Measurement
    from chatapp.tui.chat.sidebar import Sidebar
    from chatapp.tui.sampling.drawer import SamplingDrawer

KEPT = 8
"""Conversations that stay mounted, hidden, so that returning to one is quick."""
PATIENCE = 0.5
"""Seconds the screen waits for another program to finish writing; saving is retried anyway."""
KEEPING = 2.0
"""Seconds after a key until the draft is saved; at most this much is lost if chatapp is killed."""
SHARE = 0.02
"""The share of time that saving drafts may take."""
RETRY = 5.0
"""Seconds between attempts while saving fails."""
ALTERNATIVES = 5
"""Alternatives recorded for each token."""


class Conversations(LaidOutOnce, Screen[None]):
    """A screen of conversations, each with its own model, text and reply in progress."""

    def __init__(self, workspace: Workspace, model: str, *, setup: Setup | None = None, resumes: bool = True) -> None:
        super().__init__()
        self.workspace, self.model, self.setup, self.resumes = workspace, model, setup, resumes
        """The user's home; what new conversations begin with; whether to resume the last one first."""
        self.engines = Engines(workspace, self)
        self.history: History | None = None
        self.history_tried = False
        """Whether opening the history has been attempted."""
        self.lack = ""
        """Why there is no history although the settings want one."""
        self.measuring: Measuring | None = None
        self.retrying: Timer | None = None
        self.keeping: Timer | None = None
        """Runs while a draft is unsaved."""
        self.keeping_took = 0.0
        """Seconds the last save of drafts took."""
        self.history_thread: Thread | None = None
        """The thread that opened the history, or last tried to save."""
        self.pane = self.new_pane(Choice(model), "completion" if model == "builtin" else "chat")
        """The conversation that is shown."""
        self.panes = [self.pane]
        """All mounted conversations, the most recently shown last."""
        self.sidebar: Sidebar | None = None
        self.drawer: SamplingDrawer | None = None
        self.stage, self.middle = Vertical(self.pane, id="stage"), Horizontal(id="middle")
        """The container of the panes, and the row with what stands beside them."""

    def on_mount(self) -> None:
        self.call_after_refresh(self.in_thread, self.open_history)

    # Opened after the first frame

    def in_thread(self, act: Callable[[], None]) -> None:
        """Run something that waits for the disk in a thread."""
        self.history_thread = Thread(target=act, name="history", daemon=True)
        self.history_thread.start()

    def open_history(self) -> None:
        """Open the history; runs in a thread."""
        try:
            import chatapp.conversation  # noqa: F401  # in this thread, so that the screen need not wait

            kept = self.workspace.read_settings().history
            history = self.workspace.open_history(PATIENCE) if kept else None
            if not self.call_later(self.take_history, history) and history:  # the screen was closed
                history.close()
        except Exception as error:  # show any disk error on the screen
            self.call_later(self.take_history, None, one_line(error) or str(error))

    def catch_up(self) -> None:
        """Try again to save; runs in a thread."""
        from chatapp.conversation.rescue import catch_up

        if not self.history:
            self.open_history()
        elif not catch_up(self.history, [pane.dialogue for pane in [*self.panes] if pane.dialogue]):
            self.call_later(self.try_later)

    def try_later(self) -> None:
        """Try to save again later."""
        if self.retrying:
            self.retrying.stop()
        self.retrying = self.set_timer(RETRY, partial(self.in_thread, self.catch_up))

    def save_all(self, history: History) -> None:
        """The history could be opened at last: save everything to it."""
        self.notify("Conversations are being saved again, with everything written meanwhile.")
        self.history, self.lack = history, ""
        for pane in self.panes:
            if pane.kept and pane.dialogue:
                pane.dialogue.save_to(history)
        self.list_conversations()

    async def take_history(self, history: History | None, error: str = "") -> None:
        """The history is open, or could not be opened (`error`)."""
        before, self.history_tried = self.history_tried, True
        if error:
            self.try_later()
        if before:
            return self.save_all(history) if history else None
        self.history, self.lack = history, error
        if error:
            self.notify(f"Conversations are not being saved: {error}", severity="warning", timeout=10, markup=False)
        await self.resume()
        for pane in [one for one in self.panes if not one.dialogue]:
            await pane.adopt(self.dialogue(pane.kind, pane.choice))
            await self.give_model(pane)
        self.list_conversations()
        self.begin_idle_work()

    async def resume(self) -> None:
        """Open the last conversation, if wanted and nothing was typed yet."""
        if self.history and self.resumes and not any(map(typed, self.panes)) and not self.pane.wanted:
            with telling(self):
                if last := self.history.last(drafts=True):
                    await self.open_conversation(last)

    def begin_idle_work(self) -> None:
        """Called once the first conversation is shown: less urgent work may begin."""

    def dialogue(
        self, kind: Kind, choice: Choice, conversation: Conversation | None = None, *, kept: bool = True
    ) -> Dialogue:
        """The conversation behind a pane: a saved one, or a new one."""
        from chatapp.conversation import Dialogue, Setup

        if conversation:
            setup = Setup.of_json(conversation.setup)
        else:
            setup = self.setup or Setup(system=self.read_system(choice.model) if kind == "chat" else "")
        return Dialogue(
            self.history if kept else None,
            conversation,
            kind=kind,
            setup=replace(setup, model=setup.model or choice.model),
            warn=partial(self.call_later, self.tell_unsaved),
            logprobs=ALTERNATIVES,
            toolset=self.workspace.open_tools(partial(self.call_later, self.show_warning)),
        )

    def read_system(self, model: str) -> str:
        """The system prompt of new conversations with a model; "" and a warning if it cannot be read."""
        try:
            return self.workspace.read_system(model)
        except UserError as error:
            self.show_warning(str(error))
            return ""

    def show_warning(self, text: str) -> None:
        """Show a warning."""
        self.notify(text, severity="warning", timeout=10, markup=False)

    def tell_unsaved(self, text: str) -> None:
        """Show a warning about saving, and schedule a retry if saving failed."""
        self.show_warning(text)
        if any(pane.dialogue and pane.dialogue.failure for pane in self.panes):
            self.try_later()

    async def give_model(self, pane: Pane) -> None:
        """Give a pane its model, opening it if necessary."""
        if not pane.opened and not pane.failure and (opened := self.engines.get(pane.choice)):
            await pane.model_opened(opened)
            self.shown(pane)

    def show_progress(self, choice: Choice, step: str, share: float) -> None:
        """Show the progress of opening a model."""
        for pane in self.panes_with(choice):
            pane.status.show("○ loading", hint=f"{step} {share:.0%}")

    async def model_opened(self, choice: Choice, opened: Opened) -> None:
        """A model was opened."""
        self.engines.settle(choice, opened, {pane.choice for pane in self.panes if pane.busy})
        for pane in self.panes:
            if pane.choice not in self.engines.opened and pane is not self.pane and not pane.busy:
                pane.release_model()
        for pane in self.panes_with(choice):
            await pane.model_opened(opened)
            self.shown(pane)
        self.measure()

    def model_failed(self, choice: Choice, error: str) -> None:
        """A model could not be opened."""
        self.engines.settle(choice, None)
        for pane in self.panes_with(choice):
            pane.model_failed(error)
        self.notify(error, severity="error", timeout=10, markup=False)

    @on(Pane.Changed)
    def measure(self) -> None:
        """Measure the backends of the current model while nothing is being written."""
        if self.measuring:
            self.measuring.stopping.set()
            self.measuring = None
        choice = self.pane.choice
        if not self.pane.opened or any(pane.busy for pane in self.panes):
            return
        placement = self.workspace.choose_placement(choice.backend)
        on_end = partial(self.call_later, self.take_ranking, choice)
        self.measuring = self.workspace.measure(choice.model, placement, on_end)
        self.measuring.start()

    def take_ranking(self, choice: Choice, ranking: list[Measurement]) -> None:
        """The backends were measured, best first: new conversations use the best one."""
        used = next((pane.opened for pane in self.panes_with(choice) if pane.opened), None)
        if not used or not ranking:
            return
        here = used.engine.placement
        times = {(one.placement.backend, one.placement.device): one.p50 for one in ranking}
        best, now = ranking[0].placement, (here.backend, here.device)
        if now == (best.backend, best.device):
            return
        self.engines.forget(choice.model)
        faster = times[now] / ranking[0].p50 if now in times else 0
        if faster >= 1.1:
            text = f"{best.backend} decodes {faster:.1f} times as fast as {here.backend}"
        elif faster:  # it reads prompts so much sooner
            text = f"{best.backend} starts answering sooner than {here.backend}"
        else:
            text = f"{here.backend} gives wrong results"
        self.notify(f"{text}: {used.name} will use {best.backend} in new conversations.", markup=False)

    def panes_with(self, choice: Choice) -> list[Pane]:
        """The panes with this model."""
        return [pane for pane in self.panes if pane.choice == choice]

    def shut_down(self, seconds: float) -> bool:
        """Stop all threads and save drafts; returns whether all threads ended within this time."""
        if self.retrying:
            self.retrying.stop()
        threads: list[Thread] = [*self.engines.opening.values(), *filter(None, [self.history_thread, self.measuring])]
        if self.measuring:
            self.measuring.stopping.set()
        self.keep()
        for pane in self.panes:
            if reply := pane.newest:
                reply.stop()
                threads.append(reply.thread)
        return wait_for([*threads, *aside()], seconds)

    def keep(self) -> None:
        """Save drafts, and which conversation was shown last."""
        for pane in self.panes:
            pane.page.keep(pane.outbox.unsent)
        last = next((pane.number for pane in reversed(self.panes) if pane.number > 0), None)
        if self.history and last:
            from chatapp.history import HistoryError

            with suppress(HistoryError):  # saving reports disk errors
                self.history.mark_shown(last)

    def keep_early(self) -> None:
        """Save what was typed if the user left before the history was open."""
        if self.workspace.read_settings().history:
            self.history = self.workspace.open_history(PATIENCE)
            for pane in self.panes:
                pane.page.dialogue = self.dialogue(pane.kind, pane.choice)
            self.keep()

    @on(TextArea.Changed)
    def keep_soon(self) -> None:
        """Save drafts in a moment, later if the last save took long."""
        if not self.keeping:
            self.keeping = self.set_timer(max(KEEPING, self.keeping_took / SHARE), self.keep_typed)

    def on_prompt_submitted(self) -> None:
        """A message is waiting to be answered: save it as a draft."""
        self.keep_typed()

    @on(Pane.Changed)
    def keep_typed(self) -> None:
        """Save drafts while the user may go on typing."""
        if self.keeping:
            self.keeping.stop()
        self.keeping, start = None, time.monotonic()
        for pane in self.panes:
            pane.page.keep_typed(pane.outbox.unsent)
        self.keeping_took = time.monotonic() - start

    def save_or_rescue(self) -> str:
        """Save everything when leaving; returns what to tell the user if that fails."""
        from chatapp.conversation.rescue import catch_up, tell_rescue
        from chatapp.history import HistoryError

        if not self.history_tried and any(map(typed, self.panes)):
            with suppress(HistoryError):
                self.keep_early()
        kept = [pane.dialogue for pane in self.panes if pane.dialogue and pane.kept]
        if self.history:
            catch_up(self.history, kept)
        elif not self.lack:
            return ""
        else:
            with suppress(HistoryError):
                history = self.workspace.open_history(PATIENCE)
                for dialogue in kept:
                    dialogue.save_to(history)
        behind = [dialogue for dialogue in kept if dialogue.is_ahead]
        return tell_rescue(behind, self.workspace.home, self.lack) if behind else ""

    # Which conversation is shown

    def new_pane(self, choice: Choice, kind: Kind, *, kept: bool = True) -> Pane:
        renew = partial(self.dialogue, kept=kept)
        return Pane(choice, kind, memory=self.workspace.peak_memory, renew=renew, past=self.read_prompts, kept=kept)

    def read_prompts(self) -> Sequence[str]:
        """Earlier prompts, the newest last; called in a thread."""
        from chatapp.history import HistoryError

        with suppress(HistoryError):  # saving reports disk errors
            return self.history.prompts()[::-1] if self.history else ()
        return ()

    async def show(self, pane: Pane) -> None:
        """Show a conversation; the least recently shown ones are unmounted."""
        with self.app.batch_update():  # never paint a frame without a conversation
            self.pane.display = False
            if pane not in self.panes:
                self.panes.append(pane)
                await self.stage.mount(pane)
            self.panes.remove(pane)
            self.panes.append(pane)
            self.pane = pane
            pane.display = True
        self.set_class(pane.kind == "chat", "-talking")
        (pane.columns or pane.box).focus()
        self.shown(pane)
        idle = [
            one
            for one in self.panes
            if one is not pane and not one.busy and not one.outbox.queue and not is_unsaved(one)
        ]
        for one in idle[: max(0, len(self.panes) - KEPT)]:
            one.page.keep(one.outbox.unsent)
            self.panes.remove(one)
            await one.remove()
        self.refresh_bindings()
        self.list_conversations()
        pane.show_notices()

    def on_screen_resume(self) -> None:
        self.pane.show_notices()

    def shown(self, pane: Pane) -> None:
        """Another conversation is shown, or its model was opened."""

    async def begin_unkept(self) -> None:
        """Begin a conversation that is not saved."""
        pane = self.new_pane(self.pane.choice, self.pane.kind, kept=False)
        await self.show(pane)
        await pane.adopt(self.dialogue(pane.kind, pane.choice, kept=False))
        await self.give_model(pane)
        self.notify("This conversation is not saved.")

    async def open_conversation(self, conversation: Conversation) -> Pane:
        """Show a saved conversation."""
        for pane in self.panes:
            if pane.dialogue and pane.dialogue.conversation == conversation.id:
                await self.show(pane)
                await self.give_model(pane)
                return pane
        dialogue = self.dialogue(conversation.kind, Choice(conversation.model or self.model), conversation)
        draft = self.history.draft(conversation.id) if self.history else ""
        choice = Choice(dialogue.setup.model)
        unused = None if self.pane.begun or typed(self.pane) or self.pane.busy else self.pane
        pane = self.new_pane(choice, conversation.kind)
        await self.show(pane)
        if unused:
            self.panes.remove(unused)
            await unused.remove()
        await pane.adopt(dialogue, draft)
        await self.give_model(pane)
        return pane

    async def action_new(self) -> None:
        """Begin a new conversation with the same model."""
        before = self.pane
        unused = before.kept and before.number < 0 and not before.begun  # below zero: not even a draft was saved
        if unused and not before.busy and not typed(before):
            before.box.focus()
            return
        pane = self.new_pane(before.choice, before.kind)
        await self.show(pane)
        if self.history_tried:
            await pane.adopt(self.dialogue(pane.kind, pane.choice))
        await self.give_model(pane)

    # The list of conversations

    @on(Pane.Changed)
    def list_conversations(self) -> None:
        """Update the list, if visible: saved conversations, and those that are only on the screen."""
        if not self.sidebar or not self.sidebar.display:
            return
        with telling(self):
            words = self.sidebar.words
            conversations, total = self.history.page(words, self.sidebar.limit) if self.history else ((), 0)
            if unkept := [pane for pane in reversed(self.panes) if pane.begun and pane.number < 0]:
                from chatapp.conversation.rescue import describe
                from chatapp.history.text import has_words

                here = [replace(describe(pane.dialogue), id=pane.number) for pane in unkept if pane.dialogue]
                here = [one for one in here if has_words(one.title, words)]
                conversations, total = [*here, *conversations], total + len(here)
            busy = {pane.number for pane in self.panes if pane.busy}
            none = "Conversations are not being saved." if self.lack else "No conversations yet."
            self.sidebar.show(conversations, self.pane.number, busy, total=total, none=none)

    async def action_sidebar(self) -> None:
        """Show and focus the list, or hide it if it has the focus."""
        if self.sidebar is None:
            from chatapp.tui.chat.sidebar import Sidebar

            self.sidebar = Sidebar()
            await self.middle.mount(self.sidebar, before=self.stage)
        elif self.sidebar.display and self.sidebar.has_focus:
            self.sidebar.display = False
            self.pane.box.focus()
            return
        self.sidebar.display = True
        self.list_conversations()
        self.sidebar.focus()

    def on_sidebar_listed(self) -> None:
        """The list's filter changed, or it needs more rows."""
        self.list_conversations()


def typed(pane: Pane) -> str:
    """What was typed in a pane and not sent, including messages that wait for an answer."""
    return pane.outbox.unsent() if pane.kind == "chat" else pane.box.text


def is_unsaved(pane: Pane) -> bool:
    """Whether something in a pane is not in the history."""
    if not pane.dialogue or not pane.begun:
        return bool(pane.box.text)
    return pane.dialogue.conversation is None or pane.dialogue.failure is not None
