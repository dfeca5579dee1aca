"""The box where messages are typed: sending, what was asked before, commands, pastes."""

from collections.abc import Sequence
from threading import Event

import pytest
from textual import events

from chatapp.tui.prompt import Prompt
from chatapp.tui.prompt.completion import cut_arguments
from support.patience import PATIENCE
from support.prompt_page import earlier, page

# Sending


async def test_enter_sends_and_empties_the_box_at_once() -> None:
    async with page() as driver:
        await driver.type("why?\nand then\n")
        assert driver.texts == ["why?", "and then"]
        assert driver.prompt.draft == ""


async def test_ctrl_j_adds_a_line_and_the_box_grows_to_ten_rows() -> None:
    async with page() as driver:
        for _ in range(14):
            await driver.type("line")
            await driver.press("ctrl+j")
        assert driver.prompt.size.height == 10
        await driver.press("enter")
        assert driver.texts == ["\n".join(["line"] * 14)]
        await driver.until(lambda: driver.prompt.size.height == 1)


@pytest.mark.parametrize("text", ["", "  ", "\n\n"])
async def test_nothing_is_not_sent(text: str) -> None:
    async with page() as driver:
        driver.prompt.draft = text
        await driver.press("enter")
        assert driver.app.got == []


async def test_between_fences_enter_is_a_new_line() -> None:
    async with page() as driver:
        await driver.type('"""\n/one\n\ntwo\n"""\n')
        await driver.type('"""three"""\n')
        await driver.type('not """ a fence\n')
        assert driver.texts == ["/one\n\ntwo", "three", 'not """ a fence']
        assert driver.commands == []


async def test_a_line_with_one_slash_is_a_command_and_with_two_is_text() -> None:
    async with page() as driver:
        await driver.type("/clear\n")
        await driver.type("//etc is a folder\n")
        await driver.type("/unknown thing\n")
        assert driver.commands == ["/clear", "/unknown thing"]
        assert driver.texts == ["/etc is a folder"]


async def test_a_sent_text_comes_back_with_undo_and_a_refused_one_in_front_of_what_was_typed_since() -> None:
    async with page() as driver:
        await driver.type("first\n")
        await driver.press("ctrl+z")
        assert driver.prompt.draft == "first"
        await driver.press("enter")
        await driver.type("second")
        driver.prompt.give_back("first")
        assert driver.prompt.draft == "first\nsecond"


async def test_a_rebound_key_sends_and_enter_is_a_new_line_then() -> None:
    async with page() as driver:
        driver.app.set_keymap({"prompt.submit": "ctrl+s"})
        await driver.type("one\ntwo")
        assert driver.texts == []
        await driver.press("ctrl+s")
        assert driver.texts == ["one\ntwo"]


async def test_ctrl_u_and_ctrl_k_take_the_line_and_not_the_row_of_a_line_that_is_wrapped() -> None:
    async with page() as driver:
        driver.prompt.draft = "first\n" + "many words " * 30
        assert driver.prompt.wrapped_document.height > 3
        await driver.press("ctrl+u")
        assert driver.prompt.draft == "first\n"
        await driver.press("ctrl+z", "up", "up", "ctrl+a", "ctrl+k")
        row, column = driver.prompt.cursor_location
        assert row == 1 and column > 0 and driver.prompt.draft == "first\n" + ("many words " * 30)[:column]
        await driver.press("ctrl+u", "ctrl+u")
        assert driver.prompt.draft == "first"  # at its start, the line is joined with the one before


async def test_a_dropped_file_stands_apart_from_the_word_before_it() -> None:
    async with page() as driver:
        driver.prompt.insert_apart("@notes.md")
        await driver.type("and look at")
        driver.prompt.insert_apart("@a.py")
        assert driver.prompt.draft == "@notes.md and look at @a.py "


# What was asked before


async def test_up_and_down_walk_through_what_was_asked_and_keep_the_draft() -> None:
    async with page(Prompt(past=earlier)) as driver:
        await driver.type("a draft")
        seen = []
        for key in ("up", "up", "up", "up", "down", "down", "down", "down", "down"):
            await driver.press(key)
            await driver.until(lambda: all(worker.is_finished for worker in driver.app.workers))
            seen.append(driver.prompt.draft)
        assert seen[:4] == ["explain this", "two\nlines", "oldest", "oldest"]
        assert seen[4:] == ["two\nlines", "explain this", "a draft", "a draft", "a draft"]


async def test_ctrl_up_walks_from_anywhere_and_what_was_changed_on_the_way_stays() -> None:
    async with page(Prompt(past=earlier)) as driver:
        driver.prompt.draft = "three\nlines\nhere"
        await driver.press("up")
        assert driver.prompt.cursor_location[0] == 1
        await driver.press("ctrl+up")
        await driver.until(lambda: driver.prompt.draft == "explain this")
        await driver.type("!")
        await driver.press("ctrl+up", "ctrl+down")
        assert driver.prompt.draft == "explain this!"
        await driver.press("ctrl+down")
        assert driver.prompt.draft == "three\nlines\nhere"
        await driver.press("ctrl+z")
        assert driver.prompt.draft == "explain this!"


async def test_what_was_just_sent_is_the_latest_and_counts_once() -> None:
    async with page(Prompt(past=earlier)) as driver:
        await driver.type("new\nnew\n")
        await driver.press("up")
        await driver.until(lambda: driver.prompt.draft == "new")
        await driver.press("up")
        assert driver.prompt.draft == "explain this"


