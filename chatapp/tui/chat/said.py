"""Widget: one message, with what can be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message as Event
from textual.widgets import Static

from chatapp.terminal import printable
from chatapp.tui.chat.versions import version

if TYPE_CHECKING:
    from collections.abc import Callable

    from markdown_it import MarkdownIt
    from textual.app import ComposeResult
    from textual.widgets import Markdown
    from textual.widgets.markdown import MarkdownStream

    from chatapp.history import Message
    from chatapp.markdown import Tame

Deed = Literal["edit", "again", "copy", "code", "older", "newer", "heat", "latencies", "fork"]


class Said(Vertical):
    """A message of a conversation; with the focus, keys act on it."""

    can_focus = True
    BINDING_GROUP_TITLE = "Message"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "app.focus_previous", "Up", show=False, id="message.up"),
        Binding("down,j", "app.focus_next", "Down", show=False, id="message.down"),
        Binding("e", "want('edit')", "Edit", id="message.edit"),
        Binding("r", "want('again')", "Again", id="message.again"),
        Binding("c", "want('copy')", "Copy", id="message.copy"),
        Binding("b", "want('code')", "Copy code", id="message.code"),
        Binding("left,left_square_bracket", "want('older')", "Older", key_display="←", id="message.older"),
        Binding("right,right_square_bracket", "want('newer')", "Newer", key_display="→", id="message.newer"),
        Binding("t", "want('heat')", "Tokens", id="message.heat"),
        Binding("l", "want('latencies')", "Latencies", id="message.latencies"),
        Binding("f", "want('fork')", "Fork", id="message.fork"),
    ]

    @dataclass
    class Wanted(Event):
        """Something is to be done with this message."""

        deed: Deed
        said: Message

    def __init__(self, said: Message) -> None:
        super().__init__(classes=said.role)
        self.said = said
        self.foot = Static("", markup=False, classes="foot")
        self.show_foot("")

    def action_want(self, deed: Deed) -> None:
        self.post_message(self.Wanted(deed, self.said))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        mine, several = self.said.role == "user", len(self.said.versions) > 1
        match parameters:
            case ("edit",):
                return mine
            case ("again" | "code" | "heat" | "latencies",):
                return self.said.role == "assistant"
            case ("older" | "newer",):
                return several
        return True

    def update(self, said: Message) -> None:
        """The same message, as it is now."""
        self.said = said
        self.show_foot("")

    def show_foot(self, mark: str) -> None:
        """The line below: which of several versions it is, and how it ended."""
        parts = [mark or ENDINGS.get(self.said.finish_reason or "", "")]
        line = "   ".join(part for part in (version(self.said), *parts) if part)
        self.foot.update(line)
        self.foot.display = bool(line)


ENDINGS = {"cancelled": "■ stopped", "length": "■ cut off by its length"}


class Question(Said):
    """What the user said, or what all answers are to keep to."""

    def compose(self) -> ComposeResult:
        from chatapp.markdown import cut

        yield Static(printable(cut(self.said.text)), markup=False, classes="body")
        yield self.foot


class Answer(Said):
    """What the model said: Markdown while it grows and for a while after, then one widget."""

    def __init__(
        self, said: Message, parser: Callable[[], MarkdownIt], *, settled: bool = False, tame: Tame | None = None
    ) -> None:
        super().__init__(said)
        self.parser, self.settled = parser, settled
        self.tame = tame
        """What makes fragments harmless, where the answer is still being written."""
        self.stream: MarkdownStream | None = None

    def compose(self) -> ComposeResult:
        self.body = self.made()
        yield self.body
        yield self.foot

    def made(self) -> Markdown | Static:
        """The widget of the text."""
        from chatapp.markdown import rendered, tamed

        if self.settled:
            return Static(rendered(self.said.text), classes="body")
        from chatapp.tui.chat.formatted import Formatted  # slow to import, so not before it is needed

        text = self.tame.feed(printable(self.said.text)) if self.tame else tamed(self.said.text)
        return Formatted(text, parser_factory=self.parser, open_links=False, classes="body")

    async def grow(self, text: str) -> None:
        """Add to the answer, printable text."""
        from textual.widgets import Markdown

        assert self.tame and isinstance(self.body, Markdown)
        if self.stream is None:
            self.stream = Markdown.get_stream(self.body)
        if shown := self.tame.feed(text):
            await self.stream.write(shown)

    async def finish(self, said: Message, mark: str = "") -> None:
        """The answer has ended: this is what was kept; `mark` says how, where that matters."""
        from textual.widgets import Markdown

        from chatapp.markdown import tamed

        if self.stream:
            await self.stream.stop()
            self.stream = None
        self.said, self.tame = said, None
        if isinstance(self.body, Markdown):
            await self.body.update(tamed(said.text))  # the whole, with what was held back
        self.show_foot(mark)

    async def settle(self) -> None:
        """Become one widget: an answer as Markdown costs a dozen."""
        if not self.settled and not self.stream:
            self.settled, before = True, self.body
            self.body = self.made()
            await self.mount(self.body, before=self.foot)
            await before.remove()
