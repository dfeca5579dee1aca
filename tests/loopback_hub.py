"""A stand-in for the Hugging Face Hub on this machine: serves folders as repositories, and misbehaves as told.

with LoopbackHub() as hub:
    hub.publish("org/name", folder)
    hub.fault("safetensors", cut=1000)
    ...                                   # with HF_ENDPOINT=hub.url
    hub.requests                          # what was asked for

python tests/loopback_hub.py ROOT serves ROOT/ORG/NAME/FILES.
"""

import hashlib
import json
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = (".safetensors", ".bin", ".model", ".onnx")
"""What the Hub names after its SHA-256; the rest is named as git does."""
STEP = 1 << 16
MILLION = 1_000_000
"""Parameters of every model, as this hub counts them."""


@dataclass(frozen=True)
class File:
    """A file of a commit."""

    path: Path
    size: int
    git: str
    sha256: str

    @property
    def large(self) -> bool:
        """Whether it is stored outside git."""
        return self.path.suffix in LARGE


@dataclass
class Fault:
    """What goes wrong with requests whose path matches."""

    path: str
    times: int = 1
    after: int = 0
    """Matching requests that are served well before."""
    status: int = 0
    """Answer with this status instead."""
    headers: dict[str, str] = field(default_factory=dict)
    """Additional headers, or others."""
    body: bytes = b'{"error": "injected"}'
    cut: int | None = None
    """Close the connection after so many bytes of the body."""
    shorten: int | None = None
    """Announce and send only so many bytes."""
    flip: int | None = None
    """Send a wrong byte at this place."""
    stall: int | None = None
    """Send nothing more after so many bytes, for `delay` seconds."""
    delay: float = 0.0
    """Seconds before the answer."""
    rate: int = 0
    """Bytes per second."""
    reset: bool = False
    """Close the connection instead of answering."""
    no_range: bool = False
    """Send the whole file whatever was asked for."""


@dataclass(frozen=True)
class Request:
    """What was asked for, and how it was answered."""

    path: str
    status: int
    range: str | None
    authorized: bool
    host: str


Listing = list[dict[str, Any]]  # Any: JSON


class LoopbackHub:
    """Repositories and faults, behind an address of this machine."""

    def __init__(self, port: int = 0, *, token: str | None = None, redirecting: bool = False):
        self.token, self.redirecting = token, redirecting
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.heads: dict[tuple[str, str], str] = {}
        """Commits, by repository and branch."""
        self.commits: dict[tuple[str, str], dict[str, File]] = {}
        self.gated: set[str] = set()
        self.private: set[str] = set()
        self.members: set[str] = set()
        """Gated repositories to which the token's owner has access."""
        self.edit_listing: Callable[[Listing], Listing] = lambda listing: listing
        self.sent = 0
        """Bytes of files that went out."""
        self.lock = threading.Lock()
        self.folder = tempfile.TemporaryDirectory()
        hub = self

        class Handler(HubHandler):
            """Answers for this hub."""

            @property
            def hub(self) -> LoopbackHub:
                return hub

        self.server = QuietServer(("127.0.0.1", port), Handler)
        self.storage = QuietServer(("127.0.0.1", 0), Handler)
        """Another origin, to which large files are redirected."""
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.storage_url = f"http://127.0.0.1:{self.storage.server_address[1]}"

    def __enter__(self) -> "LoopbackHub":
        for server in (self.server, self.storage):
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        for server in (self.server, self.storage):
            server.shutdown()
            server.server_close()
        self.folder.cleanup()

    def publish(self, repository: str, folder: Path, branch: str = "main") -> str:
        """Make the files in `folder` the newest commit of a repository; its name."""
        files: dict[str, File] = {}
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            size = path.stat().st_size
            git, sha256 = hashlib.sha1(b"blob %d\0" % size), hashlib.sha256()
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    git.update(block)
                    sha256.update(block)
            kept = Path(self.folder.name) / f"{sha256.hexdigest()}{path.suffix}"
            if not kept.exists():
                shutil.copyfile(path, kept)
            files[path.relative_to(folder).as_posix()] = File(kept, size, git.hexdigest(), sha256.hexdigest())
        commit = hashlib.sha1(json.dumps({name: file.git for name, file in files.items()}).encode()).hexdigest()
        self.commits[repository, commit] = files
        self.heads[repository, branch] = commit
        return commit

    def fault(self, path: str, **what: Any) -> None:  # Any: fields of Fault
        """Let requests whose path matches go wrong; the first that applies counts."""
        self.faults.append(Fault(path, **what))

    def pick(self, path: str) -> Fault:
        """The fault that applies to a request."""
        with self.lock:
            for fault in self.faults:
                if fault.times and re.search(fault.path, path):
                    if fault.after:
                        fault.after -= 1
                        continue
                    fault.times -= 1
                    return fault
        return Fault("")

    def asked(self, path: str) -> list[Request]:
        """The requests whose path matches."""
        return [one for one in self.requests if re.search(path, one.path)]


