"""Vim with ALE: the list appears while one types, and Ctrl-N and Ctrl-Y take its first entry."""

import argparse
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from editors.sample import BEFORE, BEYOND, CALL, REST
from editors.terminal import Terminal


def main() -> None:
    """Give a Vim of its own the configuration, and drive it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chatapp", type=Path, default=shutil.which("chatapp"), help="the command to be tried")
    parser.add_argument("--vim", default="vim", help="the command of Vim, which has ALE as a package")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for what the editor writes")
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True)
    environment = os.environ | {"HOME": str(work)}
    subprocess.run([given.chatapp, "editor", "vim", "--write"], check=True, env=environment)
    file = work / "words.py"
    file.write_text(BEFORE + BEYOND)
    vim = Terminal([*shlex.split(given.vim), "-N", "-n", str(file)], environment)
    try:
        vim.until("words.py")
        vim.child.send("GA")
        vim.type("pars")
        vim.look(8)  # until the model is open
        vim.child.send("\x7f" * 4)
        vim.type(CALL)
        shown = vim.until("chatapp: ")
        print("list:", [line.strip() for line in shown.split("\n") if "chatapp: " in line])
        vim.child.send("\x0e\x19\x1b:w\r")
        vim.look(2)
        last = file.read_text().rstrip("\n").split("\n")[-1]
        print("taken:", repr(last))
        assert last == BEYOND + CALL + REST.partition("(")[0]  # ALE takes nothing from a parenthesis on
    finally:
        vim.end()


if __name__ == "__main__":
    main()
