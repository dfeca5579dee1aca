"""Background jobs: models are pulled, verified, timed and removed by child processes."""

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from chatapp.text.child import Child, describe_ending, parse
from chatapp.text.printable import printable
from chatapp.text.units import duration, milliseconds, percent, size
from model_store.hub.catalog import name_of

Kind = Literal["pull", "verify", "bench", "remove", "plan", "search"]
State = Literal["queued", "running", "done", "failed", "cancelled"]
Lane = Literal["network", "machine", "question"]

COMMAND = (sys.executable, "-P", "-m", "chatapp")
WORDS: Mapping[Kind, tuple[Lane, str, str]] = {
    "pull": ("network", "asking the Hub", "pull --json"),
    "plan": ("question", "asking the Hub", "pull --dry-run --json"),
    "search": ("question", "asking the Hub", "search --json"),
    "verify": ("machine", "verifying", "verify --json --steps"),
    "bench": ("machine", "timing", "bench --json --steps"),
    "remove": ("machine", "removing", "rm"),
}
"""For each kind of job: its lane (jobs of a lane run one after another), its first phase, and its command."""
TELLING = ("pull", "plan", "verify", "bench")
"""Kinds whose process reports progress as JSON lines."""
PATIENCE = 10.0
"""Seconds a process gets to exit after it was interrupted."""
KEPT = 100
"""Ended jobs that are remembered."""


@dataclass(frozen=True)
class Job:
    """A job for a model and its progress; immutable, so each change makes a new one."""

    number: int
    kind: Kind
    model: str
    """The argument for the command line: a name, a repository, or a search text."""
    options: tuple[str, ...] = ()
    state: State = "queued"
    phase: str = ""
    done: int = 0
    """Bytes downloaded; never decreases."""
    size: int = 0
    rate: float = 0.0
    """Bytes per second."""
    seconds_left: float | None = None
    share: float | None = None
    """Completed share of the phase, None if unknown; never decreases within a phase."""
    note: str = ""
    """What it is waiting for."""
    result: str = ""
    """The result in a line; the reason if it failed."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON from the process: a plan, a verdict, measurements."""

    @property
    def ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.state in ("done", "failed", "cancelled")

    @property
    def name(self) -> str:
        """The model's name in the store."""
        return name_of(self.model)


OnChange = Callable[[Job], object]
"""Called with the changed job, on the job's thread."""


