"""Fills a template of another packager with a release: its version, the address of its files, and a file's SHA-256.

python packaging/fill.py packaging/aur/PKGBUILD dist/chatapp-0.1.0-linux-x86_64.tar.gz https://... > PKGBUILD
"""

import hashlib
import sys
from pathlib import Path

from chatapp import __version__


def fill(template: str, file: bytes, address: str) -> str:
    """The template with everything in its place."""
    given = {"@VERSION@": __version__, "@SHA256@": hashlib.sha256(file).hexdigest(), "@URL@": address.rstrip("/")}
    for name, value in given.items():
        template = template.replace(name, value)
    return template


if __name__ == "__main__":
    print(fill(Path(sys.argv[1]).read_text("utf-8"), Path(sys.argv[2]).read_bytes(), sys.argv[3]), end="")
