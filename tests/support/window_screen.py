"""The app of a window in tests: with a scripted engine, whose answer does not end before its window does."""

import sys

from chatapp.desktop.screen import WindowApp, WindowDriver
from chatapp.tui.app import run
from support.screen_driver import beginning
from support.scripted_engine import ANSWER, ScriptedEngine


def main() -> None:
    engine = ScriptedEngine(ANSWER * 1_000, delay=float(sys.argv[1]), can_chat=True)
    engine.context_length = 1_000_000
    run(WindowApp(beginning(engine, "chatty", theme=""), driver=WindowDriver))


if __name__ == "__main__":
    main()
