"""Finds the endpoint and protocol for a path."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from os.path import commonprefix

from chatapp.server.protocol import Endpoint, Protocol
from chatapp.server.refusals import Refusal

QUIET = ("/health", "/metrics", "/slots", "/v2/health/live", "/v2/health/ready")
"""Polled every few seconds, so not logged."""


@dataclass(frozen=True)
class Found:
    """What was found for a path."""

    protocol: Protocol
    endpoint: Endpoint | None = None
    parts: dict[str, str] = field(default_factory=dict)
    """Named parts of the path."""
    allowed: tuple[str, ...] = ()
    """The methods of the path."""
    near: str = ""
    """A similar path, if there is none like this."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods allowed, including HEAD."""
        return (*self.allowed, "HEAD") if "GET" in self.allowed else self.allowed

    @property
    def logged(self) -> bool:
        """Whether an answer is logged."""
        return self.endpoint is not None and self.endpoint.path not in QUIET

    def expect(self, method: str, path: str) -> Endpoint:
        """The endpoint; Refusal if there is none."""
        if self.endpoint:
            return self.endpoint
        if self.allowed:
            raise Refusal(405, f"{method} is not allowed here; use {', '.join(self.methods)}")
        meant = f"; did you mean {self.near}?" if self.near else "; for the paths, see docs/server.md"
        raise Refusal(404, f"unknown path{meant}", code="not_found")


class Routes:
    """The endpoints of some protocols; a part in braces matches anything, including slashes."""

    def __init__(self, protocols: Sequence[Protocol]):
        self.protocols = protocols
        self.rows = [
            (re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(endpoint.path))), protocol, endpoint)
            for protocol in protocols
            for endpoint in protocol.endpoints
        ]

    def find(self, method: str, path: str) -> Found:
        """The endpoint for a path; HEAD is answered like GET."""
        matching = [
            (endpoint.method, Found(protocol, endpoint, found.groupdict()))
            for pattern, protocol, endpoint in self.rows
            if (found := pattern.fullmatch(path))
        ]
        plain = [one for one in matching if not one[1].parts]
        there = dict(reversed(plain or matching))
        if answering := there.get("GET" if method == "HEAD" else method):
            return answering
        protocol = next(iter(there.values())).protocol if there else self.guess(path)
        return Found(protocol, allowed=tuple(there), near=self.find_near(path.rstrip("/")))

    def find_near(self, path: str) -> str:
        """A path that ends with this one or that this one ends with, since base URLs are often wrong."""
        paths = [endpoint.path for _, _, endpoint in self.rows if endpoint.path.count("/") > 1]
        near = [one for one in paths if one.endswith(path) or path.endswith(one)]
        return min(near, key=lambda one: abs(len(one) - len(path)), default="")

    def guess(self, path: str) -> Protocol:
        """The protocol whose paths share the longest prefix with this one, to form the error."""
        parts = path.split("/")

        def count_alike(protocol: Protocol) -> int:
            return max(len(commonprefix([one.path.split("/"), parts])) for one in protocol.endpoints)

        return max(self.protocols, key=count_alike)
