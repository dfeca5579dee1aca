"""Emacs with eglot: grey text appears by completion-preview-mode, Tab takes it; M-Tab takes what is listed."""

import argparse
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from editors.sample import BEFORE, BEYOND, CALL, REST
from editors.terminal import Terminal


def main() -> None:
    """Give an Emacs of its own the configuration, and drive it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chatapp", type=Path, default=shutil.which("chatapp"), help="the command to be tried")
    parser.add_argument("--emacs", default="emacs -nw", help="the command of Emacs")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for what the editor writes")
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True)
    environment = os.environ | {"HOME": str(work)}
    subprocess.run([given.chatapp, "editor", "emacs", "--write"], check=True, env=environment)
    file = work / "words.py"
    file.write_text(BEFORE + BEYOND)
    emacs = Terminal([*shlex.split(given.emacs), str(file)], environment)
    try:
        emacs.until("Connected!")
        emacs.look(8)  # until the model is open
        emacs.child.send("\x1b>")
        emacs.type(CALL)
        shown = emacs.until(CALL + REST)
        print("grey text:", [line for line in shown.split("\n") if REST in line and BEYOND[:6] in line])
        emacs.child.send("\t")
        save(emacs)
        assert file.read_text().rstrip("\n") == BEFORE + BEYOND + CALL + REST
        emacs.child.send("\x1b>\n")
        emacs.type("given = pa")
        emacs.child.send("\x1b\t")
        save(emacs)
        last = file.read_text().rstrip("\n").split("\n")[-1]
        print("taken from the list:", repr(last))
        assert last.startswith("given = parser")
        emacs.child.send("\x1b:(plist-get (eglot--capabilities (eglot-current-server)) :positionEncoding)\r")
        emacs.until('"utf-32"')
        print("positions: utf-32")
    finally:
        emacs.end()


def save(emacs: Terminal) -> None:
    """Save the file."""
    emacs.look(1)
    emacs.child.send("\x18\x13")
    emacs.until("Wrote ")


if __name__ == "__main__":
    main()
