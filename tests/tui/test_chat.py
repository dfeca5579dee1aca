"""Conversations on the screen: asked, answered, stopped, edited, found again."""

from pathlib import Path

import pytest
from textual.widgets import Markdown

from chatapp.tui.chat.message import Answer, Question, Said
from support.screen_driver import Driver, ask, running
from support.scripted_engine import ANSWER, ScriptedEngine


async def test_a_model_with_a_template_answers_messages() -> None:
    engine = ScriptedEngine(ANSWER, can_chat=True)
    async with running(engine) as driver:
        await ask(driver, "why?")
        assert engine.asked == ["why?"]
        assert driver.pane.query_one(Markdown).source == ANSWER
        assert driver.said == [("user", "why?"), ("assistant", ANSWER)]
        await driver.type("two")
        await driver.press("ctrl+j")
        await ask(driver, "lines")
        assert engine.asked[1] == f"why?\n{ANSWER}\ntwo\nlines"


async def test_again_answers_once_more_and_keeps_the_answer_before() -> None:
    engine = ScriptedEngine("Because.", can_chat=True, turns=["First."])
    async with running(engine) as driver:
        await ask(driver, "why?")
        await driver.type("a draft")
        await driver.press("ctrl+r")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        assert driver.pane.prompt.text == "a draft"
        assert engine.asked == ["why?", "why?"]
        assert driver.said == [("user", "why?"), ("assistant", "Because.")]
        await driver.until(lambda: "‹ 2 / 2 ›" in driver.picture)
        driver.pane.query(Answer).last().focus()
        await driver.press("left")
        await driver.until(lambda: driver.said[1] == ("assistant", "First."))
        await driver.until(lambda: "‹ 1 / 2 ›" in driver.picture)


async def test_several_answers_of_a_quick_model_end_and_one_is_kept() -> None:
    engine = ScriptedEngine(texts=("One.", "Two two.", "Three of them."), can_chat=True)
    async with running(engine, size=(120, 40)) as driver:
        await driver.type("why?")
        await driver.pane.several(3)
        await driver.until(lambda: driver.state == "● done")
        assert driver.pane.columns and not driver.pane.columns.writing
        await driver.press("2", "enter")
        await driver.until(lambda: driver.said == [("user", "why?"), ("assistant", "Two two.")])
        await driver.until(lambda: "‹ 2 / 3 ›" in driver.picture)


async def test_after_another_answer_the_keys_walk_its_versions() -> None:
    engine = ScriptedEngine("Because.", can_chat=True, turns=["First."])
    async with running(engine) as driver:
        await ask(driver, "why?")
        driver.pane.query(Answer).last().focus()
        await driver.press("r")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        await driver.press("left")
        await driver.until(lambda: driver.said[1] == ("assistant", "First."))


async def test_each_frame_of_another_version_begins_where_the_one_before_began() -> None:
    texts = [f"{name} begins.\n\n{'word ' * 900}\n\n{name} ends." for name in ("One", "Two")]
    async with running(ScriptedEngine(can_chat=True, turns=texts, context_length=9_000)) as driver:
        await ask(driver, "why?")
        await driver.press("ctrl+r")
        await driver.until(lambda: "Two ends." in driver.picture and not driver.pane.reply)
        frames: list[str] = []
        painted = driver.screen.screen_layout_refresh_signal
        painted.subscribe(driver.pane, lambda screen: frames.append(driver.picture), immediate=True)
        driver.pane.page.release_anchor()
        await driver.pilot.resize_terminal(80, 40)
        await driver.until(lambda: frames)
        assert all(frame.count("word word") > 80 for frame in frames)  # the rows that came are filled
        await driver.pilot.resize_terminal(80, 24)
        driver.pane.query(Answer).last().focus()
        await driver.until(lambda: "Two begins." in driver.picture)
        frames.clear()
        await driver.press("left")
        await driver.until(lambda: "One begins." in driver.picture)
        await driver.pilot.pause()
        assert frames and not any("ends." in frame for frame in frames)


