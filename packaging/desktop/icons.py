"""Draws the icon in the sizes that systems want, by a Chromium: PNG for Linux, ICO for Windows, ICNS for a Mac.

pip install playwright && python packaging/desktop/icons.py [CHROMIUM]
"""

import struct
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
ICON = HERE.parents[1] / "chatapp" / "desktop" / "page" / "icon.svg"
SIZES = (16, 24, 32, 48, 64, 128, 256, 512)
WINDOWS = (16, 24, 32, 48, 64, 128, 256)
MAC = {b"icp4": 16, b"icp5": 32, b"icp6": 64, b"ic07": 128, b"ic08": 256, b"ic09": 512}


def draw(chromium: str) -> dict[int, bytes]:
    """The icon as PNG, by its size in pixels."""
    drawn = {}
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for size in SIZES:
            page = browser.new_page(viewport={"width": size, "height": size})
            style = f"margin:0;width:{size}px;height:{size}px;background:transparent"
            page.set_content(f'<body style="{style}">{ICON.read_text("utf-8")}</body>')
            drawn[size] = page.screenshot(omit_background=True)
        browser.close()
    return drawn


def pack_ico(drawn: dict[int, bytes]) -> bytes:
    """An ICO: a directory of 16 bytes an entry, then the pictures."""
    head, body, place = struct.pack("<HHH", 0, 1, len(WINDOWS)), b"", 6 + 16 * len(WINDOWS)
    for size in WINDOWS:
        picture = drawn[size]
        head += struct.pack("<BBBBHHII", size % 256, size % 256, 0, 0, 1, 32, len(picture), place + len(body))
        body += picture
    return head + body


def pack_icns(drawn: dict[int, bytes]) -> bytes:
    """An ICNS: each picture behind its kind and length."""
    body = b"".join(kind + struct.pack(">I", 8 + len(drawn[size])) + drawn[size] for kind, size in MAC.items())
    return b"icns" + struct.pack(">I", 8 + len(body)) + body


if __name__ == "__main__":
    pictures = draw(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/chromium")
    (HERE / "icons").mkdir(exist_ok=True)
    for size, picture in pictures.items():
        (HERE / "icons" / f"{size}.png").write_bytes(picture)
    (HERE / "icons" / "chatapp.ico").write_bytes(pack_ico(pictures))
    (HERE / "icons" / "chatapp.icns").write_bytes(pack_icns(pictures))
