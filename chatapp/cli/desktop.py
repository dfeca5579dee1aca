"""`chatapp desktop`: the screen in a window of its own."""

import sys
from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import note
from chatapp.text.errors import InputError
from chatapp.workspace import Workspace

DETAILS = """\
The window shows the same screen and conversations as a terminal; both may be open at once.
It uses the system's web view (pip install pywebview), over a local connection that only this window can use.
Without a web view, a page in your browser opens instead. A second start brings the window to the front.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp desktop [MODEL] [options]"
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", default="", help="as for `chatapp chat` (default: the last one used)"
    )
    parser.add_argument("--browser", action="store_true", help="open a page in your browser instead")
    parser.add_argument("--screen-reader", action="store_true", help="make the screen readable for a screen reader")


def run(given: Namespace) -> int:
    """Open the window, or raise the one that is open, and stay until it is closed."""
    from chatapp.desktop.bridge import COMMAND
    from chatapp.desktop.state import SingleInstance

    home = Workspace().home
    running = SingleInstance(home)
    try:
        if not running.is_first:
            running.raise_window()
            if given.model or given.screen_reader:
                note("chatapp is already open: choose a model there with Ctrl+O; --screen-reader needs a restart.")
            return 0
        command = (*COMMAND, given.model) if given.model else COMMAND
        if given.browser or not has_view():
            from chatapp.desktop.browser import open_page

            return open_page(home, running, command, reader=given.screen_reader)
        from chatapp.desktop.window import open_window

        return open_window(home, running, command, reader=given.screen_reader)
    finally:
        running.close()


def has_view() -> bool:
    """Whether a window can be opened; if not, note why a browser is used; InputError if there is none either."""
    from chatapp.desktop import browser, window

    if not (lack := window.find_lack()):
        return True
    if not browser.is_there():
        raise InputError(
            f"cannot open a window ({lack}) and found no browser; to open the screen in a terminal, run: chatapp"
        )
    print(f"No window: {lack}. Opening a page in your browser instead.", file=sys.stderr, flush=True)
    return False
