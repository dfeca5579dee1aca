"""A stand-in for the Hugging Face Hub on this machine: serves folders as repositories, and misbehaves as told.

with LoopbackHub() as hub:
    hub.publish("org/name", folder)
    hub.fault("safetensors", cut=1000)
    ...                                   # with HF_ENDPOINT=hub.url
    hub.requests                          # what was asked for

python tests/support/loopback_hub.py ROOT serves ROOT/ORG/NAME/FILES.
"""

import hashlib
import json
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.hub_facts import Fault, File, Listing, Request
from support.hub_handler import HubHandler


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
