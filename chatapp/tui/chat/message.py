"""Widgets: one message of a chat."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message as Event
from textual.style import Style
from textual.widgets import Static

from chatapp.conversation.turn import is_cut_off
from chatapp.generation.text.thinking import split
from chatapp.generation.text.tools import strip_calls
from chatapp.text.printable import printable
from chatapp.text.units import duration, milliseconds, rate
from chatapp.tui.chat.reply import FULL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual.app import ComposeResult
    from textual.widgets import Markdown
    from textual.widgets.markdown import MarkdownStream

    from chatapp.generation import Delta
    from chatapp.history import Message
    from chatapp.text.markdown import Tame

MessageAction = Literal["edit", "again", "copy", "code", "older", "newer", "heat", "latencies", "fork"]


class Said(Vertical):
    """A message; keys act on it while it has the focus."""

    can_focus = True
    BINDING_GROUP_TITLE = "Message"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "app.focus_previous", "Up", show=False, id="message.up"),
        Binding("down,j", "app.focus_next", "Down", show=False, id="message.down"),
        Binding("e", "want('edit')", "Edit", id="message.edit"),
        Binding("r", "want('again')", "Regenerate", id="message.again"),
        Binding("c", "want('copy')", "Copy", id="message.copy"),
        Binding("b", "want('code')", "Copy code", id="message.code"),
        Binding("left,left_square_bracket", "want('older')", "Older", key_display="←", id="message.older"),
        Binding("right,right_square_bracket", "want('newer')", "Newer", key_display="→", id="message.newer"),
        Binding("t", "want('heat')", "Tokens", id="message.heat"),
        Binding("l", "want('latencies')", "Latencies", id="message.latencies"),
        Binding("f", "want('fork')", "Fork", id="message.fork"),
        Binding("enter", "open", "Open or fold", id="message.open"),
    ]
    folded = False
    """Whether a part of it can be unfolded."""

    @dataclass
    class Wanted(Event):
        """An action is wanted for this message."""

        action: MessageAction
        said: Message

    def __init__(self, said: Message, *, growing: bool = False) -> None:
        super().__init__(classes=said.role)
        self.said, self.growing = said, growing
        self.mark = ""
        """How it ended, if known better than from the message."""
        self.newest = False
        """Whether it is the last message."""
        self.foot = Static("", markup=False, classes="foot")
        self.show_foot()

    def action_want(self, action: MessageAction) -> None:
        self.post_message(self.Wanted(action, self.said))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            return self.folded
        mine, several = self.said.role == "user", len(self.said.versions) > 1
        match parameters:
            case ("edit",):
                return mine
            case ("again" | "code" | "heat" | "latencies",):
                return self.said.role == "assistant"
            case ("older" | "newer",):
                return several
        return True

    def update(self, said: Message, *, newest: bool) -> None:
        """Update to the message's current state."""
        self.said, self.newest = said, newest
        self.show_foot()

    def show_foot(self) -> None:
        """Show the line below: its version, how it ended, and whether it can continue."""
        ended = self.mark or ENDINGS.get(self.said.finish_reason or "", "")
        if self.growing:
            ended = ""
        elif is_cut_off(self.said):
            ended = ended or "■ unfinished"
            ended += CONTINUES if self.newest and self.mark != FULL else ""
        calls = f"calls {', '.join(printable(call.name) for call in self.said.calls)}"
        waits = calls if self.newest and self.said.role == "assistant" and self.said.calls else ""
        line = "   ".join(part for part in (version(self.said), ended, waits) if part)
        valid = "" if self.growing else validity(self.said)
        about = "" if self.growing or self.said.role != "assistant" else origin(self.said)
        parts = ((line, "$warning"), (valid, "$success" if valid == VALID else "$error"), (about, "$muted"))
        self.foot.update(Content("   ").join(Content.styled(text, style) for text, style in parts if text))
        self.foot.display = bool(line or valid or about)


def spoken(said: Message) -> str:
    """The text of an answer without thinking and tool calls."""
    text = strip_calls(said.text, [call.name for call in said.calls]) if said.calls else said.text
    return split(text).answer


def version(said: Message) -> str:
    """Which version a message is, such as ‹ 2 / 3 ›; empty if there is only one."""
    place, count = said.versions.index(said.id) + 1, len(said.versions)
    return f"‹ {place} / {count} ›" if count > 1 else ""


