"""Attack a running server, and look whether it still serves: python -m drills.attack [--model NAME]

Each attack is one line: what was answered, what the log says of it, and how long another client waited beside it.
`drills.serving flood` opens thousands of connections; `drills.page` asks from a page of another origin in a browser.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx2

HEAD = b"Host: localhost\r\nContent-Type: application/json\r\n"
ASK = b'{"prompt": "x", "max_tokens": 1}'
INNER = b"GET /v1/models?smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(body: bytes, more: bytes = b"", path: bytes = b"/v1/completions") -> bytes:
    """A request as bytes."""
    return b"POST %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s" % (path, HEAD, more, len(body), body)


def chunked(fields: bytes) -> bytes:
    """A request with these fields, whose body is empty in chunks, and behind it another one."""
    return b"POST /v1/completions HTTP/1.1\r\n" + HEAD + fields + b"\r\n0\r\n\r\n" + INNER


def named(name: str) -> bytes:
    """A request to a model of this name."""
    return post(json.dumps({"model": name, "prompt": "x", "max_tokens": 1}).encode())


ATTACKS: dict[str, tuple[bytes, tuple[int, ...]]] = {
    "deep JSON, 5 MB": (post(b'{"prompt": ' + b"[" * 5_000_000), (400,)),
    "JSON of 15 MB of digits": (post(b'{"prompt": "x", "seed": ' + b"9" * 15_000_000 + b"}"), (400,)),
    "JSON of a million keys": (post(b"{%s}" % b",".join(b'"k%d":0' % n for n in range(1_000_000))), (413,)),
    "JSON of three million wrong messages": (
        post(b'{"messages": [%s]}' % b",".join([b"0"] * 3_000_000), path=b"/v1/chat/completions"),
        (413,),
    ),
    "a text of fifteen million commas": (post(b'{"prompt": "%s"}' % (b"," * 15_000_000)), (400,)),
    "more than the largest body": (post(b" " * 17_000_000), (413,)),
    "a length and no body": (b"POST /v1/completions HTTP/1.1\r\n" + HEAD + b"Content-Length: 99999999\r\n\r\n", (413,)),
    "a length of 30 digits": (
        b"POST /v1/completions HTTP/1.1\r\n" + HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
        (400, 413),
    ),
    "invalid UTF-8": (post(b'{"prompt": "\xff\xc0\xaf"}'), (400,)),
    "half a surrogate": (post(b'{"prompt": "\\ud800", "max_tokens": 1}'), (200, 400)),
    "a schema without an end": (
        post(b'{"prompt": "x", "max_tokens": 2, "logit_bias": {"%s": 1}}' % (b"9" * 5000)),
        (400,),
    ),
    "CL and TE": (chunked(b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"), (400,)),
    "TE and CL": (chunked(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"), (400,)),
    "two lengths": (chunked(b"Content-Length: 5\r\nContent-Length: 0\r\n"), (400,)),
    "two lengths in one": (chunked(b"Content-Length: 5, 0\r\n"), (400,)),
    "a length with a sign": (chunked(b"Content-Length: +0\r\n"), (400,)),
    "TE twice": (chunked(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), (400, 501)),
    "TE with a tab": (chunked(b"Transfer-Encoding:\tchunked, identity\r\n"), (400, 501)),
    "TE folded": (chunked(b"Transfer-Encoding: chunked\r\n , identity\r\n"), (400, 501)),
    "TE with a space before the colon": (chunked(b"Transfer-Encoding : chunked\r\n"), (400,)),
    "TE with a bare CR": (chunked(b"X: y\rTransfer-Encoding: chunked\r\n"), (400,)),
    "a chunk with a negative size": (
        b"POST /v1/completions HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        (400,),
    ),
    "a chunk of 16 hex digits": (
        b"POST /v1/completions HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + ASK,
        (0, 400, 408, 413),
    ),
    "a wrong host": (b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", (403,)),
    "a host with a newline": (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n evil\r\n\r\n", (400, 403)),
    "an absolute target": (b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 403, 404)),
    "another origin": (post(ASK, b"Origin: https://evil.example\r\n"), (403,)),
    "a form of another page": (post(ASK, b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"), (403,)),
    "an upgrade to a websocket": (
        post(ASK, b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n"),
        (200, 400, 426),
    ),
    "an upgrade to HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 505)),
    "a path up": (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", (404,)),
    "a path up, encoded": (
        b"GET /v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        (404,),
    ),
    "a head of 1 MB": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n", (0, 400, 431)),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), (400,)),
} | {
    f"a model called {name[:30]!r}": (named(name), (404,))
    for name in (
        "../../etc/passwd",
        "/etc/passwd",
        "~/x",
        "C:\\x",
        "a\0b",
        "..",
        "builtin/../x",
        "file:///etc",
        "x" * 9000,
    )
}
"""What is sent, and what may be answered; 0 is nothing."""


@contextmanager
def serving(model: str) -> Iterator[tuple[int, list[str]]]:
    """A server in a process of its own: its port, and the lines of its log."""
    command = [sys.executable, "-m", "chatapp", "serve", model, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        log = list[str]()
        while not log or " opened " not in log[-1]:
            log.append(process.stderr.readline())
            assert process.poll() is None, log
        port = int(re.findall(r":(\d+);", log[0])[0])
        reader = threading.Thread(target=lambda: log.extend(process.stderr or ()))
        reader.start()
        try:
            yield port, log
        finally:
            process.terminate()
            reader.join()


def send(port: int, sent: bytes) -> bytes:
    """All that comes back for some bytes."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection, suppress(ConnectionError):
        parts = list[bytes]()
        with suppress(ConnectionError):  # by a server that reads no more
            connection.sendall(sent)
        with suppress(ConnectionError, TimeoutError):
            connection.settimeout(2)
            parts.extend(iter(lambda: connection.recv(65536), b""))
        return b"".join(parts)
    return b""


