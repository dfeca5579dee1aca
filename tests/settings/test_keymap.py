"""chatapp.settings.keymap: the keys that a user chose, and what is said about those that cannot be."""

from pathlib import Path

import pytest
from textual.app import App
from textual.binding import Binding
from textual.keys import Keys

from chatapp.settings import keymap
from chatapp.settings.keymap import Action

ACTIONS = (
    Action("chat.stop", ("escape",), "chat"),
    Action("chat.new", ("ctrl+n",), "chat"),
    Action("chat.again", ("ctrl+r", "f5"), "chat"),
    Action("heat.next", ("n",), "heat"),
    Action("app.quit", ("ctrl+q",), "app"),
    Action("prompt.newline", ("ctrl+j",), "prompt"),
)


def read(tmp_path: Path, text: str) -> keymap.Keymap:
    path = tmp_path / "keys.toml"
    path.write_text(text, encoding="utf-8")
    return keymap.read(path, ACTIONS)


def complaint(tmp_path: Path, text: str) -> str:
    """What is said about the only thing that is wrong, without the name of the file, which ends it."""
    found = read(tmp_path, text)
    [said] = found.complaints
    return said.removesuffix(f" (in {tmp_path / 'keys.toml'})")


def test_without_a_file_nothing_is_bound_and_nothing_said(tmp_path: Path) -> None:
    assert keymap.read(tmp_path / "keys.toml", ACTIONS) == keymap.Keymap()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('"chat.stop" = "ctrl+s"', {"chat.stop": "ctrl+s"}),
        ('chat.stop = "ctrl+s"', {"chat.stop": "ctrl+s"}),
        ('[chat]\nstop = "F2, ctrl+s"', {"chat.stop": "f2,ctrl+s"}),
        ('"chat.stop" = ["?", ","]', {"chat.stop": "question_mark,comma"}),
        ('"chat.stop" = "ctrl+n"\n"chat.new" = "f2"', {"chat.stop": "ctrl+n", "chat.new": "f2"}),
        ('"chat.stop" = "ctrl+n"\n"chat.new" = "escape"', {"chat.stop": "ctrl+n", "chat.new": "escape"}),
        ('"heat.next" = "ctrl+n"', {"heat.next": "ctrl+n"}),
        ('"chat.stop" = ","', {"chat.stop": "comma"}),
        ("", {}),
    ],
)
def test_any_action_can_have_other_keys(tmp_path: Path, text: str, keys: dict[str, str]) -> None:
    assert read(tmp_path, text) == keymap.Keymap(keys)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"chat.stopp" = "f2"', "unknown action chat.stopp; did you mean chat.stop?"),
        ('whale = "f2"', "unknown action whale; for the ids, see the help screen (F1)"),
        ('"chat.stop" = "ctrl+n"', "chat.stop cannot be ctrl+n, which is the key of chat.new; change that first"),
        ('"chat.stop" = "f5"', "chat.stop cannot be f5, which is the key of chat.again; change that first"),
        (
            '"chat.stop" = "f2"\n"chat.new" = "f2"',
            "chat.new cannot be f2, which is the key of chat.stop; change that first",
        ),
        ('"heat.next" = "ctrl+q"', "heat.next cannot be ctrl+q, which is the key of app.quit; change that first"),
        ('"app.quit" = "n"', "app.quit cannot be n, which is the key of heat.next; change that first"),
        ('"chat.new" = "ctrl+j"', "chat.new cannot be ctrl+j, which is the key of prompt.newline; change that first"),
        ('"chat.stop" = "excape"', "chat.stop: unknown key 'excape'; did you mean escape?"),
        ('"chat.stop" = "wahle"', "chat.stop: unknown key 'wahle'"),
        (
            '"chat.stop" = "cntrl+s"',
            "chat.stop: 'cntrl' in 'cntrl+s' is not a modifier; choose from ctrl, alt, shift, super,",
        ),
        ('"chat.stop" = "ctrl+m"', "chat.stop: terminals send enter for ctrl+m; write enter"),
        ('"chat.stop" = "ctrl+["', "chat.stop: terminals send escape for ctrl+[; write escape"),
        ('"chat.stop" = ""', """chat.stop: a key is written like "ctrl+g", not ''"""),
        ('"chat.stop" = []', """chat.stop: a key is written like "ctrl+g", not []"""),
        ('"chat.stop" = 5', """chat.stop: a key is written like "ctrl+g", not 5"""),
        ('vim = "yes"', "vim must be true or false, not 'yes'"),
    ],
)
def test_what_cannot_be_bound_is_told_and_the_rest_counts(tmp_path: Path, text: str, says: str) -> None:
    assert complaint(tmp_path, text).startswith(says)
    assert "chat.again" in read(tmp_path, '"chat.again" = "f9"\n' + text).keys


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    found = read(tmp_path, "vim = ")
    assert found.complaints[0].startswith(f"cannot read the keys in {tmp_path / 'keys.toml'}: ")
    assert found.keys == {}


def test_vim_like_keys_are_switched_on(tmp_path: Path) -> None:
    assert read(tmp_path, "vim = true") == keymap.Keymap(vim=True)


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("Ctrl+S", "ctrl+s"),
        ("shift+ctrl+Up", "ctrl+shift+up"),
        ("shift+a", "A"),
        ("A", "A"),
        ("Esc", "escape"),
        ("PgDn", "pagedown"),
        ("alt+Return", "alt+enter"),
        ("/", "slash"),
        ("+", "plus"),
        ("ctrl++", "ctrl+plus"),
        ("alt+-", "alt+minus"),
        ("_", "underscore"),
        ("ctrl+@", "ctrl+at"),
        (" ", "space"),
        ("ctrl+space", "ctrl+space"),
        ("question_mark", "question_mark"),
        ("full_stop", "full_stop"),
        ("é", "é"),
    ],
)
def test_keys_are_called_what_the_terminal_library_calls_them(written: str, key: str) -> None:
    assert keymap.key(written) == key


@pytest.mark.parametrize("character", [chr(code) for code in range(0x21, 0x7F) if not chr(code).isalnum()])
def test_every_character_has_the_name_that_the_terminal_library_gives_it(character: str) -> None:
    app = App[None]()
    app.set_keymap({"it": character})
    theirs = app._keymap["it"] if character != "," else "comma"
    assert keymap.key(character) == theirs


def test_every_named_key_of_the_terminal_library_can_be_bound() -> None:
    same = {"newline", *keymap.SAME, "ctrl-at"}
    mouse_and_parts = {"<any>", "<bracketed-paste>", "<cursor-position-response>", "<ignore>", "<sigint>"}
    apart = mouse_and_parts | {"<scroll-up>", "<scroll-down>", "<vt100-mouse-event>", "<windows-mouse-event>"}
    for one in {key.value for key in Keys} - same - apart - {"shift+ctrl+shift+escape"}:
        assert keymap.key(one)


async def test_a_bound_key_does_its_action_and_the_old_one_does_not(tmp_path: Path) -> None:
    class Stopped(App[None]):
        BINDINGS = [Binding("escape", "stop", id="chat.stop"), Binding("ctrl+r,f5", "again", id="chat.again")]
        done = ""

        def action_stop(self) -> None:
            self.done += "s"

        def action_again(self) -> None:
            self.done += "a"

    app = Stopped()
    app.set_keymap(read(tmp_path, '"chat.stop" = "f5"\n"chat.again" = "?"').keys)
    async with app.run_test() as pilot:
        await pilot.press("escape", "f5", "ctrl+r", "question_mark")
        assert app.done == "sa"
