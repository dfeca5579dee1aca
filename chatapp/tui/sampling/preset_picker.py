"""Screen: choose a preset, showing what each would change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from chatapp.generation import Options
from chatapp.settings import presets
from chatapp.settings.presets import Preset, PresetError
from chatapp.text.printable import printable
from chatapp.tui.opening import Front, Opening
from chatapp.tui.sampling.fields import FIELDS
from chatapp.tui.sampling.library import Library, draw_name
from chatapp.tui.sampling.preview import Look, Previews, draw

if TYPE_CHECKING:
    from chatapp.generation.decoding.preview import Preview

KEYS = (
    "[@click=screen.apply]enter[/] apply  [@click=screen.name('save')]s[/] save as  "
    "[@click=screen.name('rename')]r[/] rename  [@click=screen.delete]d[/] delete  "
    "[@click=app.simulate_key('escape')]esc[/] cancel"
)


class PresetPicker(Library[Mapping[str, Any] | None]):  # Any: what Options takes
    """A list of presets; dismisses with the options that differ from the model's defaults, or None."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (56, "-wide")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "name('save')", "Save as", id="presets.save"),
        Binding("r", "name('rename')", "Rename", id="presets.rename"),
        Binding("d,delete", "delete", "Delete", key_display="d", id="presets.delete"),
        Binding("escape", "dismiss(None)", "Cancel", key_display="esc", id="presets.leave"),
    ]

    def __init__(self, path: Path, defaults: Options, chosen: Mapping[str, Any], *, look: Look | None = None) -> None:
        """`path` is the presets file, `chosen` the current options, `look` as in the drawer."""
        super().__init__()
        self.path, self.defaults, self.chosen = path, defaults, dict(chosen)
        self.previews = Previews(look, self, self.take_preview) if look else None
        self.preview: Preview | None = None
        self.presets: dict[str, Preset] = {}

    @classmethod
    def over(cls, front: Front) -> Opening:
        """Choose a preset for the current conversation."""

        def take(options: Mapping[str, Any] | None) -> None:
            if options is not None:
                front.choose_options(options)

        options = front.dialogue.setup.options
        return cls(front.workspace.home / "presets.toml", front.engine.defaults, options, look=front.look), take

    def compose(self) -> ComposeResult:
        yield from self.compose_around("Presets", Static(id="changes", markup=False), KEYS)

    def on_mount(self) -> None:
        self.fill(None)

    def fill(self, name: str | None) -> None:
        """Read the presets and highlight one; None: the one that equals the current options."""
        self.refuse("")
        try:
            self.presets = presets.read(self.path)
        except PresetError as error:
            self.presets = {preset.name: preset for preset in presets.BUILT_IN}
            self.refuse(str(error))
        names = self.query_one(OptionList)
        names.clear_options()
        names.add_options(Option(draw_name(one.name, one.built_in, 28)) for one in self.presets.values())
        if name is None:
            name = next((one.name for one in self.presets.values() if self.result(one) == self.chosen), "")
        if self.presets:
            names.highlighted = list(self.presets).index(name) if name in self.presets else 0

    @property
    def highlighted(self) -> Preset:
        return list(self.presets.values())[self.query_one(OptionList).highlighted or 0]

    def result(self, preset: Preset) -> dict[str, Any]:
        """The options after applying a preset."""
        options = preset.over(self.chosen)
        return {name: value for name, value in options.items() if value != getattr(self.defaults, name)}

    @on(OptionList.OptionHighlighted)
    def show_changes(self) -> None:
        if self.warned:
            self.warned = ""
            self.refuse("")
        if self.previews:
            self.previews.ask(replace(self.defaults, **self.result(self.highlighted)))
        self.show()

    def take_preview(self, preview: Preview | None, error: str) -> None:
        """Show a preview below the changes."""
        self.preview = preview
        self.show()

    def show(self) -> None:
        """Show the use of the highlighted preset, what it changes, and a preview."""
        preset = self.highlighted
        before, after = replace(self.defaults, **self.chosen), replace(self.defaults, **self.result(preset))
        lines = [Content.styled(preset.about or "your own", "$muted"), Content()]
        for field in FIELDS:
            if field.kind in ("choice", "answer") or getattr(before, field.name) == getattr(after, field.name):
                continue
            old, new = (printable(field.show(getattr(options, field.name))) for options in (before, after))
            lines.append(Content.assemble(f"{field.label:13}", (old, "$muted"), " → ", (new, "bold $accent")))
        if len(lines) == 2:
            lines.append(Content.styled("these options are in use", "$muted"))
        changes = self.query_one("#changes", Static)
        room = changes.size.height - len(lines) - 1
        if self.preview and room > 3:
            lines += [Content(), *draw(self.preview, changes.content_size.width, room)]
        changes.update(Content("\n").join(lines))

    def on_resize(self) -> None:
        self.call_after_refresh(self.show)

    # Actions

    @on(OptionList.OptionSelected)
    def action_apply(self) -> None:
        self.dismiss(self.result(self.highlighted))

    def action_delete(self) -> None:
        preset = self.highlighted
        self.delete(preset.name, preset.built_in, lambda: presets.delete(self.path, preset.name))

    def action_name(self, purpose: Literal["save", "rename"]) -> None:
        """Save the current options under a name, or rename the highlighted preset."""
        preset, self.warned = self.highlighted, ""

        def rename(new: str) -> str:
            return self.act(lambda: presets.rename(self.path, preset.name, new), new)

        def save(new: str) -> str:
            if new in self.presets and not self.was_warned(new):
                return f"the preset {new!r} exists: press enter again to replace it"
            return self.act(lambda: presets.save(self.path, new, self.chosen), new)

        if purpose == "save":
            self.ask_name("Name for your current options", "", save)
        elif preset.built_in:
            self.refuse(f"the preset {preset.name!r} is built in and cannot be changed")
        else:
            self.ask_name("New name", preset.name, rename)
