"""The web page at `/`, for people without a terminal: one file that loads nothing else."""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from chatapp.server.protocol import Headers

FILE = Path(__file__).with_name("page.html")
POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Allows only the page's own script and style, by digest, and requests to this server."""


@cache
def read_page() -> tuple[bytes, Headers]:
    """The page and its headers."""
    content = FILE.read_bytes()
    digests = {name: digest(content, name) for name in ("script", "style")}
    headers = [
        (b"content-security-policy", POLICY.format(**digests).encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    ]
    return content, headers


def digest(content: bytes, name: str) -> str:
    """The digest of the page's script or style, in the policy's form."""
    (found,) = re.findall(rf"<{name}>(.*?)</{name}>".encode(), content, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(found).digest()).decode()}'"
