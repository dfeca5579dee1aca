"""Background jobs: real processes that pull from the loopback hub, verify, time and remove."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from chatapp.models.jobs import Job, Jobs, read_waiting
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.loopback_hub import LoopbackHub
from support.patience import PATIENCE
from support.pulls import stalled

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


class Witness:
    """Jobs, and all that was told of them."""

    def __init__(self, path: Path, command: tuple[str, ...] = (sys.executable, "-m", "chatapp")) -> None:
        self.told: list[Job] = []
        self.changed = Event()
        self.jobs = Jobs(self.hear, path=path, command=command)

    def hear(self, job: Job) -> None:
        self.told.append(job)
        self.changed.set()

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, self.told[-3:]
            self.changed.wait(0.05)
            self.changed.clear()

    def ended(self, job: Job) -> Job:
        self.until(lambda: any(one.ended for one in self.of(job)))
        return self.jobs.jobs[job.number]

    def of(self, job: Job) -> list[Job]:
        return [one for one in self.told if one.number == job.number]


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Witness]:
    found = Witness(tmp_path / "home" / "queue.json")
    yield found
    found.jobs.close()


def publish(loopback: LoopbackHub, checkpoint: MakeCheckpoint, *names: str) -> None:
    for name in names:
        loopback.publish(f"org/{name}", checkpoint(name, chats=True))


def test_a_pull_tells_how_far_it_is_and_never_goes_back(
    witness: Witness, loopback: LoopbackHub, checkpoint: MakeCheckpoint, home: Path
) -> None:
    publish(loopback, checkpoint, "tiny")
    loopback.fault("safetensors", after=1, rate=300_000, cut=200_000)
    job = witness.jobs.add("pull", "org/tiny")
    assert read_waiting(witness.jobs.path) == ["org/tiny"]
    done = witness.ended(job)
    assert (done.state, done.result, done.name) == ("done", "ready", "org--tiny")
    told = witness.of(job)
    assert [one.state for one in told[:2]] == ["queued", "running"]
    assert [one.done for one in told] == sorted(one.done for one in told)
    fetching = [one for one in told if one.phase == "fetching"]
    assert fetching[-1].done == fetching[-1].size > 200_000
    assert any(one.rate > 0 and one.seconds_left for one in fetching)
    assert told[-2].phase == "lowering"
    assert "org--tiny" in Store(home / "models").locations()
    assert read_waiting(witness.jobs.path) == []


@UNIX
def test_a_pull_that_is_cancelled_goes_on_where_it_stopped(
    witness: Witness, loopback: LoopbackHub, checkpoint: MakeCheckpoint, home: Path
) -> None:
    publish(loopback, checkpoint, "tiny")
    loopback.fault("safetensors", after=1, stall=200_000, delay=1000)
    job = witness.jobs.add("pull", "org/tiny")
    witness.until(lambda: stalled(home) and witness.jobs.jobs[job.number].done >= 200_000)
    process = witness.jobs.children[job.number].process
    witness.jobs.cancel(job.number)
    assert process.wait(PATIENCE) == 130
    assert witness.ended(job).state == "cancelled"
    assert read_waiting(witness.jobs.path) == []
    again = witness.jobs.retry(job.number)
    assert witness.ended(again).state == "done"
    assert loopback.asked("safetensors")[-1].range == "bytes=200000-"
    assert next(one.done for one in witness.of(again) if one.size) >= 200_000


@UNIX
def test_pulls_wait_for_each_other_while_a_question_is_answered_at_once(
    witness: Witness, loopback: LoopbackHub, checkpoint: MakeCheckpoint
) -> None:
    publish(loopback, checkpoint, "one", "two", "three")
    loopback.fault("one/.*safetensors", after=1, stall=200_000, delay=1000)
    first, second, third = (witness.jobs.add("pull", f"org/{name}") for name in ("one", "two", "three"))
    assert witness.jobs.add("pull", "org/two") == second
    plan = witness.ended(witness.jobs.add("plan", "org/two"))
    assert plan.facts["licence"] == "mit" and plan.facts["problems"] == []
    witness.until(lambda: witness.jobs.jobs[first.number].done >= 200_000)
    assert witness.jobs.jobs[second.number].state == "queued"
    witness.jobs.cancel(second.number)
    witness.jobs.cancel(first.number)
    assert witness.ended(third).state == "done"
    assert not any(one.state == "running" for one in witness.of(second))


def test_what_is_waited_for_is_told_at_once(
    witness: Witness, loopback: LoopbackHub, checkpoint: MakeCheckpoint
) -> None:
    publish(loopback, checkpoint, "one")
    loopback.fault("/api/models", status=503)
    job = witness.ended(witness.jobs.add("plan", "org/one"))
    assert job.state == "done" and job.facts["event"] == "plan"
    notes = list(dict.fromkeys(one.note for one in witness.of(job)))
    assert notes[:2] == ["", "127.0.0.1 answers 503 Service Unavailable; retrying in 0.5 s"] and job.note == ""


def test_what_fails_says_why_in_a_line(witness: Witness, loopback: LoopbackHub) -> None:
    job = witness.ended(witness.jobs.add("pull", "org/none"))
    assert job.state == "failed"
    assert job.result.startswith("no public repository org/none") or "org/none" in job.result
    assert "Error" not in job.result and "\n" not in job.result
    assert witness.jobs.of("org--none") == job


def test_a_process_that_crashes_is_told_with_its_signal(tmp_path: Path) -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    witness = Witness(tmp_path / "queue.json", (sys.executable, "-c", crash))
    assert witness.ended(witness.jobs.add("verify", "x")).result == "it was killed (SIGKILL)"


def test_a_process_that_tells_something_else_fails_and_the_next_job_runs(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "queue.json", (sys.executable, "-c", "print('{}')"))
    assert witness.ended(witness.jobs.add("bench", "x")).state == "failed"
    assert witness.ended(witness.jobs.add("remove", "x")).state == "done"


@UNIX
def test_leaving_stops_everything_and_the_next_start_knows_what_was_left(
    witness: Witness, loopback: LoopbackHub, checkpoint: MakeCheckpoint
) -> None:
    publish(loopback, checkpoint, "one", "two")
    loopback.fault("one/.*safetensors", after=1, stall=200_000, delay=1000)
    first = witness.jobs.add("pull", "org/one")
    witness.jobs.add("pull", "org/two")
    witness.until(lambda: witness.jobs.jobs[first.number].done >= 200_000)
    process = witness.jobs.children[first.number].process
    witness.jobs.close()
    assert process.poll() == 130
    later = Witness(witness.jobs.path or Path())
    assert later.jobs.left == ["org/one", "org/two"]
    assert later.ended(later.jobs.add("pull", "org/two")).state == "done"
    assert later.jobs.left == ["org/one"]
    later.jobs.dismiss()
    assert Witness(witness.jobs.path or Path()).jobs.left == []


def test_models_are_verified_timed_and_removed(witness: Witness, checkpoint: MakeCheckpoint, home: Path) -> None:
    folder = checkpoint()
    store = Store(home / "models")
    model = store.get(str(folder)).name
    verified = witness.ended(witness.jobs.add("verify", model))
    assert (verified.state, verified.facts["passed"]) == ("done", True), verified.result
    assert verified.result == f"its logits agree with those of {verified.facts['reference']}"
    timed = witness.ended(witness.jobs.add("bench", model))
    assert "tokens/s, first token of 1024 after" in timed.result
    removed = witness.ended(witness.jobs.add("remove", model))
    assert removed.result.endswith(" freed")
    assert model not in store.locations() and folder.exists()


def test_a_search_gives_what_the_hub_has(witness: Witness, loopback: LoopbackHub, checkpoint: MakeCheckpoint) -> None:
    publish(loopback, checkpoint, "tiny")
    found = witness.ended(witness.jobs.add("search", "tiny"))
    assert [one["id"] for one in found.facts["hub"]] == ["org/tiny"]


def test_offline_forbids_pulls_in_the_processes_too(
    witness: Witness, loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHATAPP_OFFLINE", "1")
    job = witness.ended(witness.jobs.add("plan", "org/tiny"))
    assert job.result == "pull needs the network, which --offline or CHATAPP_OFFLINE forbids"
    assert not loopback.requests


def test_a_damaged_queue_is_as_good_as_none(tmp_path: Path) -> None:
    for text in ("", "[]", '{"pulls": 3}', json.dumps({"other": 1})):
        (tmp_path / "queue.json").write_text(text)
        assert Witness(tmp_path / "queue.json").jobs.left == []
