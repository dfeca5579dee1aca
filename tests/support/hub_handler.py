"""One connection to a stand-in for the Hugging Face Hub: what is asked, and the answer."""

import json
import re
import socket
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from support.hub_facts import MILLION, Fault, File, Listing, Request
from support.patience import PATIENCE

if TYPE_CHECKING:  # the hub is made of handlers
    from support.loopback_hub import LoopbackHub

STEP = 1 << 16


class HubHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    fault: Fault

    @property
    def hub(self) -> "LoopbackHub":
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
        elif self.fault.raw is not None:
            self.note(0)
            self.close_connection = True
            self.wfile.write(self.fault.raw)
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
        elif kept := [file for files in self.hub.commits.values() for file in files.values() if path == file.stored]:
            self.send_file(kept[0])
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
        tags = [*re.findall(r'"(?:model_type|quant_method)": "(\w+)"', config), "license:mit"]
        return {
            "id": repository,
            "tags": tags,
            "downloads": 7,
            "gated": "manual" if repository in self.hub.gated else False,
            "siblings": [{"rfilename": name} for name in files],
            "gguf": {"total": MILLION, "architecture": "llama"},
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
            self.answer(302, b"", {"Location": f"{self.hub.storage_url}{files[name].stored}"})
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
                if fault.last and sent == length:
                    fault.last.wait(PATIENCE)
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
        self.wfile.write(self.fault.before)
        self.send_response_only(status)
        for name, value in (headers | self.fault.headers).items():
            self.send_header(name, value)
        self.end_headers()

    def note(self, status: int) -> None:
        """Remember the request."""
        authorized, host = "Authorization" in self.headers, self.headers["Host"] or ""
        self.hub.requests.append(Request(unquote(self.path), status, self.headers["Range"], authorized, host))
