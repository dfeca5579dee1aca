"""What became of offers: shown, accepted, how fast; kept on this machine if the user agrees, without any text."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chatapp.completion.completer import Offer
from chatapp.text.files import write_whole

LIMIT = 1_000_000
"""Most bytes of the file; beyond, the older half is deleted."""
BLOCK, STEP = 50, 0.05
"""After BLOCK offers the threshold moves by STEP."""
TOO_FEW, MANY = 0.2, 0.5
"""The threshold rises below, and falls above, these shares of accepted offers."""
LOWEST, HIGHEST = 0.1, 0.9
Way = Literal["editor", "typing"]
"""How acceptance was noticed: the editor reported it, or the text appeared."""


@dataclass(frozen=True)
class Summary:
    """Figures about offers."""

    shown: int
    accepted: int
    p50: float | None
    """Median milliseconds from request to offer."""
    p95: float | None

    @property
    def share(self) -> float | None:
        """The share of shown offers that were accepted."""
        return self.accepted / self.shown if self.shown else None


class Acceptance:
    """A file with a line of JSON for each offer that was shown, and for each that was accepted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note_shown(self, offer: Offer, milliseconds: float) -> None:
        """Record that an offer was shown."""
        facts = {"source": offer.source, "probability": round(offer.probability, 3)}
        self._append({"event": "shown", **facts, "milliseconds": round(milliseconds, 1)})

    def note_accepted(self, offer: Offer, way: Way) -> None:
        """Record that an offer was accepted."""
        self._append({"event": "accepted", "source": offer.source, "way": way})

    def _append(self, facts: dict[str, object]) -> None:
        line = json.dumps({"time": int(time.time()), **facts}) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, line.encode())  # one call, so that two editors' lines stay whole
            size = os.fstat(file).st_size
        finally:
            os.close(file)
        if size > LIMIT:
            lines = self.path.read_text("utf-8").splitlines(keepends=True)
            write_whole(self.path, "".join(lines[len(lines) // 2 :]))

    def events(self) -> Iterator[dict[str, object]]:
        """The recorded events, in order, without damaged lines."""
        try:
            lines = self.path.read_text("utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                facts = json.loads(line)
            except ValueError:
                continue
            if isinstance(facts, dict) and facts.get("event") in ("shown", "accepted"):
                yield facts

    def summary(self) -> Summary:
        """The figures of all events."""
        events = list(self.events())
        counts = Counter(facts["event"] for facts in events)
        times = sorted(took for one in events if isinstance(took := one.get("milliseconds"), int | float))
        p50, p95 = (times[min(int(len(times) * part), len(times) - 1)] if times else None for part in (0.5, 0.95))
        return Summary(counts["shown"], counts["accepted"], p50, p95)

    def threshold(self, first: float) -> float:
        """The threshold that began at `first` and followed acceptance."""
        shown = accepted = 0
        for facts in self.events():
            shown += facts["event"] == "shown"
            accepted += facts["event"] == "accepted"
            if shown >= BLOCK:
                share = accepted / shown
                first += STEP if share < TOO_FEW else -STEP if share >= MANY else 0.0
                first, shown, accepted = min(max(first, LOWEST), HIGHEST), 0, 0
        return round(first, 3)

    def delete(self) -> bool:
        """Delete the file; returns whether there was one."""
        is_there = self.path.exists()
        self.path.unlink(missing_ok=True)
        return is_there
