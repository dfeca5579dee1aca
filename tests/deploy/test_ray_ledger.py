"""chatapp.deploy.ray.ledger: what all of a cluster know."""

from collections import Counter

from backends import Placement
from chatapp.deploy.ray.ledger import FAN, GONE, LONGEST, REST, Ledger
from chatapp.deploy.ray.version import Version


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_files_spread_as_a_tree_grows_and_wrong_ones_rest() -> None:
    clock = Clock()
    ledger = Ledger(clock)
    assert ledger.claim("d", "a") is None
    ledger.have("d", "first", "/files")
    assert [ledger.claim("d", str(taker)) for taker in range(FAN + 1)] == [("first", "/files")] * FAN + [None]
    ledger.release("d", "first", "0", True)
    ledger.have("d", "second", "/more")
    assert ledger.claim("d", "x") == ("second", "/more")
    ledger.release("d", "second", "x", False)
    assert ledger.claim("d", "y") == ("first", "/files") and ledger.claim("d", "z") is None
    clock.now += REST + 1
    assert ledger.claim("d", "z") == ("second", "/more")
    clock.now += LONGEST
    late = [ledger.claim("d", f"late {place}") for place in range(2 * FAN + 1)]
    assert Counter(late) == {("first", "/files"): FAN, ("second", "/more"): FAN, None: 1}


def test_a_gateway_that_is_not_heard_of_uses_nothing() -> None:
    clock = Clock()
    ledger = Ledger(clock)
    ledger.promote(Version("m", (), Placement("onnx", "cpu", "int8")))
    ledger.hear("one", "m", "old", {"old": 3})
    ledger.hear("two", "m", "new", {"old": 1, "new": 2})
    assert ledger.count_streams("m", "old") == 5 and ledger.count_streams("other", "old") == 0
    clock.now += GONE
    ledger.hear("two", "m", "new", {"new": 2})
    assert ledger.count_streams("m", "old") == 0


def test_what_is_taken_away_waits_for_answers_and_not_for_gateways_that_run_on() -> None:
    ledger = Ledger(Clock())
    version = Version("m", (), Placement("onnx", "cpu", "int8"))
    ledger.promote(version)
    ledger.hear("one", "m", version.digest, {version.digest: 1})
    assert ledger.count_streams("m", version.digest) == 2  # that, and new ones
    ledger.forget("m")
    assert ledger.count_streams("m", version.digest) == 1
    ledger.hear("one", "m", version.digest, {})
    assert ledger.count_streams("m", version.digest) == 0