async def test_another_version_shows_how_much_of_the_context_that_one_takes(tmp_path: Path) -> None:
    engine = ScriptedEngine("Because.", can_chat=True, turns=["It has many reasons."])
    async with running(engine, history=tmp_path / "history.db") as driver:
        await ask(driver, "why?")
        before = driver.pane.heading.used
        driver.pane.query(Answer).last().focus()
        await driver.press("r")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        now, driver.pane.heading.left_out = driver.pane.heading.used, 2  # as where it no longer fits
        await driver.press("left")
        await driver.until(lambda: driver.said[1] == ("assistant", "It has many reasons."))
        await driver.pilot.pause()
        assert driver.pane.heading.used == driver.pane.heading.held == before > now
        assert not driver.pane.heading.left_out


async def test_the_last_prompt_comes_back_first(tmp_path: Path) -> None:
    engine = ScriptedEngine("Because.", can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await ask(driver, "one", "two")
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.press("up")
        await driver.until(lambda: driver.pane.prompt.text == "two")


async def test_an_edited_message_is_answered_anew_and_the_old_one_stays_a_version() -> None:
    engine = ScriptedEngine("Yes.", can_chat=True)
    async with running(engine) as driver:
        await ask(driver, "one", "two")
        await driver.type("unsent")
        driver.pane.query(Said).first().focus()
        await driver.press("e")
        assert driver.pane.prompt.text == "one"
        await driver.type(" more\n")
        await driver.until(lambda: len(engine.asked) == 3 and not driver.writing)
        assert driver.said == [("user", "one more"), ("assistant", "Yes.")]
        assert driver.pane.prompt.text == "unsent"
        driver.pane.query(Said).first().focus()
        await driver.press("left")
        await driver.until(lambda: len(driver.said) == 4)
        assert driver.said[2] == ("user", "two")


async def test_escape_leaves_an_edit_and_brings_the_draft_back() -> None:
    engine = ScriptedEngine("Yes.", can_chat=True)
    async with running(engine) as driver:
        await ask(driver, "one")
        await driver.type("unsent")
        driver.pane.query(Said).first().focus()
        await driver.press("e", "escape")
        assert driver.pane.prompt.text == "unsent"
        assert len(driver.said) == 2


async def test_a_message_sent_while_the_model_writes_waits_for_its_turn() -> None:
    engine = ScriptedEngine("Yes, that is so.", can_chat=True, pause_after=2)
    async with running(engine) as driver:
        await driver.type("one\n")
        await driver.wrote(2)
        await driver.type("two\n")
        await driver.until(lambda: "Waiting: two" in driver.picture)
        engine.pause_after = None
        engine.go.set()
        await driver.until(lambda: len(driver.said) == 4 and not driver.writing)
        assert [text for _, text in driver.said] == ["one", "Yes, that is so.", "two", "Yes, that is so."]


async def test_stopping_gives_waiting_messages_back() -> None:
    async with running(ScriptedEngine("Yes, that is so.", can_chat=True, pause_after=2)) as driver:
        await driver.type("one\n")
        await driver.wrote(2)
        await driver.type("two\nthree\nfour")
        await driver.press("escape")
        await driver.until(lambda: not driver.writing)
        assert driver.pane.prompt.text == "two\nthree\nfour"
        assert "Waiting" not in driver.picture


async def edit_while_written(driver: Driver) -> None:
    """Ask, and send the question in other words, and another one, while it is answered."""
    await driver.type("one\n")
    await driver.wrote(2)
    driver.pane.query(Said).first().focus()
    await driver.press("e")
    await driver.until(lambda: "Editing:" in driver.picture)
    await driver.type(" and a half\n")
    await driver.until(lambda: "Waiting: one and a half" in driver.picture and "Editing:" not in driver.picture)
    await driver.type("two\n")
    await driver.until(lambda: "2 messages waiting: one and a half" in driver.picture)


async def test_an_edit_that_is_sent_while_the_model_writes_waits_and_is_seen_to() -> None:
    engine = ScriptedEngine("Yes, that is so.", can_chat=True, pause_after=2)
    async with running(engine) as driver:
        await edit_while_written(driver)
        engine.pause_after = None
        engine.go.set()
        await driver.until(lambda: len(driver.said) == 4 and driver.said[-1][1] and not driver.writing)
        assert [text for _, text in driver.said if "Yes" not in text] == ["one and a half", "two"]


async def test_a_message_that_waits_is_no_version_of_one_that_is_edited_meanwhile() -> None:
    engine = ScriptedEngine("Yes, that is so.", can_chat=True, pause_after=2)
    async with running(engine) as driver:
        await driver.type("one\n")
        await driver.wrote(2)
        await driver.type("two\n")
        driver.pane.query(Said).first().focus()
        await driver.press("e")
        await driver.until(lambda: "Editing:" in driver.picture and "Waiting: two" in driver.picture)
        engine.pause_after = None
        engine.go.set()
        await driver.until(lambda: len(driver.said) == 4 and not driver.writing)
        assert driver.said[0] == ("user", "one") and driver.said[2] == ("user", "two")
        assert driver.pane.outbox.editing and driver.pane.prompt.text == "one"


async def test_stopping_gives_an_edit_that_waits_back_as_one() -> None:
    async with running(ScriptedEngine("Yes, that is so.", can_chat=True, pause_after=2)) as driver:
        await edit_while_written(driver)
        await driver.press("escape")
        await driver.until(lambda: not driver.writing)
        await driver.until(lambda: driver.pane.prompt.text == "one and a half" and "Editing:" in driver.picture)
        await driver.press("escape")
        await driver.until(lambda: driver.pane.prompt.text == "two")


async def test_a_refused_message_returns_to_the_prompt() -> None:
    async with running(ScriptedEngine(can_chat=True, context_length=2)) as driver:
        await driver.type("much too long a question\n")
        await driver.until(lambda: driver.pane.prompt.text == "much too long a question" and driver.toasts)
        assert driver.said == [] and not driver.pane.query(Said)


async def test_a_stopped_answer_is_kept_and_marked() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True, pause_after=8)) as driver:
        await driver.type("why?\n")
        await driver.wrote(8)
        await driver.type("next")
        await driver.press("escape")
        await driver.until(lambda: not driver.writing)
        await driver.until(lambda: "■ stopped" in driver.picture)
        assert driver.pane.prompt.text == "next"


