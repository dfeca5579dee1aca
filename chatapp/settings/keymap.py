"""The user's keys: `keys.toml` binds actions by their ids, and turns on vim keys."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from textual.keys import KEY_NAME_REPLACEMENTS, REPLACED_KEYS

from backends.suggest import suggest
from chatapp.settings import toml_files
from chatapp.settings.settings import SettingsError


@dataclass(frozen=True)
class Action:
    """An action that can be bound to keys."""

    id: str
    """For example `chat.stop`."""
    keys: tuple[str, ...]
    """Its default keys."""
    where: str
    """The widget or screen it belongs to; a key can have only one action there."""


@dataclass(frozen=True)
class Keymap:
    """The user's keys, as far as they are valid."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """By action id, its keys separated by commas, as `App.set_keymap` takes them."""
    vim: bool = False
    complaints: tuple[str, ...] = ()
    """One message for each invalid entry."""


class _Unusable(Exception):
    """A key that cannot be bound."""


def read(path: Path, actions: Iterable[Action]) -> Keymap:
    """Read the user's keys; invalid entries are left out and reported in `complaints`."""
    try:
        entries = toml_files.read(path, "keys", SettingsError)
    except SettingsError as error:
        return Keymap(complaints=(str(error),))
    known = {action.id: action for action in actions}
    chosen: dict[str, str] = {}
    complaints: list[str] = []
    vim = entries.pop("vim", False)
    if not isinstance(vim, bool):
        complaints.append(f"vim must be true or false, not {vim!r}")
    for name, value in _flat(entries):
        if name not in known:
            hint = suggest(name, known, "for the ids, see the help screen (F1)")
            complaints.append(f"unknown action {name}; {hint}")
            continue
        try:
            chosen[name] = ",".join(_keys(value))
        except _Unusable as error:
            complaints.append(f"{name}: {error}")
    for name, reason in _clashes(chosen, known):
        del chosen[name]
        complaints.append(reason)
    return Keymap(chosen, vim is True, tuple(f"{complaint} (in {path})" for complaint in complaints))


def _flat(entries: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """The entries with their full ids: TOML reads `chat.stop = ...` and `[chat]` as tables."""
    for name, value in entries.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _keys(value: object) -> list[str]:
    """The keys of an entry: a text, perhaps with commas, or a list of texts."""
    texts = value if isinstance(value, list) else [value]
    if isinstance(value, str) and value != ",":
        texts = value.split(",")
    keys = [key(text) for text in texts if isinstance(text, str) and text]
    if not keys or len(keys) < len(texts):
        raise _Unusable(f'a key is written like "ctrl+g", not {value!r}')
    return keys


def _clashes(chosen: Mapping[str, str], known: Mapping[str, Action]) -> Iterator[tuple[str, str]]:
    """Chosen keys that another action already has in the same place, each with a complaint."""
    taken: dict[tuple[str, str], str] = {}
    for name, action in known.items():
        for one in () if name in chosen else action.keys:
            taken[action.where, one] = name
    for name in list(chosen):
        where = known[name].where
        for one in chosen[name].split(","):
            other = taken.setdefault((where, one), name)
            if other == name and one not in known[name].keys:
                other = next((held for (_, key), held in taken.items() if key == one and _meet(held, name)), name)
            if other != name:
                yield name, f"{name} cannot be {one}, which is the key of {other}; change that first"
                break


def _meet(one: str, other: str) -> bool:
    """Whether two ids can be active at once: the app's always are, and the chat's while the prompt is."""
    places = {one.partition(".")[0], other.partition(".")[0]}
    return len(places) > 1 and ("app" in places or ("chat" in places and not places.isdisjoint({"prompt", "notebook"})))


# Names of keys

MODIFIERS = ("ctrl", "alt", "shift", "super", "meta", "hyper")
NAMED = (
    *("escape", "enter", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"),
    *("up", "down", "left", "right", *(f"f{number}" for number in range(1, 25))),
)
ALSO = {
    "esc": "escape",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "pgup": "pageup",
    "page_up": "pageup",
    "pgdn": "pagedown",
    "page_down": "pagedown",
    "control": "ctrl",
    "option": "alt",
    "cmd": "super",
    "command": "super",
}
"""Other names that people write."""
SAME = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape", "ctrl+h": "backspace"}
"""Keys that terminals send as another key."""


def key(text: str) -> str:
    """A key by Textual's name."""
    before, _, last = text.rpartition("+")
    name = last.strip() or ("+" if "+" in text else " ")  # the key + itself has an empty last part
    modifiers = [ALSO.get(one.strip().lower(), one.strip().lower()) for one in before.split("+") if one.strip()]
    name = name if len(name) == 1 else ALSO.get(name.lower(), name.lower())
    for modifier in modifiers:
        if modifier not in MODIFIERS:
            raise _Unusable(f"{modifier!r} in {text!r} is not a modifier; choose from {', '.join(MODIFIERS)}")
    if modifiers == ["shift"] and len(name) == 1:
        modifiers, name = [], name.upper()
    elif "ctrl" in modifiers:
        name = name.lower()
    found = "+".join([*sorted(modifiers, key=MODIFIERS.index), _named(name, text)])
    if found in SAME:
        raise _Unusable(f"terminals send {SAME[found]} for {text}; write {SAME[found]}")
    return found


def _named(name: str, text: str) -> str:
    """Textual's name of a key without modifiers."""
    if name == " ":
        return "space"
    if name in NAMED or (len(name) == 1 and name.isalnum()):
        return name
    if len(name) == 1 and name.isprintable():
        long = unicodedata.name(name, "").lower().replace(" ", "_").replace("-", "_")
        return KEY_NAME_REPLACEMENTS.get(long, long)
    if name in REPLACED_KEYS or _is_character(name):
        return name
    near = suggest(name, [*NAMED, *ALSO])
    raise _Unusable(f"unknown key {text!r}" + (f"; {near}" if near else ""))


def _is_character(name: str) -> bool:
    """Whether this is the name of a character, such as question_mark."""
    for spelled in (name.replace("_", " "), name.replace("_", "-"), name.replace("_", "-", 1).replace("_", " ")):
        try:
            return unicodedata.lookup(spelled.upper()).isprintable()
        except KeyError:
            continue
    return False
