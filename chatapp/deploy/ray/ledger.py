"""What all of a cluster know: which version is current, which gateway uses which, and which nodes have its files."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chatapp.deploy.ray.version import Version

GONE = 10.0
"""Seconds after which a gateway that was not heard of is gone."""
FAN = 2
"""Nodes that fetch from one node at a time: the files spread as a tree grows."""
REST = 30.0
"""Seconds for which a node whose files were wrong, or which did not answer, is not asked."""
LONGEST = 900.0
"""Seconds after which a node that fetches is taken for one that ended."""


@dataclass
class Gateway:
    """What a gateway has told of itself."""

    heard: float
    digest: str
    """The version that it gives new requests to."""
    streams: Mapping[str, int]
    """By digest, the answers that are being written."""


@dataclass
class Holder:
    """A node that has the files of a version."""

    node: str
    folder: str
    fetching: dict[str, float] = field(default_factory=dict)
    """Who reads them, and since when."""
    left: float = -math.inf
    """When it was last found wrong, or gone."""


class Ledger:
    """Kept by one process for all of them; times by its own clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._current: dict[str, Version] = {}
        self._gateways: dict[tuple[str, str], Gateway] = {}
        self._holders: dict[str, dict[str, Holder]] = {}

    # Versions

    def promote(self, version: Version) -> None:
        """From now on, requests for its name go to this version."""
        self._current[version.name] = version

    def forget(self, name: str) -> None:
        """There is no such model any more."""
        self._current.pop(name, None)

    def current(self, name: str) -> Version | None:
        """The version that new requests go to."""
        return self._current.get(name)

    def names(self) -> list[str]:
        """The models that are deployed."""
        return sorted(self._current)

    def hear(self, gateway: str, name: str, digest: str, streams: Mapping[str, int]) -> Version | None:
        """Take in what a gateway tells every second; the version that is current."""
        self._gateways[gateway, name] = Gateway(self._clock(), digest, dict(streams))
        return self.current(name)

    def count_streams(self, name: str, digest: str) -> int:
        """The answers that a version is writing, and the gateways that have yet to take the one in its place."""
        now = self._clock()
        self._gateways = {key: one for key, one in self._gateways.items() if now - one.heard < GONE}
        there = [one for (_, model), one in self._gateways.items() if model == name]
        followed = name in self._current  # what was taken away has none in its place
        return sum(one.streams.get(digest, 0) + (followed and one.digest == digest) for one in there)

    # Files

    def have(self, digest: str, node: str, folder: str) -> None:
        """A node has all files of a version."""
        self._holders.setdefault(digest, {}).setdefault(node, Holder(node, folder))

    def claim(self, digest: str, taker: str) -> tuple[str, str] | None:
        """The node and the folder to fetch from: of those that have time, the one that feeds the fewest."""
        now, holders = self._clock(), self._holders.get(digest, {})
        for one in holders.values():
            one.fetching = {who: since for who, since in one.fetching.items() if now - since < LONGEST}
        free = [one for one in holders.values() if len(one.fetching) < FAN and now - one.left > REST]
        if not free:
            return None
        chosen = min(free, key=lambda one: len(one.fetching))
        chosen.fetching[taker] = now
        return chosen.node, chosen.folder

    def release(self, digest: str, node: str, taker: str, good: bool) -> None:
        """What was claimed has ended; a node whose files were wrong, or which did not answer, is left for a while."""
        if one := self._holders.get(digest, {}).get(node):
            one.fetching.pop(taker, None)
            one.left = one.left if good else self._clock()