class Jobs:
    """A queue of jobs, each run as a process; lanes run in parallel.

    Unfinished pulls are saved in the file `path`, so that the next start can offer to resume them.
    """

    def __init__(self, on_change: OnChange, *, path: Path | None = None, command: Sequence[str] = COMMAND):
        self.on_change, self.path, self.command = on_change, path, tuple(command)
        self.left = read_waiting(path)
        """The pulls that were unfinished when chatapp was last closed."""
        self.jobs: dict[int, Job] = {}
        self.children: dict[int, Child] = {}
        self.threads: dict[Lane, threading.Thread] = {}
        self.lock = threading.RLock()
        self.closed = False
        self.count = 0

    def add(self, kind: Kind, model: str, *options: str) -> Job:
        """Append a job to its lane; an equal job that has not ended is returned instead."""
        with self.lock:
            same = (kind, model, options)
            for job in self.jobs.values():
                if not job.ended and (job.kind, job.model, job.options) == same:
                    return job
            self.count += 1
            job = self.jobs[self.count] = Job(self.count, kind, model, options)
            for old in [number for number, one in self.jobs.items() if one.ended][:-KEPT]:
                del self.jobs[old]
            lane = WORDS[kind][0]
            if kind == "pull":
                self.remember(model)
            self.on_change(job)
            if lane not in self.threads and not self.closed:
                self.threads[lane] = threading.Thread(target=self.work, args=(lane,), name=f"jobs {lane}", daemon=True)
                self.threads[lane].start()
        return job

    def cancel(self, number: int) -> None:
        """Remove a job from the queue, or stop it; a later pull resumes from what was downloaded."""
        with self.lock:
            job = self.jobs[number]
            if job.ended:
                return
            self.forget(job)
            self.change(job, state="cancelled", result="stopped", rate=0.0, seconds_left=None)
            if child := self.children.get(number):
                threading.Thread(target=stop, args=(child,), name="stopping", daemon=True).start()

    def retry(self, number: int) -> Job:
        """Run a failed or cancelled job again."""
        job = self.jobs[number]
        return self.add(job.kind, job.model, *job.options)

    def all(self) -> list[Job]:
        """All jobs, oldest first."""
        with self.lock:
            return list(self.jobs.values())

    def of(self, name: str) -> Job | None:
        """The job running on a model, or the last one that did; plans and searches do not count."""
        found = [job for job in self.all() if job.name == name and WORDS[job.kind][0] != "question"]
        return next((job for job in found if job.state == "running"), found[-1] if found else None)

    def close(self, patience: float = PATIENCE) -> None:
        """Stop everything; unfinished pulls are offered at the next start."""
        with self.lock:
            self.closed = True
            children, threads = list(self.children.values()), list(self.threads.values())
        for child in children:
            child.interrupt()
        for child in children:
            child.wait(patience)
        for thread in threads:
            thread.join(patience)

    # On a lane's thread

    def work(self, lane: Lane) -> None:
        """Run the jobs of a lane until none is left."""
        while job := self.next(lane):
            try:
                self.run(job)
            except OSError as error:  # the process did not start, or its output could not be stored
                self.fail(job.number, f"{error.strerror or error}")
            except (LookupError, TypeError) as error:
                self.fail(job.number, f"its process sent invalid output ({error!r})")

    def next(self, lane: Lane) -> Job | None:
        """Take the next job of a lane; None if there is none, and the lane's thread ends."""
        with self.lock:
            for job in self.jobs.values():
                if job.state == "queued" and WORDS[job.kind][0] == lane and not self.closed:
                    return self.change(job, state="running", phase=WORDS[job.kind][1])
            del self.threads[lane]
            return None

    def run(self, job: Job) -> None:
        """Run a job's process and follow its progress."""
        words = (*self.command, *WORDS[job.kind][2].split(), *job.options, job.model)
        with self.lock:
            if self.jobs[job.number].ended or self.closed:
                return
            child = self.children[job.number] = Child(words)
        said = []
        with child:
            try:
                for line in child.lines():
                    facts = parse(line) if job.kind in TELLING else {}
                    if facts.get("event") not in ("step", "waiting"):
                        said.append(line)
                    self.hear(job.number, facts)
                code = child.process.wait()
            finally:
                stop(child)
                with self.lock:
                    del self.children[job.number]
            with self.lock:
                self.end(self.jobs[job.number], code, "".join(said), child.complaint())

    def hear(self, number: int, facts: Mapping[str, Any]) -> None:  # Any: parsed JSON
        """Update a job from a JSON line of its process."""
        with self.lock:
            if not (job := self.jobs[number]).ended and (fields := read_progress(job, facts)):
                self.change(job, **fields)

    def end(self, job: Job, code: int, said: str, last: str) -> None:
        """Record the result of a job whose process has ended."""
        if self.closed:
            return
        if job.ended:  # cancelled before, but only now has its process released the model
            self.on_change(job)
            return
        self.forget(job)
        ended: dict[str, Any] = {"rate": 0.0, "seconds_left": None, "note": ""}
        facts = parse(said) or parse(said.partition("\n")[0])
        if job.kind == "plan" and facts.get("event") == "plan":  # printed even if the model does not fit
            self.change(job, state="done", facts=facts, **ended)
        elif job.kind == "verify" and facts and not facts["passed"]:
            why = "; ".join(facts["failures"])
            self.change(job, state="failed", result=f"its logits are wrong: {why}", facts=facts, **ended)
        elif code:
            self.change(job, state="failed", result=explain_failure(last, code), **ended)
        else:
            result = describe_result(job.kind, facts, said)
            self.change(job, state="done", share=1.0, result=result, facts=facts, **ended)

    def fail(self, number: int, why: str) -> None:
        """Mark a job as failed, unless it has ended."""
        with self.lock:
            if not (job := self.jobs[number]).ended:
                self.forget(job)
                self.change(job, state="failed", result=why, rate=0.0, seconds_left=None)

    def change(self, job: Job, **fields: Any) -> Job:
        """Replace a job by one with changed fields, and report it."""
        with self.lock:
            self.jobs[job.number] = changed = replace(job, **fields)
            self.on_change(changed)
            return changed

    # Unfinished pulls, offered at the next start

    def remember(self, model: str) -> None:
        """Save a pull as unfinished."""
        self.left = [one for one in self.left if one != model]
        self.keep([*(one for one in read_waiting(self.path) if one != model), model])

    def forget(self, job: Job) -> None:
        """Remove a pull that has ended from the unfinished ones."""
        if job.kind == "pull":
            self.keep([one for one in read_waiting(self.path) if one != job.model])

    def dismiss(self) -> None:
        """Do not offer the pulls left by the last run again."""
        self.keep([one for one in read_waiting(self.path) if one not in self.left])
        self.left = []

    def keep(self, models: Sequence[str]) -> None:
        """Write the list of unfinished pulls, if possible."""
        if self.path and not self.closed:
            from model_store.files import write_json

            with suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_json(self.path, {"pulls": list(models)})