class QuietServer(ThreadingHTTPServer):
    """A server that expects its clients to leave without a word."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say what went wrong, unless the client is gone."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # the stubs want one kind of socket


class HubHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    fault: Fault

    @property
    def hub(self) -> LoopbackHub:
        """The hub that is asked."""
        raise NotImplementedError

    def log_message(self, *what: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer, or do what the fault says."""
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        self.fault = self.hub.pick(path)
        time.sleep(self.fault.delay if self.fault.stall is None else 0)
        if self.fault.reset:
            self.note(0)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif self.fault.status:
            self.answer(self.fault.status, self.fault.body, {})
        else:
            self.route(path, parse_qs(parts.query))

    def route(self, path: str, query: dict[str, list[str]]) -> None:
        """Find what is asked for."""
        repository = r"([^/]+/[^/]+)"
        if path == "/api/whoami-v2":
            self.whoami()
        elif path == "/api/models":
            self.search(query.get("search", [""])[0])
        elif found := re.fullmatch(rf"/api/models/{repository}(?:/revision/(.+))?", path):
            self.info(found[1], found[2] or "main")
        elif found := re.fullmatch(rf"/{repository}/resolve/([^/]+)/(.+)", path):
            self.resolve(*found.groups())
        elif found := re.fullmatch(r"/storage/(.+)", path):
            file = next(
                file for files in self.hub.commits.values() for file in files.values() if file.sha256 == found[1]
            )
            self.send_file(file)
        else:
            self.refuse(404, "", "there is no such page")

    def authorized(self) -> bool:
        """Whether the right token came with the request."""
        return self.hub.token is not None and self.headers["Authorization"] == f"Bearer {self.hub.token}"

    def whoami(self) -> None:
        """Tell whose token this is."""
        if self.authorized():
            self.answer_json({"type": "user", "name": "tester", "auth": {"type": "access_token", "accessToken": {}}})
        else:
            self.refuse(401, "", "Invalid credentials in Authorization header")

    def search(self, text: str) -> None:
        """List the repositories with `text` in their name."""
        self.answer_json([self.about(name) for name, _ in sorted(self.hub.heads) if text.lower() in name.lower()])

    def about(self, repository: str) -> dict[str, object]:
        """What a listing says about a repository: its model type is a tag."""
        commit = next(commit for (name, _), commit in self.hub.heads.items() if name == repository)
        files = self.hub.commits[repository, commit]
        config = files["config.json"].path.read_text() if "config.json" in files else ""
        tags = [*re.findall(r'"model_type": "(\w+)"', config), "license:mit"]
        return {
            "id": repository,
            "tags": tags,
            "downloads": 7,
            "gated": "manual" if repository in self.hub.gated else False,
            "safetensors": {"parameters": {"BF16": MILLION}, "total": MILLION} if "config.json" in files else None,
        }

    def files_of(self, repository: str, revision: str) -> tuple[str, dict[str, File]] | None:
        """The commit that a revision means, and its files; None if the answer has been given."""
        known = {name for name, _ in self.hub.heads}
        if repository not in known or (repository in self.hub.private and not self.authorized()):
            self.refuse(401, "RepoNotFound", "Repository not found")
            return None
        commit = self.hub.heads.get((repository, revision), revision)
        if (repository, commit) not in self.hub.commits:
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return commit, self.hub.commits[repository, commit]

    def info(self, repository: str, revision: str) -> None:
        """Tell about a repository and its files."""
        if found := self.files_of(repository, revision):
            commit, files = found
            listing: Listing = [
                {"rfilename": name, "size": file.size, "blobId": file.git}
                | ({"lfs": {"sha256": file.sha256, "size": file.size, "pointerSize": 134}} if file.large else {})
                for name, file in files.items()
            ]
            self.answer_json({**self.about(repository), "sha": commit, "siblings": self.hub.edit_listing(listing)})

    def resolve(self, repository: str, revision: str, name: str) -> None:
        """Send a file, or say where it is."""
        if not (found := self.files_of(repository, revision)):
            return
        _, files = found
        if repository in self.hub.gated and not (self.authorized() and repository in self.hub.members):
            self.refuse(
                403 if self.headers["Authorization"] else 401, "GatedRepo", f"Access to {repository} is restricted"
            )
        elif name not in files:
            self.refuse(404, "EntryNotFound", "Entry not found")
        elif self.hub.redirecting and files[name].large:
            self.answer(302, b"", {"Location": f"{self.hub.storage_url}/storage/{files[name].sha256}"})
        else:
            self.send_file(files[name])

    def send_file(self, file: File) -> None:
        """Send a file from the byte that was asked for."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")
        asked = None if self.fault.no_range else asked
        start = int(asked[1]) if asked else 0
        end = min(file.size, int(asked[2]) + 1) if asked and asked[2] else file.size
        if start >= file.size > 0:
            return self.answer(416, b"", {"Content-Range": f"bytes */{file.size}"})
        length = end - start if self.fault.shorten is None else self.fault.shorten
        headers = {"Content-Length": str(length)}
        if asked:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
        self.begin(206 if asked else 200, headers)
        try:
            self.send_body(file, start, length)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send_body(self, file: File, start: int, length: int) -> None:
        """Send `length` bytes, as well as the fault lets us."""
        fault = self.fault
        with file.path.open("rb") as source:
            if fault.cut is fault.stall is fault.flip is None and not fault.rate:
                self.hub.sent += length  # before: who has got all of it may look at once
                try:
                    self.connection.sendfile(source, start, length)
                except OSError:
                    self.hub.sent -= start + length - source.tell()
                    raise
                return
            source.seek(start)
            sent = 0
            while sent < length:
                ends = [place for place in (length, fault.cut, fault.stall) if place is not None and place > sent]
                chunk = bytearray(source.read(min(STEP, fault.rate // 20 or STEP, min(ends) - sent)))
                if fault.flip is not None and sent <= fault.flip - start < sent + len(chunk):
                    chunk[fault.flip - start - sent] ^= 1
                sent += len(chunk)
                self.hub.sent += len(chunk)
                self.connection.sendall(chunk)
                time.sleep(0.05 if fault.rate else 0)
                if sent == fault.stall:
                    time.sleep(fault.delay)
                if sent in (fault.cut, fault.stall):
                    self.close_connection = True
                    return

    def answer_json(self, value: object) -> None:
        """Answer with JSON."""
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def refuse(self, status: int, code: str, message: str) -> None:
        """Answer as the Hub does when something is wrong."""
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self.answer(
            status, json.dumps({"error": message}).encode(), {name: value for name, value in headers.items() if value}
        )

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Answer with a body that is here."""
        self.begin(status, {"Content-Length": str(len(body)), **headers})
        self.wfile.write(body)

    def begin(self, status: int, headers: dict[str, str]) -> None:
        """Send the status and headers."""
        self.note(status)
        self.send_response_only(status)
        for name, value in (headers | self.fault.headers).items():
            self.send_header(name, value)
        self.end_headers()

    def note(self, status: int) -> None:
        """Remember the request."""
        authorized, host = "Authorization" in self.headers, self.headers["Host"] or ""
        self.hub.requests.append(Request(unquote(self.path), status, self.headers["Range"], authorized, host))


def main() -> None:
    """Serve every ORG/NAME in the folder that is the argument."""
    root = Path(sys.argv[1])
    with LoopbackHub() as hub:
        for folder in sorted(root.glob("*/*")):
            hub.publish(folder.relative_to(root).as_posix(), folder)
        print(f"HF_ENDPOINT={hub.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
