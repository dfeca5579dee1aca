"""Takes README.md's picture of the real program, in a home of its own: the built-in model goes on with a text.

apt-get install librsvg2-bin fonts-dejavu-core
PYTHONPATH=. python packaging/desktop/picture.py docs/screen.png
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from textual.pilot import Pilot

from chatapp.tui.app import ChatApp
from chatapp.workspace import Workspace

PROMPT = "class Account:\n    def __init__(self, name, balance):"
SIZE = 120, 36


async def until_done(pilot: Pilot[None], state: str) -> None:
    """Waits for what the line at the bottom says."""
    app = pilot.app
    assert isinstance(app, ChatApp)
    while state not in app.chat_screen.pane.status.state:
        await pilot.pause(0.05)


async def take(home: Path) -> str:
    """Lets the model go on, opens the drawer, and gives the picture as SVG."""
    app = ChatApp(Workspace(home))
    async with app.run_test(size=SIZE) as pilot:
        await until_done(pilot, "ready")
        app.chat_screen.pane.box.insert(PROMPT)
        await pilot.press("ctrl+j")
        await until_done(pilot, "done")
        await pilot.press("ctrl+s")
        await pilot.pause(1)
        return app.export_screenshot(title="chatapp")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        picture = asyncio.run(take(Path(folder)))
    picture = picture.replace("Fira Code", "DejaVu Sans Mono").replace("<text ", '<text xml:space="preserve" ')
    command = ["rsvg-convert", "--width", "1460", "--output", sys.argv[1]]
    subprocess.run(command, input=picture.encode(), check=True)
