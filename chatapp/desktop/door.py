"""Who may enter: exact Host and Origin, a token that opens once, one client at a time, and no route but these."""

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
"""Of each path the file and its type: the page holds no secret, so that these need no token."""
SOCKET: Final = "/screen"
ENTER, RAISE = Subprotocol("chatapp"), Subprotocol("chatapp-raise")
"""The protocols of the socket: the screen, and a second start that wants the window in front. A secret follows each."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self'; "
    "connect-src ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load. Styles are written by xterm.js; nothing else comes from anywhere but these routes."""


class Door:
    """Decides about every request; `port` is known once the socket is bound."""

    def __init__(self) -> None:
        self.port = 0
        self.token = secrets.token_urlsafe(32)
        """Opens the screen once; then there is another."""
        self.raising = secrets.token_urlsafe(32)
        """Lets a second start of the same user raise the window."""
        self.guest: ServerConnection | None = None
        """The one client."""

    @property
    def host(self) -> str:
        """The only Host that is answered: any other name for this address is somebody's trick."""
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        """The page's origin."""
        return f"http://{self.host}"

    @property
    def address(self) -> str:
        """The page with the token, which a browser keeps to itself: what follows # is never sent."""
        return f"{self.origin}/#{self.token}"

    @property
    def is_taken(self) -> bool:
        """Whether there is a client."""
        return self.guest is not None and self.guest.state is not State.CLOSED

    def judge(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a request: a file, a refusal, or None where the socket may open."""
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
        """Let a client in that has the token, which is spent with that; a second one has to wait."""
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
        """A refusal that tells no more than its name."""
        return self.respond(status, reason, "text/plain", f"{reason}\n".encode())

    def respond(self, status: int, reason: str, kind: str, body: bytes) -> Response:
        """A response with the headers that all have."""
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
    """Whether two secrets are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())