def validity(said: Message) -> str:
    """Whether an answer fulfils its constraint; empty if it had none."""
    valid = said.usage.get("valid")
    return VALID if valid is True else "✗ not valid" if valid is False else ""


def origin(said: Message) -> str:
    """Which model wrote an answer, when, and how fast."""
    timed = said.usage.get("tokens_per_second")
    speed = f"{rate(timed)} tok/s" if isinstance(timed, int | float) and timed > 0 else ""
    when = moment(said.created) if said.created else ""
    return " · ".join(part for part in (printable(said.model), when, speed) if part)


def moment(created: float) -> str:
    """The time of day, with the date if not today."""
    then, today = time.localtime(created), time.localtime()
    clock = time.strftime("%H:%M", then)
    if then[:3] == today[:3]:
        return clock
    year = "" if then.tm_year == today.tm_year else f" {then.tm_year}"
    return f"{then.tm_mday} {time.strftime('%b', then)}{year} {clock}"


ENDINGS = {"cancelled": "■ stopped", "length": "■ max_tokens reached"}
VALID = "✓ valid"
CONTINUES = " — F5 continues"


class Question(Said):
    """A user's message or system prompt; attachments and long pastes are folded."""

    def __init__(self, said: Message, count: Callable[[str], int] | None = None) -> None:
        from chatapp.conversation.folding import parts

        super().__init__(said)
        self.count = count
        """Counts tokens, if a model is open; may be slow."""
        self.parts = parts(said.text)
        self.folded = any(part.label for part in self.parts)
        self.opened: set[int] = set()
        """Indices of the parts that are unfolded."""
        self.tokens: dict[int, int] = {}

    def compose(self) -> ComposeResult:
        self.body = Static(self.content(), markup=False, classes="body")
        yield self.body
        yield self.foot

    def on_mount(self) -> None:
        self.recount(self.count)

    def content(self) -> Content:
        """The text, with a line for each folded part."""
        from chatapp.text.markdown import cut

        pieces: list[Content] = []
        for place, part in enumerate(self.parts):
            if part.label:
                tokens = f" · {self.tokens[place]:,} tokens" if place in self.tokens else ""
                mark = "▾" if place in self.opened else "▸"
                line = Content.styled(f"{mark} {printable(part.label)}{tokens}", "not bold $muted")
                pieces.append(line.stylize(Style.from_meta({"fold": place})))
            if not part.label or place in self.opened:
                pieces.append(Content(printable(cut(part.text))))
        return Content("\n").join(pieces)

    def recount(self, count: Callable[[str], int] | None) -> None:
        """Count the tokens of the folded parts in a thread."""
        self.count = count
        if count and self.folded and not self.tokens and self.is_attached:

            def recount() -> None:
                found = {place: count(part.text) for place, part in enumerate(self.parts) if part.label}
                self.call_later(self.show_tokens, found)

            self.run_worker(recount, thread=True, group="recount", exclusive=True)

    def show_tokens(self, tokens: dict[int, int]) -> None:
        """Show the token counts of the folded parts."""
        self.tokens = tokens
        self.body.update(self.content())

    def action_open(self) -> None:
        """Unfold all parts, or fold them again."""
        folds = {place for place, part in enumerate(self.parts) if part.label}
        self.opened = set() if self.opened == folds else folds
        self.body.update(self.content())
        self.call_after_refresh(self.scroll_visible, animate=False, top=True)

    def on_click(self, event: events.Click) -> None:
        if (place := event.style.meta.get("fold")) is not None:
            event.stop()
            self.opened ^= {place}
            self.body.update(self.content())


