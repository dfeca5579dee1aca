"""What a stand-in for the Hugging Face Hub has, what it is asked, and how it is to misbehave."""

from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

LARGE = (".safetensors", ".bin", ".model", ".onnx", ".gguf")
"""What the Hub names after its SHA-256; the rest is named as git does."""

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

    @property
    def stored(self) -> str:
        """Its path in the storage."""
        return f"/storage/{self.sha256}"


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
    last: Event | None = None
    """With a rate: send the last bytes when this is set."""
    reset: bool = False
    """Close the connection instead of answering."""
    before: bytes = b""
    """Send these bytes before the answer."""
    raw: bytes | None = None
    """Send these bytes instead of an answer."""
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
