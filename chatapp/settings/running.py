"""The server that a user runs, told to this user's other programs in a file of the home that only they can read."""

import hashlib
import hmac
import json
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from chatapp import __version__
from chatapp.text.child import is_running
from chatapp.text.files import write_whole

NAME = "server.json"
LARGEST = 4096
"""Bytes of the file."""


@dataclass(frozen=True)
class RunningServer:
    """A server of this user and version, on this machine."""

    port: int
    token: str
    """Shows that one can read the file; never sent before the server has shown that it can."""
    pid: int
    backend: str = ""
    device: str = ""
    precision: str = ""
    """Where its models run, if that was said when it was started."""
    version: str = __version__

    @property
    def place(self) -> tuple[str, str, str]:
        """Backend, device and precision, as far as they were said."""
        return self.backend, self.device, self.precision

    def prove(self, nonce: str) -> str:
        """What only who knows the token can answer to a nonce."""
        return hmac.new(self.token.encode(), f"chatapp server {nonce}".encode(), hashlib.sha256).hexdigest()

    def tell(self, home: Path) -> None:
        """Write the file."""
        home.mkdir(parents=True, exist_ok=True)
        path = home / NAME
        path.unlink(missing_ok=True)  # its mode might be another
        write_whole(path, json.dumps(asdict(self)), mode=0o600)

    def forget(self, home: Path, before: "RunningServer | None" = None) -> None:
        """Delete the file, unless another server has written it by now; the one `before` is told again if it runs."""
        if read(home) == self:
            with suppress(OSError):
                (home / NAME).unlink()
                if before and is_running(before.pid):
                    before.tell(home)


def announce(port: int, backend: str | None, device: str | None, precision: str | None) -> RunningServer:
    """A server of this process, with a token of its own."""
    return RunningServer(port, secrets.token_urlsafe(32), os.getpid(), backend or "", device or "", precision or "")


def read(home: Path) -> RunningServer | None:
    """The server that runs, as far as its file says: of this user and version, and with a process; else None."""
    try:
        descriptor = os.open(home / NAME, os.O_RDONLY)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(file.fileno())
        private = os.name == "nt" or (facts.st_uid == os.getuid() and not stat.S_IMODE(facts.st_mode) & 0o077)
        if not (private and stat.S_ISREG(facts.st_mode)):
            return None
        content = file.read(LARGEST)
    try:
        found = RunningServer(**json.loads(content))
    except (ValueError, TypeError, RecursionError):
        return None
    kinds = (int, str, int, str, str, str, str)
    if [type(value) for value in asdict(found).values()] != list(kinds) or found.version != __version__:
        return None
    return found if 0 < found.port < 65536 and len(found.token) >= 32 and is_running(found.pid) else None
