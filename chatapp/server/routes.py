"""Which endpoint of which protocol a path belongs to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from os.path import commonprefix

from chatapp.server.protocol import Endpoint, Protocol
from chatapp.server.refusals import Refusal

QUIET = ("/health", "/metrics", "/slots", "/v2/health/live", "/v2/health/ready")
"""Asked every few seconds: an answer to them is no line of the log."""


@dataclass(frozen=True)
class Found:
    """What answers at a path."""

    protocol: Protocol
    endpoint: Endpoint | None = None
    parts: dict[str, str] = field(default_factory=dict)
    """Of the path, by the names that the endpoint gives them."""
    allowed: tuple[str, ...] = ()
    """Methods that the path has."""
    near: str = ""
    """A path that may be meant, where there is none such."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that may be used here."""
        return (*self.allowed, "HEAD") if "GET" in self.allowed else self.allowed

    @property
    def logged(self) -> bool:
        """Whether an answer is worth a line of the log."""
        return self.endpoint is not None and self.endpoint.path not in QUIET

    def expect(self, method: str, path: str) -> Endpoint:
        """The endpoint; Refusal where there is none."""
        if self.endpoint:
            return self.endpoint
        if self.allowed:
            raise Refusal(405, f"{method} is not for this path, which has {', '.join(self.methods)}")
        meant = f"; did you mean {self.near}?" if self.near else ": docs/server.md lists what there is"
        raise Refusal(404, f"there is nothing at this path{meant}", code="not_found")


class Routes:
    """The endpoints of some protocols; what is in braces in a path is a part, which may have slashes."""

    def __init__(self, protocols: Sequence[Protocol]):
        self.protocols = protocols
        self.rows = [
            (re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(endpoint.path))), protocol, endpoint)
            for protocol in protocols
            for endpoint in protocol.endpoints
        ]

    def find(self, method: str, path: str) -> Found:
        """What answers at a path; HEAD is answered as GET is."""
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
        """The path that this one is with more before it, or with less: bases of addresses are often wrong."""
        paths = [endpoint.path for _, _, endpoint in self.rows if endpoint.path.count("/") > 1]
        near = [one for one in paths if one.endswith(path) or path.endswith(one)]
        return min(near, key=lambda one: abs(len(one) - len(path)), default="")

    def guess(self, path: str) -> Protocol:
        """The protocol whose paths begin most like this one, in which its refusal is understood."""
        parts = path.split("/")

        def count_alike(protocol: Protocol) -> int:
            return max(len(commonprefix([one.path.split("/"), parts])) for one in protocol.endpoints)

        return max(self.protocols, key=count_alike)
