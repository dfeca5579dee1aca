"""`chatapp desktop`: the screen in a window of its own."""

import sys
from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import note
from chatapp.text.errors import InputError
from chatapp.workspace import Workspace

DETAILS = """\
The window shows the same screen as a terminal does, with the same conversations; both may be open at once.
It comes by the system's web view (pip install pywebview), over a connection within this machine that takes
one client, which has a secret. Where there is no web view, a page of your browser opens instead.
A second start brings the window to the front.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp desktop [MODEL] [options]"
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", default="", help="as for chat (default: where it was left)"
    )
    parser.add_argument("--browser", action="store_true", help="a page of your browser instead of a window")
    parser.add_argument("--screen-reader", action="store_true", help="tell a screen reader what the screen shows")


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
                note("chatapp was open already: a model is chosen there (Ctrl+O), --screen-reader counts at a start.")
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
            f"neither a window nor a page can be opened: {lack}, and no browser was found; "
            "in a terminal the screen needs neither: chatapp"
        )
    print(f"No window: {lack}. The page opens in your browser instead.", file=sys.stderr, flush=True)
    return False
