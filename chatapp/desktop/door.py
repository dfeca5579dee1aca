"""Access control: exact Host and Origin, a one-time token, one client at a time, and only these routes."""

import hmac
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.typing import Subprotocol

PAGE: Final = Path(__file__).with_name("page")
ROUTES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/xterm.css": ("xterm.css", "text/css"),
    "/xterm.js": ("xterm.js", "text/javascript"),
    "/addon-fit.js": ("addon-fit.js", "text/javascript"),
    "/addon-unicode-graphemes.js": ("addon-unicode-graphemes.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/DejaVuSansMono.woff2": ("DejaVuSansMono.woff2", "font/woff2"),
    "/DejaVuSansMono-Bold.woff2": ("DejaVuSansMono-Bold.woff2", "font/woff2"),
    "/DejaVuSans-Braille.woff2": ("DejaVuSans-Braille.woff2", "font/woff2"),
}
"""File and type of each path; the page has no secrets, so these need no token."""
SOCKET: Final = "/screen"
ENTER, RAISE = Subprotocol("chatapp"), Subprotocol("chatapp-raise")
"""Protocols of the socket: the screen, and a second start that raises the window. A secret follows each."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self'; "
    "connect-src ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: xterm.js needs inline styles; everything else comes from these routes."""


class Door:
    """Decides on every request; `port` is set once the socket is bound."""

    def __init__(self) -> None:
        self.port = 0
        self.token = secrets.token_urlsafe(32)
        """Opens the screen once; then it is replaced."""
        self.raising = secrets.token_urlsafe(32)
        """Lets a second start by the same user raise the window."""
        self.guest: ServerConnection | None = None
        """The one client."""

    @property
    def host(self) -> str:
        """The only Host accepted: another name for this address would be a DNS rebinding attack."""
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        """The page's origin."""
        return f"http://{self.host}"

    @property
    def address(self) -> str:
        """The page's URL with the token in the fragment, which browsers never send."""
        return f"{self.origin}/#{self.token}"

    @property
    def is_taken(self) -> bool:
        """Whether a client is connected."""
        return self.guest is not None and self.guest.state is not State.CLOSED

    def judge(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a request with a file or a refusal; None lets the socket open."""
        hosts, origins = request.headers.get_all("Host"), request.headers.get_all("Origin")
        if hosts != [self.host]:
            return self.refuse(421, "Misdirected Request")
        if any(origin != self.origin for origin in origins):
            return self.refuse(403, "Forbidden")
        if request.method != "GET":
            return self.refuse(405, "Method Not Allowed")
        if request.path == SOCKET:
            return self.admit(connection, request.headers) if len(origins) == 1 else self.refuse(403, "Forbidden")
        if request.path not in ROUTES:
            return self.refuse(404, "Not Found")
        if request.path != "/" and request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            return self.refuse(403, "Forbidden")
        name, kind = ROUTES[request.path]
        return self.respond(200, "OK", kind, (PAGE / name).read_bytes())

    def admit(self, connection: ServerConnection, headers: Headers) -> Response | None:
        """Admit a client that has the token, which is then replaced; a second client is refused."""
        offered = [one.strip() for line in headers.get_all("Sec-WebSocket-Protocol") for one in line.split(",")]
        match offered:
            case [protocol, secret] if protocol == RAISE and equal(secret, self.raising):
                return None
            case [protocol, secret] if protocol == ENTER and equal(secret, self.token):
                if self.is_taken:
                    return self.refuse(409, "Conflict")
                self.token, self.guest = secrets.token_urlsafe(32), connection
                return None
        return self.refuse(403, "Forbidden")

    def refuse(self, status: int, reason: str) -> Response:
        """A refusal that says nothing but its reason phrase."""
        return self.respond(status, reason, "text/plain", f"{reason}\n".encode())

    def respond(self, status: int, reason: str, kind: str, body: bytes) -> Response:
        """A response with the common security headers."""
        fields: Iterable[tuple[str, str]] = (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", POLICY.format(host=self.host)),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
        )
        return Response(status, reason, Headers(fields), body)


def equal(given: str, secret: str) -> bool:
    """Whether two secrets are equal, compared in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())
