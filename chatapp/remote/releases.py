"""Finds the newest release of chatapp at an address the user gives."""

import re
from urllib.parse import urlsplit

from chatapp.text.errors import UserError
from chatapp.text.printable import printable
from model_store.hub import web

PATIENCE = 20.0
"""Seconds without a byte before giving up."""
MOST = 100_000
"""Maximum bytes of a checksum list."""
VERSION = re.compile(r"^[0-9a-f]{64} [ *]chatapp[-_](\d+\.\d+\.\d+)[-_]", re.MULTILINE)


class NoReleases(UserError):
    """No release could be found at the address."""


def find_newest(address: str) -> str:
    """The newest version named in the SHA256SUMS at the address."""
    there = urlsplit(address)
    if there.scheme != "https" and not (there.scheme == "http" and web.is_loopback(there.hostname or "")):
        raise NoReleases(f"a release page must be at an https:// URL, not {printable(address)!r}")
    try:
        answer = web.get(f"{address.rstrip('/')}/SHA256SUMS", web.Site(address), stall=PATIENCE)
        try:
            content = answer.whole(MOST) if answer.status == 200 else None
        finally:
            answer.close()
    except web.TryAgain as error:
        raise NoReleases(f"{error}; try again later") from error
    versions: list[str] = VERSION.findall((content or b"").decode("ascii", "replace"))
    if not versions:
        raise NoReleases(f"no SHA256SUMS of chatapp releases at {printable(address)}; check the URL")
    return max(versions, key=numbers)


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that can be compared."""
    return tuple(int(part) for part in version.split("."))
