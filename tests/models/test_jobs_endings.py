"""Jobs that end otherwise than they should: nothing of them goes on, and the screen learns of their real end."""

import json
import os
import sys
from pathlib import Path

import pytest

from chatapp.models.jobs import Job, Jobs
from support.patience import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


def jobs(tmp_path: Path, code: str, told: list[Job]) -> Jobs:
    """Jobs whose process runs this code."""
    script = tmp_path / "process.py"
    script.write_text(f"import os, pathlib, sys, time\nhere = pathlib.Path(__file__).parent\n{code}\n")
    return Jobs(told.append, path=tmp_path / "queue.json", command=(sys.executable, str(script)))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_that_tells_nonsense_does_not_go_on_behind_the_screen(tmp_path: Path) -> None:
    told: list[Job] = []
    code = """(here / 'pid').write_text(str(os.getpid()))\nprint('{"event": "progress"}', flush=True)\ntime.sleep(60)"""
    queue = jobs(tmp_path, code, told)
    queue.add("pull", "org/one")
    until(lambda: told[-1].state == "failed")
    assert "sent invalid output" in told[-1].result
    assert not alive(int((tmp_path / "pid").read_text()))
    assert queue.children == {} and json.loads((tmp_path / "queue.json").read_text()) == {"pulls": []}
    queue.close()


def test_the_real_end_of_what_was_cancelled_is_told_too(tmp_path: Path) -> None:
    told: list[Job] = []
    code = (
        "try:\n    (here / 'begun').touch()\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    time.sleep(0.5)\n    (here / 'over').touch()"
    )
    queue = jobs(tmp_path, code, told)
    number = queue.add("remove", "one").number
    until((tmp_path / "begun").exists)
    queue.cancel(number)
    before = len(told)
    assert told[-1].state == "cancelled"
    until(lambda: len(told) > before)
    assert told[-1].state == "cancelled" and (tmp_path / "over").exists()
    queue.close()
