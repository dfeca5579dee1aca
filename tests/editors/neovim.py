"""Neovim without a screen: ghost text appears, is typed on, and Tab takes it; Esc drops it."""

import argparse
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvim

BEFORE = [
    '"""Count the words of a file."""',
    "",
    "import argparse",
    "",
    "",
    "def main() -> None:",
    '    """Count them: 𝒜 ä 日本."""',
    "    parser = argparse.ArgumentParser()",
    '    parser.add_argument("file")',
    "",
]
TYPED = "    args ="
LUA = Path(__file__).parents[2] / "chatapp/lsp/editors/neovim.lua"


def main() -> None:
    """Give a Neovim of its own the Lua file, and drive it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chatapp", type=Path, default=shutil.which("chatapp"), help="the command to be tried")
    parser.add_argument("--nvim", default="nvim")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for what the editor writes")
    given = parser.parse_args()
    work = given.work.resolve()
    (work / "project/.git").mkdir(parents=True)
    (work / "config/nvim/plugin").mkdir(parents=True)
    shutil.copy(LUA, work / "config/nvim/plugin/chatapp.lua")
    file = work / "project/words.py"
    file.write_text("\n".join(BEFORE) + "\n")
    os.environ |= {
        "XDG_CONFIG_HOME": str(work / "config"),
        "XDG_STATE_HOME": str(work / "state"),
        "PATH": f"{given.chatapp.parent}:{os.environ['PATH']}",
    }
    editor = pynvim.attach("child", argv=[given.nvim, "--embed", "--headless", "-n", str(file)])
    try:
        drive(editor)
    finally:
        editor.command("qa!", async_=True)


def drive(editor: pynvim.Nvim) -> None:
    """Type as a user would, and look."""
    print("Neovim", editor.exec_lua("return tostring(vim.version())"))
    until(lambda: editor.exec_lua("local c = vim.lsp.get_clients({name='chatapp'})[1]; return c and c.initialized"))
    print("positions:", editor.exec_lua("return vim.lsp.get_clients({name='chatapp'})[1].offset_encoding"))
    editor.input("Go" + TYPED)
    ghost = until(lambda: read_ghost(editor))
    print("ghost text:", repr(ghost))
    editor.input(ghost[:3].replace("<", "<lt>"))
    until(lambda: read_ghost(editor) == ghost[3:])
    print("typed on:", repr(read_ghost(editor)))
    editor.input("<Tab>")
    until(lambda: editor.current.line == TYPED + ghost and not read_ghost(editor))
    print("taken:", repr(editor.current.line), "cursor", editor.current.window.cursor)
    assert editor.current.window.cursor[1] == len(TYPED + ghost)
    editor.input("<Esc>o<C-u>" + TYPED)
    until(lambda: read_ghost(editor))
    editor.input("<Esc>")
    until(lambda: not read_ghost(editor))
    assert editor.current.line == TYPED
    editor.input("o<C-u>x<Tab>")
    until(lambda: editor.current.line.startswith(("x\t", "x   ")))
    print("Tab without ghost text:", repr(editor.current.line))


def read_ghost(editor: pynvim.Nvim) -> str:
    """The ghost text; nothing where there is none."""
    marks = editor.exec_lua(
        "return vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_get_namespaces().chatapp, 0, -1, {details = true})"
    )
    if not marks:
        return ""
    (_, _, _, details) = marks[0]
    lines = [details["virt_text"], *details.get("virt_lines", [])]
    return "\n".join("".join(text for text, _ in line) for line in lines)


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:  # Any: whatever the condition gives
    """What the condition gives, once it is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise TimeoutError


if __name__ == "__main__":
    main()
