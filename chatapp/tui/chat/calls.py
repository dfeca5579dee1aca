"""Widget: the tool calls of an answer: asks the user, shows progress, and can be stopped."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message as Event
from textual.widgets import Static

from chatapp.text.printable import printable
from chatapp.tui.errors import telling
from chatapp.tui.widgets.buttons import Buttons, as_button

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue
    from chatapp.conversation.rounds import Decision, Question, RunningCall
    from chatapp.conversation.tools import Result

QUIET = 0.6
"""Seconds without a key before an answer counts, so that a key meant for the prompt does not answer."""
KEYS: dict[str, Decision] = {"o": "once", "c": "conversation", "r": "refuse"}
CHOICES = Content("").join(
    part
    for key, does in (("o", "once"), ("c", "for this conversation"), ("r", "refuse"), ("escape", "stop"))
    for part in (as_button(key, key[:3], "bold $accent"), as_button(key, f" {does}   ", "$muted"))
)
SCROLLS = {"up": -1, "down": 1, "pageup": -8, "pagedown": 8}
"""Lines by which keys scroll long arguments."""
CHANGED = "This tool has changed since you allowed it."


class Calls(Vertical):
    """The tool calls of one answer; visible and focused while the user is asked."""

    can_focus = True
    BINDING_GROUP_TITLE = "Call"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "stop", "Stop", key_display="esc", id="call.stop")]

    @dataclass
    class Changed(Event):
        """The state has changed; `doing` says what is happening, in a few words."""

        doing: str

    @dataclass
    class Ended(Event):
        """All calls have a result, or were stopped."""

        goes_on: bool
        reason: str
        """Why the model does not continue, unless the user stopped it."""

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.head, self.told = Static("", markup=False), Static("", markup=False)
        """The tool's name, and its description with the arguments."""
        self.scroll = VerticalScroll(self.told, can_focus=False)
        self.busy = False
        """Whether calls are being run."""
        self.asked: asyncio.Future[Decision] | None = None
        self.running: RunningCall | None = None
        self.quiet = 0.0
        """When a key was last pressed that may have been meant for the prompt."""

    def compose(self) -> ComposeResult:
        yield self.head
        yield Buttons(CHOICES)  # above the arguments, which may be longer than the screen
        yield self.scroll

    def begin(self, dialogue: Dialogue) -> None:
        """Run the calls of the last reply."""
        self.busy = True
        self.run_worker(self.answer(dialogue), group="calls")

    async def answer(self, dialogue: Dialogue) -> None:
        """Run the calls one after another."""
        from chatapp.conversation.rounds import LATE, ROUNDS, Question, answer_calls, count_rounds

        steps, goes_on = answer_calls(dialogue), False
        try:
            with telling(self.screen):
                step = next(steps)
                while True:
                    given = await (self.ask(step) if isinstance(step, Question) else self.run(step))
                    step = steps.send(given)
        except StopIteration as end:
            goes_on = bool(end.value)
        finally:
            self.busy = False
            late = not goes_on and count_rounds(dialogue.branch()) >= ROUNDS
            self.post_message(self.Ended(goes_on, LATE.format(ROUNDS) if late else ""))

    async def ask(self, question: Question) -> Decision:
        """Ask the user whether a call may run."""
        from chatapp.conversation.rounds import describe_call
        from chatapp.text.markdown import cut

        call = question.call
        lines = json.dumps(json.loads(call.arguments), indent=2, ensure_ascii=False)
        about = question.tool.function.description or ""
        parts = [
            Content.styled(f"{CHANGED}\n", "bold $error") if question.changed else Content(""),
            Content.styled(f"{printable(' '.join(about.split())[:300])}\n", "$muted") if about else Content(""),
            Content(printable(cut(lines))),
        ]
        head = printable(describe_call(call, question.tool).partition(": ")[0])
        self.head.update(Content.styled(head, "bold $warning"))
        self.told.update(Content("").join(parts))
        asking = self.Changed(f"allow {question.tool.name}?")
        self.asked, self.quiet = asyncio.get_running_loop().create_future(), asking.time
        self.scroll.scroll_home(animate=False)
        self.display, before = True, self.screen.focused
        self.focus()
        self.post_message(asking)
        try:
            return await self.asked
        finally:
            if before and self.has_focus:
                before.focus()
            self.display, self.asked = False, None

    def on_key(self, event: events.Key) -> None:
        """Take the answer, unless the user is still typing something else."""
        if not self.asked or event.key == "escape":
            return
        if event.key in SCROLLS:
            event.stop()
            return self.scroll.scroll_relative(y=SCROLLS[event.key], animate=False)
        if event.is_printable or event.key == "enter":
            event.stop()
            event.prevent_default()
        now, before = event.time, self.quiet  # event.time, since a busy screen may handle the key late
        self.quiet = now
        if now > before + QUIET and event.character in KEYS and not self.asked.done():
            self.asked.set_result(KEYS[event.character])

    async def run(self, running: RunningCall) -> Result:
        """Wait for a call, unless the user stops it."""
        from chatapp.conversation.rounds import STOPPED

        self.running = running
        self.post_message(self.Changed(f"calling {running.tool.name}"))
        try:
            return await asyncio.wrap_future(running.result)
        except asyncio.CancelledError:
            if not running.result.cancelled():  # the screen is closing
                raise
            return STOPPED
        finally:
            self.running = None

    def action_stop(self) -> None:
        """Stop asking, and cancel the running call."""
        if self.asked and not self.asked.done():
            self.asked.set_result("stop")
        if self.running:
            self.running.result.cancel()

    def on_unmount(self) -> None:
        self.action_stop()
