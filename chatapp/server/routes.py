"""Which endpoint of which protocol a path belongs to."""

from __future__ import annotations

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

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that may be used here."""
        return (*self.allowed, "HEAD") if "GET" in self.allowed and "HEAD" not in self.allowed else self.allowed

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
        raise Refusal(404, "there is nothing at this path: docs/server.md lists what there is", code="not_found")


class Routes:
    """The endpoints of some protocols; what is in braces in a path is a part, which may have slashes."""

    def __init__(self, protocols: Sequence[Protocol]):
        self.protocols = protocols
        self.plain: dict[str, dict[str, tuple[Protocol, Endpoint]]] = {}
        self.parted: list[tuple[re.Pattern[str], str, Protocol, Endpoint]] = []
        for protocol in protocols:
            for endpoint in protocol.endpoints:
                if "{" in endpoint.path:
                    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(endpoint.path))
                    self.parted.append((re.compile(pattern), endpoint.method, protocol, endpoint))
                else:
                    self.plain.setdefault(endpoint.path, {})[endpoint.method] = protocol, endpoint

    def find(self, method: str, path: str) -> Found:
        """What answers at a path; HEAD is answered as GET is, where nothing else does."""
        wanted = (method, "GET") if method == "HEAD" else (method,)
        there = self.plain.get(path, {})
        parts = dict[str, dict[str, str]]()
        if not there:
            matching = [(row, found) for row in self.parted if (found := row[0].fullmatch(path))]
            there = {method: (protocol, endpoint) for (_, method, protocol, endpoint), _ in reversed(matching)}
            parts = {method: found.groupdict() for (_, method, _, _), found in reversed(matching)}
        for one in wanted:
            if one in there:
                return Found(*there[one], parts.get(one, {}))
        protocol = next(iter(there.values()))[0] if there else self.guess(path)
        return Found(protocol, allowed=tuple(there))

    def guess(self, path: str) -> Protocol:
        """The protocol whose paths begin most like this one, in which its refusal is understood."""
        parts = path.split("/")

        def count_alike(protocol: Protocol) -> int:
            return max(len(commonprefix([one.path.split("/"), parts])) for one in protocol.endpoints)

        return max(self.protocols, key=count_alike)