def read_waiting(path: Path | None) -> list[str]:
    """The unfinished pulls in a file; empty if it is missing or damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        pulls = json.loads(path.read_text("utf-8"))["pulls"] if path else []
        return [model for model in pulls if isinstance(model, str)] if isinstance(pulls, list) else []
    return []


def stop(child: Child) -> None:
    """Interrupt a process, and kill it if it does not exit in time."""
    child.interrupt()
    child.wait(PATIENCE)


# Reading a process's output


def read_progress(job: Job, facts: Mapping[str, Any]) -> dict[str, Any]:  # Any: parsed JSON
    """The fields of a job that a JSON line of its process changes."""
    event = facts.get("event")
    if event in ("plan", "progress"):
        done, size = max(job.done, int(facts["there" if event == "plan" else "done"])), int(facts["size"])
        found = {"done": done, "size": size, "share": min(1.0, done / size) if size else 0.0}
        if event == "plan":
            return {**found, "note": "", "facts": facts}
        far = {"rate": float(facts["rate"]), "seconds_left": facts["seconds_left"]}
        return {**found, **far, "phase": "fetching", "note": facts["note"]}
    if event == "waiting":
        return {"note": str(facts["note"])}
    if event == "step":
        before = job.share or 0.0 if job.phase == facts["step"] else 0.0
        phase, share = str(facts["step"]), max(before, min(1.0, float(facts["share"])))
        return {"phase": phase, "share": share, "rate": 0.0, "seconds_left": None, "note": ""}
    return {}


def explain_failure(last: str, code: int) -> str:
    """Why a process failed: its last line, or its exit code."""
    if last:
        return printable(last.removeprefix("Error: "))
    how = describe_ending(code)
    return f"it was killed ({how})" if code < 0 else f"it failed with {how}"


def describe_result(kind: Kind, facts: Mapping[str, Any], said: str) -> str:
    """The result of a successful job in a line."""
    if kind == "pull":
        return "ready"
    if kind == "verify":
        return f"its logits agree with those of {facts['reference']}"
    if kind == "bench":
        return describe_figures(facts)
    return said.strip().rpartition(": ")[2] if kind == "remove" else ""


def describe_figures(facts: Mapping[str, Any]) -> str:
    """The measurements of a benchmark in a line."""
    first = max(facts["prefill"], key=lambda one: one["prompt_tokens"])
    return (
        f"{facts['decode'][0]['tokens_per_second']:,.0f} tokens/s, first token of {first['prompt_tokens']} after "
        f"{milliseconds(first['time_to_first_token'])}, loaded in {milliseconds(facts['warm_load'])}, "
        f"{size(facts['peak_memory'])}"
    )


def describe_progress(job: Job) -> str:
    """The progress of a running job in a few words: 64 % 12 MB/s 18 s."""
    if job.phase != "fetching":
        share = f" {percent(job.share)}" if job.share is not None else ""
        return f"{' '.join(printable(job.phase).split())}{share}"
    left = f" {duration(job.seconds_left)}" if job.seconds_left is not None else ""
    return f"{percent(job.share or 0.0)} {size(round(job.rate))}/s{left}"