class Thought(Static):
    """A model's thinking in a line that unfolds; hidden if there is none."""

    def __init__(self) -> None:
        super().__init__("", markup=False, classes="thought")
        self.thinking, self.tokens, self.seconds = "", 0, 0.0
        self.live = self.opened = False
        self.display = False

    def take(self, reply: str, usage: Mapping[str, Any]) -> None:  # Any: as stored
        """Show the thinking of a finished reply, with its length and time if known."""
        self.live, self.thinking = False, split(reply).thinking
        tokens, seconds = usage.get("thinking_tokens"), usage.get("thinking_seconds")
        self.tokens = tokens if isinstance(tokens, int) else 0
        self.seconds = float(seconds) if isinstance(seconds, int | float) else 0.0
        self.show()

    def grow(self, reply: str, deltas: Sequence[Delta]) -> None:
        """Show thinking in progress: the whole reply so far, and its latest deltas."""
        self.live, self.thinking = True, split(reply).thinking
        for delta in deltas:
            self.tokens += len(delta.tokens)
            self.seconds += sum(token.seconds for token in delta.tokens)
        self.show()

    def show(self) -> None:
        """Update what is displayed."""
        from chatapp.text.markdown import cut

        self.display = bool(self.thinking)
        time = duration(self.seconds) if self.seconds >= 1 else milliseconds(self.seconds)
        cost = [f"for {time}", f"{self.tokens:,} token{'s' * (self.tokens != 1)}"]
        about = f" {', '.join(cost)}" if self.tokens else ""
        line = f"{'thinking' if self.live else 'thought'}{about} {'▾' if self.opened else '▸'}"
        text = f"\n{printable(cut(self.thinking))}\n" if self.opened else ""
        self.update(Content.assemble((line, "$muted"), (text, "italic $muted")))

    def toggle(self) -> None:
        """Fold or unfold it."""
        self.opened = not self.opened
        self.show()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.toggle()


class Answer(Said):
    """A model's reply: a Markdown widget while it is recent, later a single static widget."""

    def __init__(self, said: Message, *, settled: bool = False, tame: Tame | None = None) -> None:
        super().__init__(said, growing=tame is not None)
        self.settled, self.tame = settled, tame
        """Makes incomplete Markdown safe to show while the answer is being written."""
        self.stream: MarkdownStream | None = None
        self.thought = Thought()
        self.reply = said.text
        """Everything received so far, including thinking, while it is being written."""
        self.take_thought()

    def take_thought(self) -> None:
        """Show the saved thinking."""
        self.thought.take(self.said.text, self.said.usage)
        self.folded = bool(self.thought.thinking)

    def compose(self) -> ComposeResult:
        self.body = self.made()
        yield self.thought
        yield self.body
        yield self.foot

    def action_open(self) -> None:
        """Fold or unfold the thinking."""
        self.thought.toggle()

    def made(self) -> Markdown | Static:
        """A new widget for the text."""
        from chatapp.text.markdown import shared_parser, tame

        answer = spoken(self.said)
        if self.settled:
            from chatapp.tui.widgets.prose import Coloured, Settled

            return Settled(Coloured(answer, self.app), classes="body")
        from chatapp.tui.widgets.formatted import Formatted  # slow to import, so not before it is needed

        text = self.tame.feed(printable(answer)) if self.tame else tame(answer)
        return Formatted(text, parser_factory=shared_parser, open_links=False, classes="body")

    def look_up(self) -> None:
        """The user scrolls up, perhaps to lines that were not laid out while the answer grew."""
        from chatapp.tui.widgets.formatted import Formatted

        if isinstance(self.body, Formatted) and self.body.above.region.bottom > -self.app.size.height:
            self.body.lay_out_all()

    def think(self, deltas: Sequence[Delta]) -> None:
        """Add to the thinking."""
        self.reply += "".join(delta.text for delta in deltas)
        self.thought.grow(self.reply, deltas)
        self.folded = bool(self.thought.thinking)

    async def grow(self, text: str) -> None:
        """Append printable text to the answer."""
        from chatapp.tui.widgets.formatted import Formatted

        assert self.tame and isinstance(self.body, Formatted)
        if shown := self.tame.feed(text):
            if self.stream is None:  # not earlier: stopping a stream that was never written to cancels the caller
                self.stream = Formatted.get_stream(self.body)
                self.body.growing = True
            await self.stream.write(shown)

    async def finish(self, said: Message, mark: str = "") -> None:
        """The answer has ended as `said`; `mark` says how, if it was cut off."""
        from textual.widgets import Markdown

        from chatapp.text.markdown import tame

        if self.stream:
            await self.stream.stop()
            self.stream = None
        self.said, self.tame, self.growing, self.mark = said, None, False, mark
        self.take_thought()
        if isinstance(self.body, Markdown):
            await self.body.update(tame(spoken(said)))  # all of it, including what was held back
        self.show_foot()

    async def settle(self) -> None:
        """Become a single widget: Markdown takes a dozen."""
        if not self.settled and not self.stream:
            self.settled, before = True, self.body
            self.body = self.made()
            await self.mount(self.body, before=self.foot)
            await before.remove()