def attack(port: int, log: list[str], name: str, expected: tuple[int, ...], act: Callable[[], bytes]) -> bool:
    """Attack once; print what came of it, and tell whether it is what may be."""
    seen, longest, over = len(log), 0.0, threading.Event()

    def look() -> None:
        nonlocal longest
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
            while not over.wait(0.01):
                start = time.perf_counter()
                assert client.get("/health").status_code == 200
                longest = max(longest, time.perf_counter() - start)

    other = threading.Thread(target=look)
    other.start()
    answer = act()
    time.sleep(0.1)  # a line of the log comes after its answer
    over.set()
    other.join()
    found = re.findall(rb"HTTP/1\.1 (\d+)", answer)
    status = int(found[0]) if found else 0
    lines = [line for line in log[seen:] if line.strip()]
    smuggled = any("smuggled" in line for line in lines) or b'"object":"list"' in answer
    good = status in expected and len(lines) <= 1 and not smuggled and "Traceback" not in str(lines)
    print(f"{'    ' if good else 'BAD '}{name}: {found and b' '.join(found).decode() or 'nothing'}", end="")
    print(f", {len(lines)} lines in the log, another waited {1000 * longest:.0f} ms at most", flush=True)
    if not good:
        print(answer[:500], lines)
    return good


def crawl(port: int) -> bytes:
    """A head that never ends, a byte every half a second, until the server has enough."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection, suppress(ConnectionError):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        connection.settimeout(0.5)
        for _ in range(60):
            connection.sendall(b"x")
            with suppress(TimeoutError):
                if not connection.recv(1000):
                    return b""
        return b"HTTP/1.1 999 it waits for ever"
    return b""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin")
    given = parser.parse_args()
    os.environ.setdefault("CHATAPP_HOME", tempfile.mkdtemp())
    with serving(given.model) as (port, log):
        results = [
            attack(port, log, name, expected, lambda sent=sent: send(port, sent))  # type: ignore[misc]
            for name, (sent, expected) in ATTACKS.items()
        ]
        results.append(attack(port, log, "a slow loris", (0, 400, 408), lambda: crawl(port)))
    print(f"{sum(results)} of {len(results)} attacks were met as they should be")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
