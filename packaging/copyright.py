"""Writes the copyright file of a Debian package: chatapp's own terms, and those of each part.

python packaging/copyright.py
"""

from pathlib import Path

from chatapp.text.about import PACKED, list_parts

ROOT = Path(__file__).parents[1]


def paragraph(text: str) -> str:
    """A text as the format wants it: indented, a dot for an empty line."""
    return "\n".join(f" {line}" if line.strip() else " ." for line in text.splitlines())


if __name__ == "__main__":
    print("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/")
    print("Upstream-Name: chatapp\n")
    print("Files: *\nCopyright: The chatapp authors\nLicense: Apache-2.0")
    print(" On Debian systems, the licence is in /usr/share/common-licenses/Apache-2.0.")
    print("Comment: It holds these, under their own terms, which stand with each in usr/lib/chatapp:")
    print("\n".join(f" {part.name} {part.version}: {part.licence}" for part in list_parts(PACKED)))
    print("\nFiles: usr/lib/chatapp/_internal/gi/*\nCopyright: The PyGObject authors\nLicense: LGPL-2.1+")
    print(" On Debian systems, the licence is in /usr/share/common-licenses/LGPL-2.1; it is beside the program, too.")
    print(" These files are unchanged and may be replaced; their source is at https://pypi.org/project/PyGObject/")
    print("\nFiles: usr/lib/chatapp/_internal/chatapp/desktop/page/*")
    print("Copyright: The xterm.js authors; Bitstream, Inc.; Tavmjong Bah\nLicense: MIT-and-Bitstream-Vera")
    print(paragraph((ROOT / "chatapp" / "desktop" / "page" / "LICENSES.txt").read_text("utf-8")))
