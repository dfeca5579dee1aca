"""Screen: help on keys and commands, filtered by typing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from chatapp.commands.actions import ACTIONS, listed
from chatapp.commands.commands import Action
from chatapp.settings import keymap
from chatapp.tui.widgets.textual_fixes import EndsOnce

MOUSE = (
    ("wheel", "scroll; so do page up and page down"),
    ("click", "go there; on a key in the last line, press it"),
    ("drag", "select text; ctrl+c copies it"),
    ("shift + drag", "the terminal's own selection"),
)


@dataclass(frozen=True)
class Row:
    """A line of help."""

    keys: str
    does: str
    id: str = ""
    """The action's id, for keys.toml."""
    quiet: bool = False
    """Whether it is shown only when searched for."""

    def matches(self, words: str) -> bool:
        """Whether it contains every word."""
        line = f"{self.keys} {self.does}".lower()
        return all(word in line for word in words.lower().split()) and not (self.quiet and not words)


@dataclass(frozen=True)
class Section:
    """The lines about one place."""

    title: str
    rows: list[Row]


class Help(EndsOnce, ModalScreen[None]):
    """The keys by the place where they work; typing filters them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1", "dismiss", "Back", id="help.back"),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-12)", show=False),
        Binding("pagedown", "scroll(12)", show=False),
    ]
    CSS = """
    Help {
        .window { width: 84; max-width: 100%; height: 90%; padding: 0 1; }
        .window Input { margin: 0; background: $panel; }
    }
    """

    def __init__(self, sections: Sequence[Section], keys_file: str) -> None:
        super().__init__()
        self.sections, self.keys_file = sections, keys_file

    def compose(self) -> ComposeResult:
        with Vertical(classes="window") as box:
            box.border_title, box.border_subtitle = "Help", "esc goes back"
            yield Input(placeholder="type to find a key or a command", compact=True, select_on_focus=False)
            with VerticalScroll(can_focus=False):
                yield Static(self.lines(""))

    @on(Input.Changed)
    def find(self, message: Input.Changed) -> None:
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.query_one(Static).update(self.lines(message.value))

    def action_scroll(self, rows: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=rows, animate=False)

    def lines(self, words: str) -> Content:
        """The matching lines by section."""
        parts: list[Content] = []
        for section in self.sections:
            rows = [row for row in section.rows if row.matches(words)]
            if rows:
                width = max(12, *(len(row.keys) for row in rows))
                parts += [Content(""), Content.styled(section.title, "bold $accent")]
                parts += [Content.assemble((f"  {row.keys:{width}}  ", "$accent"), row.does) for row in rows]
        if not parts:
            parts = [Content(""), Content.styled("Nothing matches.", "$muted")]
        about = (
            f'Change keys by their ids in {self.keys_file}, such as "chat.again" = "f12"; vim = true for vim-like keys.'
        )
        return Content("\n").join([*parts, Content(""), Content.styled(about, "$muted")])


def sections(screen: Screen[object], chosen: Mapping[str, str]) -> list[Section]:
    """The help: everyday keys, keys of the screen and its widgets, commands, the mouse, and action ids."""
    nodes = [screen, *(node for node in screen.walk_children() if node.display), screen.app]
    found: dict[str, list[Row]] = {}
    ids: dict[str, Row] = {}
    for node in nodes:
        rows = found.setdefault(title(node), [])
        for row in list_keys(node, chosen):
            if row not in rows:
                rows.append(row)
            if row.id:
                ids[row.id] = Row(row.id, row.keys + (", yours" if row.id in chosen else ""))
    places = [Section(name, rows) for name, rows in found.items() if any(not row.quiet for row in rows)]
    others = [Section(name, rows) for name, rows in found.items() if rows and all(row.quiet for row in rows)]
    daily = Section("Basics", [Row("^P", "every command by its name")])
    for action in ACTIONS:
        if action.daily:
            key = Binding(chosen.get(action.id, action.key).split(",")[0], "", "")
            daily.rows.append(Row(screen.app.get_key_display(key), described(action)))
    first = [daily, *places] if title(screen) == "Conversation" else [*places, daily]
    guide = [Section("Commands", [Row(usage, does) for usage, does in listed()])]
    guide.append(Section("Mouse", [Row(does, what) for does, what in MOUSE]))
    return [*first, *guide, *others, Section("Ids for keys.toml", list(ids.values()))]


def described(action: Action) -> str:
    """An action's title and description."""
    return f"{action.title}: {action.does}"


def title(node: DOMNode) -> str:
    """The title of a place: its BINDING_GROUP_TITLE, or the words of its class name."""
    if node.app is node:
        return "Everywhere"
    return node.BINDING_GROUP_TITLE or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).capitalize()


def list_keys(node: DOMNode, chosen: Mapping[str, str]) -> Iterator[Row]:
    """The key bindings of a node that have a description, with the action table's description if it has one."""
    words = {action.id: described(action) for action in ACTIONS if action.id}
    keys: dict[tuple[str, str, str], list[str]] = {}
    for bindings in node._bindings.key_to_bindings.values():
        for binding in bindings:
            if binding.description and not binding.system:
                mine = chosen.get(binding.id or "", binding.key).split(",")
                shown = [node.app.get_key_display(Binding(key, "", "")) for key in mine]
                known = keys.setdefault((binding.action, binding.description, binding.id or ""), [])
                known += [key for key in shown if key not in known]
    for (_, does, name), shown in keys.items():
        yield Row(" ".join(shown), words.get(name, does), name, quiet=not name)


def actions(*nodes: type[DOMNode]) -> list[keymap.Action]:
    """The actions with an id in these classes, for `keymap.read`."""
    places = {kind: node.__name__ for node in reversed(nodes) for kind in reversed(node.__mro__)}
    """Each class once, with the first place whose keys include its own."""
    found: dict[str, keymap.Action] = {}
    for kind, place in places.items():
        for binding in Binding.make_bindings(vars(kind).get("BINDINGS", ())):
            if binding.id:
                before = found[binding.id].keys if binding.id in found else ()
                found[binding.id] = keymap.Action(binding.id, (*before, binding.key), place)
    return list(found.values())
