"""`chatapp editor`: configurations with which editors start `chatapp lsp`."""

import argparse
import json
import os
import shutil
import sys
from argparse import Namespace
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from backends.suggest import suggest
from chatapp.cli.arguments import Parser
from chatapp.cli.printing import note
from chatapp.settings.settings import user_folder
from chatapp.text.errors import InputError, UsageError
from chatapp.text.files import write_whole
from chatapp.text.printable import printable
from chatapp.text.units import table

DETAILS = """\
Without NAME, lists the editors. With NAME, prints its configuration on standard output and where to put it on standard
error. --write puts it there: it backs up and extends a file of lines, and never changes any other existing file.
"""
PLACEHOLDER = '"/path/to/chatapp"'
"""The command's place in a configuration; a JSON string is also valid in Lua, Lisp, TOML and Vim script."""


@dataclass(frozen=True)
class Editor:
    """An editor: how it shows completions, the version tested, and where its configuration belongs."""

    title: str
    shows: str
    tested: str
    """The tested version; empty if it was not run."""
    configuration: str
    """The file's name in chatapp/lsp/editors/."""
    place: str
    """A path below the home folder if it begins with a dot, otherwise below ~/.config."""
    before: tuple[str, ...] = ()
    """Files in the home folder that the editor prefers if they exist."""
    after: str = ""
    """What the user must do by hand; then nothing is written automatically."""
    adds: bool = False
    """Whether the configuration may be appended to an existing file."""


EDITORS = {
    "vscode": Editor(
        "VS Code",
        "grey text",
        "1.139 (code-server 4.139.1)",
        "vscode.json",
        "the user's settings (Preferences: Open User Settings (JSON))",
        after="build and install its extension: docs/editors.md",
    ),
    "jupyterlab": Editor(
        "JupyterLab",
        "grey text",
        "4.6.6",
        "jupyterlab.json",
        "~/.jupyter/jupyter_server_config.json",
        after="build and install its extension: docs/editors.md",
    ),
    "neovim": Editor("Neovim", "grey text", "0.11.4", "neovim.lua", "nvim/plugin/chatapp.lua"),
    "emacs": Editor(
        "Emacs",
        "grey text and list (eglot)",
        "30.1",
        "emacs.el",
        ".emacs.d/init.el",
        before=(".emacs", ".emacs.el"),
        adds=True,
    ),
    "vim": Editor("Vim", "list (ALE)", "9.0 with ALE 3.3.0", "vim.vim", ".vim/plugin/chatapp.vim"),
    "kate": Editor("Kate", "list", "22.12.3", "kate.json", "kate/lspclient/settings.json"),
    "helix": Editor("Helix", "list", "25.01.1", "helix.toml", "helix/languages.toml"),
    "zed": Editor("Zed", "list", "", "zed.json", "zed/settings.json"),
}


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME", nargs="?", type=parse_name, help="an editor from the list")
    parser.add_argument("--write", action="store_true", help="write the configuration where the editor reads it")


def parse_name(name: str) -> str:
    """Check the name of an editor."""
    if name not in EDITORS:
        hint = suggest(name, EDITORS, f"choose from {', '.join(EDITORS)}")
        raise argparse.ArgumentTypeError(f"unknown editor {name!r}; {hint}")
    return name


def run(given: Namespace) -> None:
    """List the editors, or print or write the configuration of one."""
    if not given.name:
        if given.write:
            raise UsageError("--write needs an editor, such as: chatapp editor neovim --write")
        rows = [(name, one.title, one.shows, one.tested or "not tested") for name, one in EDITORS.items()]
        return print(table(("NAME", "EDITOR", "SHOWN AS", "TESTED WITH"), rows))
    editor = EDITORS[given.name]
    text = read_configuration(editor, find_command())
    if given.write:
        return write_configuration(editor, text)
    print(text, end="")
    if editor.after:
        note(f"Put this into {editor.place}. Then {editor.after}.")
    else:
        note(f"Put this into {printable(str(find_place(editor)))}, or run this command with --write.")
    if not editor.tested:
        note(f"Not tested with {editor.title}.")


def find_command() -> str:
    """The absolute path of the command `chatapp`: editors often have another PATH than the shell."""
    beside = Path(sys.executable).parent
    found = shutil.which("chatapp", path=str(beside)) or shutil.which("chatapp")
    if not found:
        raise InputError(f"cannot find the command chatapp in {beside} or on PATH; add its folder to PATH")
    return str(Path(found).absolute())


def read_configuration(editor: Editor, command: str) -> str:
    """The configuration of an editor, with this command in it."""
    text = (files("chatapp.lsp") / "editors" / editor.configuration).read_text("utf-8")
    return text.replace(PLACEHOLDER, json.dumps(command, ensure_ascii=False))


def find_place(editor: Editor) -> Path:
    """The file where an editor reads its configuration."""
    home = user_folder()
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    first = next((home / name for name in editor.before if (home / name).exists()), None)
    return first or (home if editor.place.startswith(".") else settings) / editor.place


def write_configuration(editor: Editor, text: str) -> None:
    """Write the configuration, unless that would change existing content."""
    if editor.after:
        raise InputError(f"--write does not support {editor.title}; {editor.after}")
    if os.name == "nt":
        raise InputError("--write does not support Windows; add the lines of `chatapp editor NAME` by hand")
    path = find_place(editor)
    before = path.read_text("utf-8") if path.exists() else None
    if before is not None and text in before:
        note(f"{printable(str(path))} is already set up.")
        return
    if before is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
        note(f"Wrote {printable(str(path))}. To undo, delete the file.")
        return
    if not editor.adds:
        raise InputError(
            f"{path} already exists and was not changed; add the lines of `chatapp editor` by hand, "
            "or move the file away"
        )
    backup = path.with_name(f"{path.name}.before-chatapp")
    if backup.exists():
        raise InputError(f"{backup} already exists from an earlier run; move it away first")
    shutil.copy2(path, backup)
    write_whole(path, before.rstrip("\n") + "\n\n" + text)
    note(f"Added to {printable(str(path))}. To undo, move {printable(str(backup))} back.")
