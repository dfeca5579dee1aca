"""Checks and timings in the background tell how far they are, as pulls do."""

from pathlib import Path

from chatapp.models.jobs import Job, Jobs, Kind
from model_store import Store
from support.checkpoints import MakeCheckpoint, Run
from support.patience import until


def test_checks_and_timings_tell_a_share_that_grows(checkpoint: MakeCheckpoint, home: Path) -> None:
    model = Store(home / "models").get(str(checkpoint())).name
    told: list[Job] = []
    jobs = Jobs(told.append)
    kinds: tuple[tuple[Kind, str], ...] = (("verify", "comparing"), ("bench", "timing"))
    for kind, phase in kinds:
        number = jobs.add(kind, model).number
        until(lambda: any(job.number == number and job.ended for job in told))  # noqa: B023
        last = next(job for job in reversed(told) if job.number == number)
        assert last.state == "done" and last.facts, last.result
        shares = [job.share for job in told if job.number == number and job.phase == phase and job.share is not None]
        assert len(set(shares)) > 2 and shares == sorted(shares), shares
    jobs.close()


def test_who_does_not_ask_for_steps_gets_none(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    done = chatapp("bench", str(checkpoint()), "--json", "--tokens", "2")
    assert done.returncode == 0 and '"event"' not in done.stdout and done.stderr == ""
