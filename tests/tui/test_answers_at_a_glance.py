"""What is seen of an answer without asking: who wrote it, when, how quickly, in lines that can be read."""

import time

from chatapp.history import Message
from chatapp.tui.chat.message import Answer, moment, origin
from support.screen_driver import running
from support.scripted_engine import ScriptedEngine

PROSE = "words that go on and on " * 20
CODE = "x = '" + "y" * 140 + "'"
TEXT = f"{PROSE}\n\n- {PROSE}\n\n```python\n{CODE}\n```\n"


async def test_an_answer_tells_its_model_its_time_and_its_speed_once_it_has_ended() -> None:
    engine = ScriptedEngine("Good day to you", can_chat=True, pause_after=2)
    async with running(engine) as driver:
        await driver.type("hello\n")
        await driver.wrote(2)
        assert "chatty ·" not in driver.picture
        engine.go.set()
        await driver.answered()
        said = driver.pane.page.last("assistant")
        assert said and origin(said).startswith(f"chatty · {moment(said.created)} · ")
        await driver.until(lambda: origin(said) in driver.picture)


def test_the_time_has_a_date_where_it_is_not_today_s() -> None:
    now = time.time()
    assert moment(now) == time.strftime("%H:%M", time.localtime(now))
    assert moment(1_709_035_200.0).endswith(time.strftime("Feb 2024 %H:%M", time.localtime(1_709_035_200.0)))


def test_what_is_not_known_of_an_answer_is_left_out() -> None:
    assert origin(Message(1, 1, None, "assistant", "a", 0.0)) == ""
    assert origin(Message(1, 1, None, "assistant", "a", 0.0, model="m", usage={"tokens_per_second": "7"})) == "m"


async def test_prose_is_no_wider_than_100_columns_and_code_is_as_wide_as_there_is_room() -> None:
    async with running(ScriptedEngine(TEXT, can_chat=True), size=(200, 50)) as driver:
        await driver.type("hello\n")
        await driver.answered()
        for settled in (False, True):
            if settled:
                await driver.pane.query(Answer).last().settle()
            await driver.pilot.pause()
            lines = [line.strip() for line in driver.picture.splitlines()]
            prose = [len(line) for line in lines if "on and on" in line]
            assert 80 < max(prose) <= 104
            assert any(CODE in line for line in lines)
