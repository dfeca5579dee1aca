"""Threads that drain a generator: what they bring, and how they end."""

import asyncio
from collections.abc import Generator
from threading import Event

from chatapp.text.errors import InputError
from chatapp.tui.threads import LATEST, SOONEST, Drain, Pace, wait_for
from support.patience import PATIENCE


def test_everything_is_brought_in_order_and_its_end_is_told_once() -> None:
    ended: list[Drain[int]] = []
    thread = Drain((number for number in range(100)), ended.append, name="numbers")
    thread.start()
    assert wait_for([thread], PATIENCE)
    assert thread.take() == list(range(100)) and thread.take() == []
    assert ended == [thread] and thread.is_over and thread.error == ""


def test_one_that_is_stopped_closes_its_generator_and_lets_the_next_begin() -> None:
    closed, began = Event(), Event()

    def endless() -> Generator[int, None, None]:
        try:
            while True:
                began.set()
                yield 1
        finally:
            closed.set()

    def after() -> Generator[bool, None, None]:
        yield closed.is_set()

    first: Drain[int] = Drain(endless(), lambda _: None, name="first")
    second: Drain[bool] = Drain(after(), lambda _: None, name="second", after=first)
    first.start()
    second.start()
    assert began.wait(PATIENCE) and not second.finished.is_set()
    first.stop()
    assert wait_for([first, second], PATIENCE)
    assert second.take() == [True]


def test_one_that_was_stopped_before_it_began_draws_nothing() -> None:
    thread: Drain[int] = Drain((1 // 0 for _ in range(1)), lambda _: None, name="never")
    thread.stop()
    thread.start()
    assert wait_for([thread], PATIENCE)
    assert thread.take() == [] and thread.error == ""


def test_one_that_ends_after_the_screen_has_nobody_to_tell() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    thread = Drain((number for number in range(1)), lambda _: loop.call_soon_threadsafe(print), name="late")
    thread.start()
    assert wait_for([thread], PATIENCE)


def test_why_it_broke_off_is_told_in_a_line_behind_what_came_before() -> None:
    def breaking(error: Exception) -> Generator[int, None, None]:
        yield 1
        raise error

    for error, said in (InputError("no\nsuch file"), "no such file"), (ValueError("x\x1b"), "ValueError: x"):
        thread = Drain(breaking(error), lambda _: None, name="breaking")
        thread.start()
        assert wait_for([thread], PATIENCE)
        assert thread.take() == [1] and thread.error.startswith(said) and "\x1b" not in thread.error


def test_the_screen_looks_again_soon_and_seldom_enough() -> None:
    pace = Pace()
    assert pace.pause() == SOONEST
    pace.spent -= 1.0  # processor time that showing took
    assert pace.pause() == LATEST
