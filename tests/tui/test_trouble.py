"""What goes wrong is told on the screen, which goes on with nothing lost."""

from dataclasses import replace
from pathlib import Path

from textual import events
from textual.widgets._toast import Toast

from chatapp.history import History
from support.screen_driver import ask, running
from support.scripted_engine import ScriptedEngine


async def test_a_conversation_that_another_chatapp_deleted_is_told_and_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with running(ScriptedEngine("Yes.", can_chat=True), history=path) as driver:
        await ask(driver, "one")
        await driver.press("ctrl+n")
        await ask(driver, "two")
        await driver.press("ctrl+b")
        await driver.until(lambda: driver.screen.sidebar and driver.screen.sidebar.option_count == 3)
        with History(path) as other:
            other.delete(1)
        for key in ("enter", "r", "x", "d"):
            assert driver.screen.sidebar
            driver.screen.sidebar.focus()
            driver.screen.sidebar.highlighted = 2
            await driver.press(key)
            await driver.until(lambda: "Conversation 1 was deleted" in "".join(driver.toasts), key)
            driver.app.clear_notifications()
            await driver.until(lambda: driver.screen.sidebar and driver.screen.sidebar.option_count == 2)
            with History(path) as other:
                other.undelete()
                driver.screen.list_conversations()
                other.delete(1)
        assert driver.said[0] == ("user", "two")


async def test_an_answer_of_another_model_cannot_be_gone_on_with() -> None:
    async with running(ScriptedEngine("Yes, it is.", can_chat=True)) as driver:
        await ask(driver, "one")
        assert driver.pane.dialogue and (answer := driver.pane.page.last("assistant"))
        driver.pane.dialogue.change(replace(driver.pane.dialogue.setup, model="other"))
        tokens = driver.pane.dialogue.tokens(answer.id)
        await driver.pane.go_on(answer, tokens[:1])
        await driver.until(lambda: "chatty wrote this answer" in "".join(driver.toasts))
        await ask(driver, "two")


async def test_a_message_that_cannot_be_asked_returns_to_the_prompt() -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True)) as driver:
        assert driver.pane.dialogue
        driver.pane.dialogue.change(replace(driver.pane.dialogue.setup, options={"temperature": -1}))
        await driver.type("one\n")
        await driver.until(lambda: driver.toasts)
        assert driver.pane.prompt.text == "one"
        driver.pane.dialogue.change(replace(driver.pane.dialogue.setup, options={}))
        await driver.type("\n")
        await driver.until(lambda: len(driver.said) == 2)


async def test_a_text_that_cannot_be_continued_stays_writable() -> None:
    async with running(ScriptedEngine("Yes.")) as driver:
        assert driver.pane.dialogue
        driver.pane.dialogue.change(replace(driver.pane.dialogue.setup, options={"temperature": -1}))
        await driver.type("one")
        await driver.press("ctrl+j")
        await driver.until(lambda: driver.toasts)
        await driver.type(" two")
        assert driver.text == "one two"


async def test_an_answer_kept_while_all_are_written_is_what_the_page_shows() -> None:
    engine = ScriptedEngine(texts=[" A" * 999, " F" * 999, " K" * 999], delay=0.001)
    async with running(engine) as driver:
        await driver.type("one")
        await driver.pane.several(3)
        await driver.until(lambda: driver.figures.tokens > 40)
        await driver.press("right", "enter")
        await driver.until(lambda: not driver.writing and not driver.pane.columns)
        await driver.until(lambda: driver.text == "".join(text for _, text in driver.said) and " F" in driver.text)
        assert not set("AK") & set(driver.text)


async def test_a_mouse_on_a_notification_that_goes_does_no_harm() -> None:
    async with running(ScriptedEngine(can_chat=True)) as driver:
        driver.app.notify("Look.")
        await driver.until(lambda: "Look." in driver.picture, "the notification")
        toast = driver.screen.query_one(Toast)
        x, y = toast.region.offset
        await toast.remove()
        for kind in (events.MouseDown, events.MouseMove, events.MouseUp):
            driver.screen._forward_event(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
        await driver.type("on")
        assert driver.pane.prompt.text == "on"
