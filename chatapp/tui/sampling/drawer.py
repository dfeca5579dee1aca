"""Widget: all sampling options, with a preview of the next token."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from chatapp.commands.commands import PRESETS, place_at
from chatapp.generation import OptionError, Options
from chatapp.text.printable import printable
from chatapp.tui.sampling.fields import (
    ANSWERS,
    FIELDS,
    LABEL,
    WHEN_FULL,
    Field,
    answer_from_lines,
    answer_to_lines,
    bias_from_lines,
    bias_to_lines,
    draw_field,
    measure_slider,
    stop_from_lines,
    stop_to_lines,
)
from chatapp.tui.sampling.preview import Look, Previews, draw

GRAMMARS = frozenset(ANSWERS)

if TYPE_CHECKING:
    from chatapp.conversation import WhenFull
    from chatapp.generation.decoding.preview import Preview


class SamplingDrawer(Widget, can_focus=True):
    """Sliders for a conversation's options, and a preview of the next token."""

    DEFAULT_CSS = """
    SamplingDrawer {
        width: 38;
        height: 100%;
        padding: 0 1;
        background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Change", key_display="←→", id="sampling.less"),
        Binding("right,l", "move(1)", "More", show=False, id="sampling.more"),
        Binding("shift+left,H", "move(-1, True)", "Finely", key_display="⇧←→", id="sampling.less_finely"),
        Binding("shift+right,L", "move(1, True)", "More, finely", show=False, id="sampling.more_finely"),
        Binding("up,k", "walk(-1)", "Up", show=False, id="sampling.up"),
        Binding("down,j", "walk(1)", "Down", show=False, id="sampling.down"),
        Binding("home", "walk(-99)", "First", show=False, id="sampling.first"),
        Binding("end", "walk(99)", "Last", show=False, id="sampling.last"),
        Binding("enter", "edit", "Type", id="sampling.type"),
        Binding("d,backspace,delete", "default", "Default", key_display="d", id="sampling.default"),
        Binding("p", place_at(PRESETS), "Presets", id="sampling.presets"),
        Binding("escape", "screen.sampling", "Close", key_display="esc", id="sampling.close"),
    ]

    @dataclass
    class Changed(Message):
        """The options have changed."""

        options: Mapping[str, Any]  # Any: what Options takes
        """The options that differ from the model's defaults, by name."""

    @dataclass
    class WhenFullChanged(Message):
        """The setting for a full context has changed."""

        value: WhenFull

    def __init__(
        self, defaults: Options, chosen: Mapping[str, Any], *, when_full: WhenFull = "stop", look: Look | None = None
    ) -> None:
        """`look` computes a preview; it is called in a thread, one call at a time."""
        super().__init__()
        self.look = look
        self.previews = Previews(look, self, self.take_preview) if look else None
        self.preview: Preview | None = None
        self.error = ""
        """Why a value was refused."""
        self.failure = ""
        """Why there is no preview."""
        self.place, self.first = 0, 0
        """The index of the current option, and of the first visible one."""
        self.typed: str | None = None
        """A value being typed."""
        self.away = False
        """Whether the focus is elsewhere."""
        self.defaults, self.chosen, self.when_full = defaults, dict(chosen), when_full

    def on_mount(self) -> None:
        self.look_again()

    @property
    def options(self) -> Options:
        return replace(self.defaults, **self.chosen)

    @property
    def field(self) -> Field:
        return FIELDS[self.place]

    def take(self, defaults: Options, chosen: Mapping[str, Any], when_full: WhenFull) -> None:
        """Show another conversation's options, without posting a message."""
        self.defaults, self.chosen, self.when_full = defaults, dict(chosen), when_full
        self.typed, self.error, self.preview = None, "", None
        self.look_again()

    def look_again(self) -> None:
        """Request a new preview."""
        if self.previews:
            self.previews.ask(self.options)
        self.refresh()

    def take_preview(self, preview: Preview | None, error: str) -> None:
        """Show a preview, or why there is none."""
        self.preview, self.failure = preview, error
        self.refresh()

    # Values

    def value(self, field: Field) -> Any:
        """The chosen value of an option, or its default."""
        if field.kind == "answer":
            return self.options.constraint or ""
        return self.when_full if field.kind == "choice" else getattr(self.options, field.name)

    def changed(self, field: Field) -> bool:
        if field.kind == "answer":
            return not GRAMMARS.isdisjoint(self.chosen)
        return self.when_full != "stop" if field.kind == "choice" else field.name in self.chosen

    def ask_for(self, answer: Mapping[str, Any]) -> None:
        """Set the constraint of the answer; an empty one removes it."""
        self.chosen = {name: value for name, value in self.chosen.items() if name not in GRAMMARS} | dict(answer)
        self.error = ""
        self.post_message(self.Changed(dict(self.chosen)))
        self.refresh()

    def choose(self, field: Field, value: Any) -> bool:
        """Set a value; returns whether it is valid, showing why not."""
        self.error = ""
        self.refresh()
        if value is None and field.ladder and getattr(self.defaults, field.name) is not None:
            value = field.ladder[-1]  # this model's options always have a limit
        if value == self.value(field):
            return True
        if field.kind == "choice":
            self.when_full = value
            self.post_message(self.WhenFullChanged(value))
            return True
        try:
            replace(self.options, **{field.name: value})
        except OptionError as error:
            self.error = str(error)
            return False
        if value == getattr(self.defaults, field.name):
            del self.chosen[field.name]
        else:
            self.chosen[field.name] = value
        self.post_message(self.Changed(dict(self.chosen)))
        self.look_again()
        return True

    # Keys

    def action_walk(self, rows: int) -> None:
        self.place = min(max(self.place + rows, 0), len(FIELDS) - 1)
        self.error = ""
        self.refresh()

    def action_move(self, direction: int, fine: bool = False) -> None:
        field, value = self.field, self.value(self.field)
        if field.kind == "answer":
            self.ask_for({"json_object": True} if direction > 0 else {})
        elif field.kind == "choice":
            place = WHEN_FULL.index(value) + direction
            self.choose(field, WHEN_FULL[min(max(place, 0), len(WHEN_FULL) - 1)])
        else:
            self.choose(field, field.move(value, direction, fine=fine))

    def action_default(self) -> None:
        field = self.field
        if field.kind == "answer":
            self.ask_for({})
            return
        self.choose(field, "stop" if field.kind == "choice" else getattr(self.defaults, field.name))
        if field.name in self.chosen:  # chosen, but equal to the default
            del self.chosen[field.name]
            self.post_message(self.Changed(dict(self.chosen)))

    def action_edit(self) -> None:
        """Type a number, edit the lines of a list, or take the next choice."""
        field = self.field
        if field.kind == "choice":
            self.choose(field, WHEN_FULL[(WHEN_FULL.index(self.when_full) + 1) % len(WHEN_FULL)])
        elif field.kind == "lines":
            self.edit_lines(field)
        elif field.kind == "answer":
            self.edit_answer()
        else:
            self.typed = ""
            self.refresh()

    def edit_answer(self) -> None:
        """Edit the constraint of the answer."""

        def check(lines: str) -> Any:
            from chatapp.generation.decoding.grammar import check_grammar

            answer = answer_from_lines(lines)
            check_grammar(replace(self.defaults, **answer))
            return answer

        hint = f"First line: {', '.join(ANSWERS)}; its value below. Empty: any text."
        self.write("What the answer must be", hint, answer_to_lines(self.options), check, self.ask_for)

    def edit_lines(self, field: Field) -> None:
        def check(lines: str) -> Any:
            value: Any = stop_from_lines(lines) if field.name == "stop" else bias_from_lines(lines)
            replace(self.options, **{field.name: value})
            return value

        value = self.value(field)
        if field.name == "stop":
            title, hint = "Stop texts", "One text per line; \\n is a new line, \\t a tab."
            lines = stop_to_lines(value)
        else:
            title, hint = "Token biases", "One ID=BIAS per line; 11=-inf forbids token 11."
            lines = bias_to_lines(value)
        self.write(title, hint, lines, check, partial(self.choose, field))

    def write(
        self, title: str, hint: str, lines: str, check: Callable[[str], Any], take: Callable[[Any], object]
    ) -> None:
        """Edit lines, and call `take` with their meaning unless the user cancels."""
        from chatapp.tui.sampling.lines_screen import LinesScreen

        def take_changed(value: Any) -> None:
            if value is not None:
                take(value)

        self.app.push_screen(LinesScreen(title, hint, lines, check), take_changed)

    async def _on_key(self, event: events.Key) -> None:
        # All keys are handled here, to keep their order: bindings run later than `_on_key`.
        bound = self.screen.active_bindings.get(event.key)
        typing = self.typed is not None
        if event.character and event.character in "0123456789.-" and self.field.kind in ("number", "seed"):
            self.typed = (self.typed or "") + event.character
        elif typing and event.key == "backspace":
            self.typed = (self.typed or "")[:-1]
        elif typing and event.key == "escape":
            self.typed, self.error = None, ""
        elif typing and event.key == "enter":
            self.finish_typing()
        elif typing and (event.is_printable or not self.finish_typing()):
            pass
        elif bound and bound.node is self:
            await self.run_action(bound.binding.action)
        else:
            return
        event.stop()
        event.prevent_default()
        self.refresh()

    def finish_typing(self) -> bool:
        """Set the typed value; returns False if it is refused, and stays in typing."""
        if self.typed and not self.choose(self.field, self.field.parse(self.typed)):
            return False
        self.typed = None
        self.refresh()
        return True

    def on_blur(self) -> None:
        self.away = True
        self.refresh()

    def on_focus(self) -> None:
        """Update the preview: the text may have changed meanwhile."""
        if self.away:
            self.preview = None
            self.look_again()
        self.away = False
        self.refresh()

    # The mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        offset = event.get_content_offset(self)
        place = self.first + offset.y - 1 if offset else -1
        if offset and 0 < offset.y < 1 + self.rows and place < len(FIELDS):
            self.place, self.typed, self.error = place, None, ""
            self.refresh()
            if self.field.ladder and 0 <= offset.x - LABEL < measure_slider(self.size.width):
                self.capture_mouse()
                self.slide(offset.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self.slide(event.x - self.gutter.left)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.roll(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.roll(event, -1)

    def roll(self, event: events.MouseEvent, rows: int) -> None:
        """Walk by the wheel, as by the arrow keys."""
        event.stop()
        if self.finish_typing():
            self.action_walk(rows)

    def slide(self, x: int) -> None:
        """Set the value at a column of the slider, clamped to its ends."""
        last = measure_slider(self.size.width) - 1
        self.choose(self.field, self.field.at(min(max(x - LABEL, 0), last) / last))

    # Lines

    @property
    def rows(self) -> int:
        """Visible rows of options."""
        return min(len(FIELDS), max(1, self.size.height - 1 - len(self.refusal)))

    @property
    def refusal(self) -> list[str]:
        """The lines of `error`."""
        return textwrap.wrap(printable(self.error), max(1, self.size.width))

    def render(self) -> Content:
        width, rows = self.size.width, self.rows
        self.first = min(max(self.first, self.place - rows + 1), self.place, len(FIELDS) - rows)
        count = sum(map(self.changed, FIELDS))
        title = Content.assemble(
            ("Sampling", "bold $text"), (f"{count} changed".rjust(width - 8) if count else "", "$muted")
        )
        lines = [title, *(self.line(place) for place in range(self.first, self.first + rows))]
        lines += [Content.styled(line, "$error") for line in self.refusal]
        room = self.size.height - len(lines)
        if self.look and room > 2:
            lines.append(Content.styled("─" * width, "$muted 40%"))
            lines += self.preview_lines(width, room - 1)
        return Content("\n").join(lines)

    def preview_lines(self, width: int, height: int) -> list[Content]:
        if self.preview:
            return draw(self.preview, width, height)
        if self.failure:
            return [Content.styled(line, "$error") for line in textwrap.wrap(self.failure, width)][:height]
        waits = self.previews and self.previews.thread
        return [Content.styled("reading the prompt" if waits else "nothing to preview yet", "$muted")]

    def line(self, place: int) -> Content:
        field, here = FIELDS[place], place == self.place and self.has_focus
        typed, changed = self.typed if here else None, self.changed(field)
        return draw_field(field, self.value(field), self.size.width, changed=changed, here=here, typed=typed)
