"""The cluster's shared state: the current version, the gateways that use it, and the nodes that have its files."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chatapp.deploy.ray.version import Version

GONE = 10.0
"""Seconds without a report after which a gateway counts as gone."""
FAN = 2
"""Nodes that may download from one node at a time, so that files spread like a tree."""
REST = 30.0
"""Seconds for which a node that failed or had wrong files is not asked."""
LONGEST = 900.0
"""Seconds after which a downloading node counts as gone."""


@dataclass
class Gateway:
    """The last report of a gateway."""

    heard: float
    digest: str
    """The version it sends new requests to."""
    streams: Mapping[str, int]
    """The number of answers in progress, by version digest."""


@dataclass
class Holder:
    """A node that has the files of a version."""

    node: str
    folder: str
    fetching: dict[str, float] = field(default_factory=dict)
    """The nodes that download from it, and since when."""
    left: float = -math.inf
    """When it last failed."""


class Ledger:
    """Kept in one process for the whole cluster; times are by its clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._current: dict[str, Version] = {}
        self._gateways: dict[tuple[str, str], Gateway] = {}
        self._holders: dict[str, dict[str, Holder]] = {}

    # Versions

    def promote(self, version: Version) -> None:
        """Make this the current version of its model."""
        self._current[version.name] = version

    def forget(self, name: str) -> None:
        """Remove a model."""
        self._current.pop(name, None)

    def current(self, name: str) -> Version | None:
        """The version that new requests go to."""
        return self._current.get(name)

    def names(self) -> list[str]:
        """The names of the deployed models."""
        return sorted(self._current)

    def hear(self, gateway: str, name: str, digest: str, streams: Mapping[str, int]) -> Version | None:
        """Take a gateway's report, sent every second; returns the current version."""
        self._gateways[gateway, name] = Gateway(self._clock(), digest, dict(streams))
        return self.current(name)

    def count_streams(self, name: str, digest: str) -> int:
        """The answers a version has in progress, plus the gateways still to switch to its successor."""
        now = self._clock()
        self._gateways = {key: one for key, one in self._gateways.items() if now - one.heard < GONE}
        there = [one for (_, model), one in self._gateways.items() if model == name]
        followed = name in self._current  # a removed model has no successor
        return sum(one.streams.get(digest, 0) + (followed and one.digest == digest) for one in there)

    # Files

    def have(self, digest: str, node: str, folder: str) -> None:
        """Register that a node has all files of a version."""
        self._holders.setdefault(digest, {}).setdefault(node, Holder(node, folder))

    def claim(self, digest: str, taker: str) -> tuple[str, str] | None:
        """The node and folder to download from: the free one with the fewest downloads; None if all are busy."""
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
        """A download has ended; a node that failed is not asked for a while."""
        if one := self._holders.get(digest, {}).get(node):
            one.fetching.pop(taker, None)
            one.left = one.left if good else self._clock()