async def test_an_answer_that_must_be_something_says_whether_it_is() -> None:
    async with running(ScriptedEngine("yes", can_chat=True)) as driver:
        await driver.type('/set parameter choice "yes"\n')
        await driver.type("why?\n")
        await driver.until(lambda: "✓ valid" in driver.picture)
        await driver.type('/set parameter choice "no"\n')
        await driver.type("why?\n")
        await driver.until(lambda: "✗ not valid" in driver.picture)
        await driver.type("/set parameter choice none\n")
        await driver.type("why?\n")
        await driver.until(lambda: len(driver.said) == 6 and not driver.writing)
        await driver.until(lambda: driver.picture.count("valid") == 2)


async def test_a_message_stopped_before_its_answer_returns_to_the_prompt() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True, pause_after=0)) as driver:
        await driver.type("why?\n")
        await driver.until(lambda: driver.pane.reply)
        await driver.press("escape")
        await driver.until(lambda: driver.pane.prompt.text == "why?")
        assert not driver.writing and not driver.pane.query(Said)


async def test_messages_stopped_before_any_answer_return_in_their_order() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True, pause_after=0)) as driver:
        await driver.type("one\n")
        await driver.until(lambda: driver.pane.reply)
        await driver.type("two\nthree\nfour")
        await driver.press("escape")
        await driver.until(lambda: driver.pane.prompt.text == "one\ntwo\nthree\nfour")
        assert not driver.writing


async def test_old_answers_settle_into_one_widget_each_unless_somebody_reads_above() -> None:
    engine = ScriptedEngine("**Yes.**", can_chat=True)
    async with running(engine) as driver:
        await ask(driver, *map(str, range(9)))
        await driver.until(lambda: len(driver.pane.query(Markdown)) == 5)
        assert len(driver.pane.query(Answer)) == 9
        engine.pause_after = 1
        await driver.type("and now?\n")
        await driver.wrote(1)
        page = driver.pane.chat_page
        await driver.press("pageup")
        await driver.until(lambda: not page.is_vertical_scroll_end)
        engine.go.set()
        await driver.until(lambda: not page.answer and not page.changing.locked())
        assert len(driver.pane.query(Markdown)) == 6
        await ask(driver, "at the end again")
        assert len(driver.pane.query(Markdown)) == 5


