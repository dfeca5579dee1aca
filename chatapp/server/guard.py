"""Access control by host, origin and key, before the body is read."""

import hashlib
import hmac
import ipaddress
import platform
from collections.abc import Mapping

from chatapp.server.protocol import Headers
from chatapp.server.refusals import Refusal
from chatapp.server.settings import ServerSettings

SAFE: Headers = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Guard:
    """Checks the head of each request."""

    def __init__(self, settings: ServerSettings):
        self.settings = settings
        own = () if settings.is_local else (platform.node().lower(), settings.host.lower())
        self.names = {"localhost", *own, *(host.lower() for host in settings.hosts)}
        """Host names of this server."""

    def check(self, method: str, headers: Mapping[str, str]) -> Headers:
        """The headers for the answer; Refusal if the host or origin is not allowed."""
        if not self._is_own(headers.get("host", "localhost")):  # only HTTP/1.0, which no browser uses, may omit it
            raise Refusal(403, "unknown host name of this server; to allow it: --allow-host", code="wrong_host")
        return [*SAFE, *self._check_origin(method, headers)]

    def _is_own(self, host: str) -> bool:
        """Whether a Host is this server's; other names may be DNS rebinding attacks."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
        name = name.strip("[]").lower().rstrip(".")
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return address.is_loopback or not self.settings.is_local

    def _check_origin(self, method: str, headers: Mapping[str, str]) -> Headers:
        """Refuse requests of other web pages, unless their origin is allowed."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is None:
            navigating = headers.get("sec-fetch-mode") == "navigate" and method in ("GET", "HEAD")
            if site in ("none", "same-origin") or navigating:
                return []
        elif origin in self.settings.origins:
            return self._allow(method, origin, headers)
        elif origin.partition("://")[2] == headers.get("host") and site in ("none", "same-origin"):
            return []
        raise Refusal(403, "this web page may not use this server; to allow it: --allow-origin", code="wrong_origin")

    @staticmethod
    def _allow(method: str, origin: str, headers: Mapping[str, str]) -> Headers:
        found = [("access-control-allow-origin", origin), ("vary", "Origin")]
        if method == "OPTIONS":
            wanted = headers.get("access-control-request-headers", "content-type, authorization")
            found += [
                ("access-control-allow-methods", "GET, HEAD, POST, DELETE"),
                ("access-control-allow-headers", wanted),
                ("access-control-max-age", "600"),
            ]
            if headers.get("access-control-request-private-network") == "true":
                found.append(("access-control-allow-private-network", "true"))
        return [(name.encode(), value.encode("latin-1")) for name, value in found]

    def check_key(self, headers: Mapping[str, str]) -> None:
        """Refuse a request without a valid key, if keys are configured."""
        sent = read_key(headers)
        if self.settings.keys and not any([matches(sent, key) for key in self.settings.keys]):
            what = "the server does not accept this key: send one of its --keys" if sent else "a key is needed: send it"
            raise Refusal(401, f"{what} as `Authorization: Bearer KEY`", code="invalid_api_key")


def read_key(headers: Mapping[str, str]) -> str:
    """The key a client sent; Anthropic's clients use a header of their own."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key.strip() else headers.get("x-api-key", "")


def matches(sent: str, key: str) -> bool:
    """Whether two keys are equal, compared in constant time."""
    return hmac.compare_digest(hashlib.sha256(sent.encode()).digest(), hashlib.sha256(key.encode()).digest())


def name_client(settings: ServerSettings, address: str, headers: Mapping[str, str]) -> str:
    """The client of a request: its key if keys are configured, otherwise address and program."""
    if settings.keys:
        return hashlib.sha256(read_key(headers).encode()).hexdigest()[:12]
    return f"{address} {headers.get('user-agent', '')[:80]}"
