"""A server on port 0 that answers with what was recorded of others, byte by byte, and breaks off as told.

with RemoteServer({"/v1/models": Recorded.json({...})}) as server:
    ...                                   # server.url
    server.requests                       # the path, headers and JSON body of each
"""

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

EVENTS = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"


@dataclass
class Recorded:
    """An answer: its parts are sent one by one."""

    parts: list[bytes]
    kind: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Whether the connection breaks before the body's own end."""
    waits: threading.Event | None = None
    """What the last part waits for."""

    @classmethod
    def json(cls, value: object, status: int = 200, **headers: str) -> "Recorded":
        """An answer that is one JSON text."""
        return cls([json.dumps(value).encode()], status=status, headers=headers)

    @classmethod
    def events(cls, *values: object, done: bool = True, **how: Any) -> "Recorded":  # Any: the fields
        """Server-sent events, with OpenAI's mark of the end unless it is left out."""
        parts = [b"data: %s\n\n" % json.dumps(value, ensure_ascii=False).encode() for value in values]
        return cls(parts + [b"data: [DONE]\n\n"] * done, EVENTS, **how)

    @classmethod
    def lines(cls, *values: object, **how: Any) -> "Recorded":  # Any: the fields
        """Lines of JSON."""
        return cls([json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values], LINES, **how)


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: Any  # Any: JSON


class RemoteServer:
    """Recorded answers behind an address of this machine, by path; one that is not there is 404."""

    def __init__(self, answers: Mapping[str, Recorded | Iterable[Recorded]]) -> None:
        self.answers = {path: [one] if isinstance(one, Recorded) else list(one) for path, one in answers.items()}
        self.requests: list[Asked] = []
        self.left = threading.Event()
        """Set when a client has hung up while it was answered."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            """Answers for this server."""

            protocol_version = "HTTP/1.1"

            def log_message(self, *words: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                self.answer(None)

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.answer(json.loads(content))

            def answer(self, body: Any) -> None:  # Any: JSON
                outer.requests.append(Asked(self.path, dict(self.headers), body))
                found = outer.answers.get(self.path, [Recorded.json({"error": {"message": "not found"}}, 404)])
                outer.send(self, found.pop(0) if len(found) > 1 else found[0])

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def send(self, handler: BaseHTTPRequestHandler, recorded: Recorded) -> None:
        """Send an answer in chunks."""
        handler.send_response(recorded.status)
        handler.send_header("Content-Type", recorded.kind)
        handler.send_header("Transfer-Encoding", "chunked")
        for name, value in recorded.headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        try:
            for place, part in enumerate(recorded.parts):
                if recorded.waits and place == len(recorded.parts) - 1:
                    handler.wfile.flush()
                    while not recorded.waits.wait(0.02):
                        handler.wfile.write(b"2\r\n:\n\r\n")  # a comment, which a client that has left cannot take
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                handler.wfile.flush()
            if not recorded.cut:
                handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.left.set()
        handler.close_connection = True

    def __enter__(self) -> "RemoteServer":
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def split_everywhere(recorded: Recorded, size: int = 3) -> Recorded:
    """The same bytes in chunks of another size, so that characters, lines and events are torn apart."""
    whole = b"".join(recorded.parts)
    recorded.parts = [whole[at : at + size] for at in range(0, len(whole), size)]
    return recorded