async def test_the_last_conversation_is_there_again_at_the_next_start(tmp_path: Path) -> None:
    engine = ScriptedEngine("Because.", can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await ask(driver, "why?")
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.until(lambda: "Because." in driver.picture)
        await ask(driver, "really?")
        assert engine.asked[-1] == "why?\nBecause.\nreally?"
    async with running(engine, history=tmp_path / "history.db", resume=False) as driver:
        assert driver.said == []


async def test_conversations_go_on_side_by_side(tmp_path: Path) -> None:
    engine = ScriptedEngine("Because it is so.", can_chat=True, pause_after=3)
    async with running(engine, size=(120, 40), history=tmp_path / "history.db") as driver:
        await driver.type("first\n")
        await driver.wrote(3)
        first = driver.pane
        frames: list[str] = []
        driver.screen.screen_layout_refresh_signal.subscribe(first, lambda screen: frames.append(driver.picture))
        await driver.press("ctrl+n")
        await driver.type("a draft")
        await driver.until(lambda: "a draft" in driver.picture)
        assert driver.pane is not first and first.reply
        assert frames and all(frame.startswith(" chatty ") for frame in frames)
        await driver.press("ctrl+b")
        await driver.until(lambda: "● first" in driver.picture, "the busy conversation in the list")
        engine.go.set()
        await driver.until(lambda: not first.reply)
        await driver.press("enter")
        await driver.until(lambda: driver.pane is first)
        assert driver.said == [("user", "first"), ("assistant", "Because it is so.")]


async def test_a_conversation_is_renamed_deleted_and_brought_back(tmp_path: Path) -> None:
    engine = ScriptedEngine("Because.", can_chat=True)
    async with running(engine, size=(120, 40), history=tmp_path / "history.db") as driver:
        await ask(driver, "why?")
        await driver.press("ctrl+b", "r")
        await driver.until(lambda: "New title" in driver.picture)
        await driver.press("ctrl+u")
        await driver.type("Reasons\n")
        await driver.until(lambda: "Reasons" in driver.picture)
        await driver.press("d")
        await driver.until(lambda: driver.said == [])
        assert driver.screen.history and not driver.screen.history.list()
        await driver.press("u")
        await driver.until(lambda: driver.screen.history and driver.screen.history.list())


async def test_words_are_found_in_all_conversations_and_their_message_is_shown(tmp_path: Path) -> None:
    engine = ScriptedEngine("Because.", can_chat=True, turns=["A whale sings."])
    async with running(engine, size=(120, 40), history=tmp_path / "history.db") as driver:
        await ask(driver, "what sings?")
        await driver.press("ctrl+n")
        await ask(driver, "why?")
        await driver.press("f3")
        await driver.until(lambda: "Words in any" in driver.picture)
        await driver.type("whale sin")
        await driver.until(lambda: "1 match" in driver.picture)
        await driver.press("enter")
        await driver.until(lambda: driver.said[:1] == [("user", "what sings?")])
        await driver.until(lambda: isinstance(driver.app.focused, Answer))


async def test_a_conversation_is_exported_and_imported(tmp_path: Path) -> None:
    engine = ScriptedEngine("Because.", can_chat=True)
    async with running(engine, size=(120, 40), history=tmp_path / "history.db") as driver:
        await ask(driver, "why?")
        await driver.press("ctrl+b", "x", "ctrl+u")
        file = tmp_path / "why.json"
        await driver.type(f"{file}\n")
        await driver.until(file.exists)
        driver.screen.action_import()
        await driver.until(lambda: "Import from" in driver.picture)
        await driver.type(f"{file}\n")
        await driver.until(lambda: driver.screen.history and len(driver.screen.history.list()) == 2)


async def test_a_fork_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    engine = ScriptedEngine("Because.", can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await ask(driver, "one", "two")
        driver.pane.query(Answer).first().focus()
        await driver.press("f")
        await driver.until(lambda: len(driver.said) == 2)
        assert driver.screen.history and len(driver.screen.history.list()) == 2


@pytest.mark.parametrize("ask_again", ["ctrl+r", "f5", "/again", "/continue"])
@pytest.mark.parametrize("before", [(), ("one",)])
async def test_a_question_that_a_fork_ends_with_is_answered(
    tmp_path: Path, before: tuple[str, ...], ask_again: str
) -> None:
    async with running(ScriptedEngine("Because.", can_chat=True), history=tmp_path / "history.db") as driver:
        await ask(driver, *before, "two")
        driver.pane.query(Question).last().focus()
        await driver.press("f")
        await driver.until(lambda: driver.said[-1] == ("user", "two") and driver.pane.opened)
        if ask_again.startswith("/"):
            await driver.type(f"{ask_again}\n")
        else:
            await driver.press(ask_again)
        await driver.until(lambda: driver.said[-1] == ("assistant", "Because.") and not driver.writing)
        assert [text for role, text in driver.said if role == "user"] == [*before, "two"]


@pytest.mark.parametrize("command", ["/again", "/continue"])
async def test_where_nothing_was_said_nothing_is_answered_again(command: str) -> None:
    async with running(ScriptedEngine(can_chat=True)) as driver:
        await driver.type(f"{command}\n")
        await driver.until(lambda: driver.toasts == ["There is no question yet"])
        assert driver.pane.prompt.text == command


async def test_a_long_conversation_shows_its_end_and_more_when_scrolled(tmp_path: Path) -> None:
    from chatapp.history import History

    with History(tmp_path / "history.db") as history:
        number, parent = history.create("chat", model="chatty").id, None
        for place in range(60):
            role = "assistant" if place % 2 else "user"
            parent = history.add(number, role, f"message {place}", parent=parent).id  # type: ignore[arg-type]
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await driver.until(lambda: "message 59" in driver.picture)
        await driver.until(lambda: len(driver.pane.query(Said)) > 10)
        shown = len(driver.pane.query(Said))
        assert "earlier messages" in driver.pane.chat_page.earlier.render().plain  # type: ignore[union-attr]
        driver.pane.chat_page.scroll_to(y=0, animate=False, force=True)
        await driver.until(lambda: len(driver.pane.query(Said)) > shown)
        await driver.pane.page.reach(driver.pane.chat_page.branch[3].id)
        await driver.until(lambda: "message 3" in driver.picture)


async def test_a_conversation_opened_again_shows_how_much_of_the_context_it_takes(tmp_path: Path) -> None:
    engine = ScriptedEngine("Yes.", can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await ask(driver, "one", "two")
        used = driver.pane.heading.used
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.until(lambda: driver.pane.heading.used == used > 0)


async def test_a_click_on_a_number_says_how_many_answers_there_are_to_be() -> None:
    engine = ScriptedEngine("Yes.", can_chat=True)
    async with running(engine) as driver:
        await driver.type("one")
        await driver.press("f7")
        await driver.until(lambda: "How many answers" in driver.picture)
        rows = driver.picture.splitlines()
        row = next(place for place, line in enumerate(rows) if " 2   3   4 " in line)
        await driver.pilot.click(offset=(rows[row].index("3"), row))
        await driver.until(lambda: engine.options and not driver.writing)
        assert engine.options[0].n == 3


async def test_several_answers_are_asked_for_with_one_key_while_typing() -> None:
    engine = ScriptedEngine("Yes.", can_chat=True)
    async with running(engine) as driver:
        await driver.type("one")
        await driver.press("f7", "3")
        await driver.until(lambda: engine.options and not driver.writing)
        assert engine.options[0].n == 3 and engine.asked == ["one"]


async def test_of_several_answers_the_longest_counts_until_one_is_kept() -> None:
    engine = ScriptedEngine(texts=["a b c", "a", "a b c d e f"], can_chat=True)
    async with running(engine) as driver:
        await driver.type("one")
        await driver.press("f7", "3")
        await driver.until(lambda: driver.figures.tokens and not driver.writing)
        longest = driver.pane.heading.used
        await driver.press("left", "left", "right", "enter")
        await driver.until(lambda: not driver.pane.columns)
        kept = driver.said[1][1]
        assert longest - driver.pane.heading.used == 6 - len(kept.split())
