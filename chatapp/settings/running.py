"""How the user's other programs find a running server: a file in the home folder that only they can read."""

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
"""Maximum bytes of the file."""


@dataclass(frozen=True)
class RunningServer:
    """A running server of this user and version on this machine."""

    port: int
    token: str
    """Proves that its owner can read the file; sent only after the server has proved the same."""
    pid: int
    backend: str = ""
    device: str = ""
    precision: str = ""
    """Backend, device and precision of its models, if given at its start."""
    version: str = __version__

    @property
    def place(self) -> tuple[str, str, str]:
        """Backend, device and precision; each may be empty."""
        return self.backend, self.device, self.precision

    def prove(self, nonce: str) -> str:
        """The answer to a nonce that only a holder of the token can compute."""
        return hmac.new(self.token.encode(), f"chatapp server {nonce}".encode(), hashlib.sha256).hexdigest()

    def write(self, home: Path) -> None:
        """Write the file."""
        home.mkdir(parents=True, exist_ok=True)
        path = home / NAME
        path.unlink(missing_ok=True)  # an existing file would keep its mode
        write_whole(path, json.dumps(asdict(self)), mode=0o600)

    def forget(self, home: Path, before: "RunningServer | None" = None) -> None:
        """Delete the file unless another server has written it; restore the one `before` if it still runs."""
        if read(home) == self:
            with suppress(OSError):
                (home / NAME).unlink()
                if before and is_running(before.pid):
                    before.write(home)


def announce(port: int, backend: str | None, device: str | None, precision: str | None) -> RunningServer:
    """The entry of a server in this process, with a new token."""
    return RunningServer(port, secrets.token_urlsafe(32), os.getpid(), backend or "", device or "", precision or "")


def read(home: Path) -> RunningServer | None:
    """The running server that the file names; None if the file is invalid or its process has ended."""
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
