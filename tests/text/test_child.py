"""A child process: its lines as they come, its end in words, and that nothing of it is left."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from chatapp.text.child import Child, Watch, describe_ending, is_running, parse
from support.patience import PATIENCE, until


def python(code: str) -> Sequence[str]:
    return (sys.executable, "-c", f"import json, os, signal, sys, time\n{code}")


def test_a_request_is_answered_in_lines_of_which_those_without_an_object_say_nothing() -> None:
    code = "print('loading'); print(json.dumps({'told': sys.stdin.readline()})); print('[1]')"
    with Child(python(code), "héllo") as child:
        assert [parse(line) for line in child.lines()] == [{}, {"told": "héllo\n"}, {}]
        assert child.process.wait() == 0


def test_the_last_line_of_its_complaints_is_kept() -> None:
    with Child(python("print('first\\n\\n last \\n', file=sys.stderr); sys.exit(3)")) as child:
        assert list(child.lines()) == []
        assert describe_ending(child.process.wait()) == "exit code 3"
        assert child.complaint() == "last"


def test_it_is_gone_when_nobody_waits_for_it_any_more() -> None:
    with Child(python("time.sleep(60)")) as child:
        assert child.process.poll() is None
    assert child.process.returncode is not None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who runs")
def test_it_ends_with_a_parent_that_was_killed() -> None:
    wait = (
        "import os, time; from chatapp.text.child import end_with_parent as end; end(); print(os.getpid(), flush=True)"
    )
    parent = f"""
from chatapp.text.child import Child

with Child((sys.executable, "-c", "{wait}; time.sleep(60)"), "a request") as child:
    for line in child.lines():
        print(line, end="", flush=True)
"""
    with Child(python(parent)) as middle:
        child = int(next(middle.lines()))
        assert runs(child)
        middle.process.kill()
        until(lambda: not runs(child))


def runs(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_a_signal_is_called_by_its_name_and_an_interrupt_can_be_heeded() -> None:
    code = "signal.signal(signal.SIGINT, lambda *_: sys.exit(4)); print('ready', flush=True); time.sleep(60)"
    with Child(python(code)) as child:
        assert next(child.lines()) == "ready\n"
        assert os.getpgid(child.process.pid) != os.getpgrp()
        child.interrupt()
        child.wait(PATIENCE)
        assert child.process.wait() == 4
    with Child(python("time.sleep(60)")) as child:
        child.process.send_signal(signal.SIGTERM)
        assert describe_ending(child.process.wait()) == "SIGTERM"


def test_a_watch_ends_it_and_says_why() -> None:
    end = time.monotonic() + 0.1
    with Child(python("time.sleep(60)")) as child:
        with Watch(child.process, lambda: "too slow" if time.monotonic() > end else "", 0.01) as watch:
            assert list(child.lines()) == []
        assert watch.reason == "too slow"
    with Child(python("print('done')")) as child, Watch(child.process, lambda: "", 0.01) as watch:
        assert list(child.lines()) == ["done\n"]
    assert watch.reason == ""


def test_a_number_is_that_of_a_process_while_it_lives() -> None:
    with Child(python("time.sleep(60)")) as child:
        assert is_running(child.process.pid) and is_running(os.getpid())
    assert not any(is_running(number) for number in (child.process.pid, 0, -1))