async def test_a_slow_disk_holds_nobody_up() -> None:
    ready = Event()

    def slow() -> Sequence[str]:
        ready.wait(PATIENCE)
        return ["from the disk"]

    async with page(Prompt(past=slow)) as driver:
        for key in "typed":
            driver.prompt.post_message(events.Key(key, key))
        await driver.until(lambda: driver.prompt.draft == "typed")
        driver.prompt.action_recall(1)
        ready.set()
        await driver.until(lambda: driver.prompt.draft == "from the disk")


async def test_an_earlier_prompt_is_suggested_and_right_takes_it() -> None:
    async with page(Prompt(past=earlier)) as driver:
        await driver.type("exp")
        await driver.until(lambda: driver.prompt.suggestion == "lain this")
        await driver.until(lambda: "explain this" in driver.picture)
        await driver.press("left")
        await driver.until(lambda: not driver.prompt.suggestion)
        await driver.press("right", "right")
        assert driver.prompt.draft == "explain this"
        await driver.press("enter")
        assert driver.texts == ["explain this"]


async def test_an_untaken_suggestion_is_not_sent() -> None:
    async with page(Prompt(past=earlier)) as driver:
        await driver.type("exp")
        await driver.until(lambda: driver.prompt.suggestion)
        await driver.press("enter")
        assert driver.texts == ["exp"]


# Commands


async def test_a_slash_offers_commands_with_what_they_do() -> None:
    async with page() as driver:
        await driver.type("/")
        assert driver.offered == ["/clear", "/set parameter NAME VALUE", "/set system TEXT", "/show [info]"]
        await driver.until(lambda: "start a new conversation" in driver.picture)
        await driver.type("s")
        await driver.press("down", "down", "down", "up")
        assert driver.prompt.popup.current and driver.prompt.popup.current.name == "/show [info]"
        await driver.press("tab")
        assert driver.prompt.draft == "/show "
        await driver.press("enter")
        assert driver.commands == ["/show"]


async def test_enter_completes_what_is_unfinished_and_sends_what_is_whole() -> None:
    async with page() as driver:
        await driver.type("/cl\n")
        assert (driver.prompt.draft, driver.commands) == ("/clear", [])
        await driver.type("\n")
        assert (driver.prompt.draft, driver.commands) == ("", ["/clear"])


async def test_escape_closes_the_list_until_something_else_is_typed() -> None:
    async with page() as driver:
        await driver.type("/s")
        await driver.press("escape")
        assert driver.offered == [] and driver.prompt.draft == "/s"
        await driver.type("h\n")
        assert driver.commands == ["/sh"]
        await driver.type("/")
        assert driver.offered


async def test_a_click_takes_a_choice() -> None:
    async with page() as driver:
        await driver.type("/s")
        await driver.pilot.pause()
        await driver.pilot.click("Popup", offset=(5, 1))
        await driver.until(lambda: driver.prompt.draft == "/set system ")
        assert driver.prompt.has_focus


@pytest.mark.parametrize(
    ("name", "typed"), [("clear", "clear"), ("set parameter NAME VALUE", "set parameter "), ("show [info]", "show ")]
)
def test_arguments_are_left_to_be_typed(name: str, typed: str) -> None:
    assert cut_arguments(name) == typed


# Pastes


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("x\n" * 311 + "x", "[pasted 312 lines]"),
        ("x\n" * 312, "[pasted 312 lines]"),
        ("y" * 34_000, "[pasted 34,000 characters]"),
    ],
)
async def test_a_very_long_paste_is_folded_and_sent_in_full(text: str, mark: str) -> None:
    async with page() as driver:
        await driver.type("see ")
        await driver.paste(text)
        assert driver.prompt.text == f"see {mark}"
        assert driver.prompt.draft == f"see {text}"
        await driver.press("enter")
        assert driver.texts == [f"see {text}"]
        await driver.press("ctrl+z")
        assert driver.prompt.draft == f"see {text}"


async def test_a_folded_paste_can_be_expanded_and_folded_again_by_undo() -> None:
    async with page() as driver:
        text = "\n".join(map(str, range(300)))
        assert not driver.prompt.check_action("expand", ())
        await driver.paste(text)
        assert driver.prompt.check_action("expand", ())
        await driver.press("f4")
        assert driver.prompt.text == text
        await driver.press("ctrl+z")
        assert driver.prompt.text == "[pasted 300 lines]"


async def test_pastes_of_equal_length_are_told_apart_and_deleted_whole() -> None:
    async with page() as driver:
        first, second = "a\n" * 299 + "a", "b\n" * 299 + "b"
        for text in (first, second, first):
            await driver.paste(text)
        assert driver.prompt.text == "[pasted 300 lines][pasted 300 lines #2][pasted 300 lines]"
        await driver.press("backspace")
        assert driver.prompt.draft == first + second
        await driver.press("backspace", "ctrl+z")
        assert driver.prompt.draft == first + second


async def test_a_mark_that_nobody_pasted_is_only_text() -> None:
    async with page() as driver:
        await driver.type("[pasted 9 lines]\n")
        assert driver.texts == ["[pasted 9 lines]"]


async def test_a_paste_cannot_drive_the_terminal_and_keeps_its_lines() -> None:
    async with page() as driver:
        await driver.paste("one\rtwo\r\nthree \x1b]0;owned\x07\x9b31m\u202e")
        assert driver.prompt.text == "one\ntwo\nthree ␛]0;owned␇\ufffd31m\ufffd"
        driver.prompt.load_text("\x1b[2J")
        assert driver.prompt.text == "␛[2J"


# The editor


async def test_an_editor_that_fails_is_told_and_the_draft_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor")
    async with page() as driver:
        await driver.type("a draft")
        await driver.press("ctrl+g")
        await driver.until(lambda: driver.app._notifications)
        assert driver.prompt.draft == "a draft"
