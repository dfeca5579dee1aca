"""A job in the background, and what its process says of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chatapp.text.child import describe_ending
from chatapp.text.printable import printable
from chatapp.text.units import duration, milliseconds, percent, size

Kind = Literal["pull", "verify", "bench", "remove", "plan", "search"]
State = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True)
class Job:
    """What is to be done with a model, and how far that is: each change is another one of these."""

    number: int
    kind: Kind
    model: str
    """As the command line wants it: a name, a repository, or what to search for."""
    options: tuple[str, ...] = ()
    state: State = "queued"
    phase: str = ""
    done: int = 0
    """Bytes that are here; never fewer than a moment ago."""
    size: int = 0
    rate: float = 0.0
    """Bytes per second."""
    seconds_left: float | None = None
    share: float | None = None
    """How much of the phase is done, if that is known; never less than a moment ago."""
    note: str = ""
    """What is being waited for."""
    result: str = ""
    """What came of it, in a line; of one that failed, why."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the process told in JSON: a plan, findings, figures."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.state in ("done", "failed", "cancelled")

    @property
    def name(self) -> str:
        """The model as the store calls it."""
        return self.model.replace("/", "--")


def read_progress(job: Job, facts: Mapping[str, Any]) -> dict[str, Any]:  # Any: parsed JSON
    """Read how far a job is from a line of its process: the fields of the job that change."""
    if facts.get("event") == "plan":
        done, size = max(job.done, int(facts["there"])), int(facts["size"])
        return {"done": done, "size": size, "share": compute_share(done, size), "note": "", "facts": facts}
    if facts.get("event") == "progress":
        done, size = max(job.done, int(facts["done"])), int(facts["size"])
        found = {
            "phase": "fetching",
            "done": done,
            "size": size,
            "share": compute_share(done, size),
            "note": facts["note"],
        }
        return {**found, "rate": float(facts["rate"]), "seconds_left": facts["seconds_left"]}
    if facts.get("event") == "waiting":
        return {"note": str(facts["note"])}
    if facts.get("event") == "step":
        before = job.share or 0.0 if job.phase == facts["step"] else 0.0
        phase, share = str(facts["step"]), max(before, min(1.0, float(facts["share"])))
        return {"phase": phase, "share": share, "rate": 0.0, "seconds_left": None, "note": ""}
    return {}


def compute_share(done: int, size: int) -> float:
    """Compute the share of bytes that is here."""
    return min(1.0, done / size) if size else 0.0


def explain_failure(last: str, code: int) -> str:
    """Explain why a process failed: by the last line it said, or by how it ended."""
    if last:
        return printable(last.removeprefix("Error: "))
    how = describe_ending(code)
    return f"it was killed ({how})" if code < 0 else f"it ended with {how}"


def describe_result(kind: Kind, facts: Mapping[str, Any], said: str) -> str:
    """Describe the result of a job that did what it should, in a line."""
    if kind == "pull":
        return "ready"
    if kind == "verify":
        return f"its logits agree with those of {facts['reference']}"
    if kind == "bench":
        return describe_figures(facts)
    return said.strip().rpartition(": ")[2] if kind == "remove" else ""


def describe_figures(facts: Mapping[str, Any]) -> str:
    """Describe the figures of a model that was timed, in a line."""
    first = max(facts["prefill"], key=lambda one: one["prompt_tokens"])
    return (
        f"{facts['decode'][0]['tokens_per_second']:,.0f} tokens/s, first token of {first['prompt_tokens']} after "
        f"{milliseconds(first['time_to_first_token'])}, loaded in {milliseconds(facts['warm_load'])}, "
        f"{size(facts['peak_memory'])}"
    )


def describe_progress(job: Job) -> str:
    """Describe how far a running job is, in a few words: 64 % 12 MB/s 18 s."""
    if job.phase != "fetching":
        share = f" {percent(job.share)}" if job.share is not None else ""
        return f"{' '.join(printable(job.phase).split())}{share}"
    left = f" {duration(job.seconds_left)}" if job.seconds_left is not None else ""
    return f"{percent(job.share or 0.0)} {size(round(job.rate))}/s{left}"
