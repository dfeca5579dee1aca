"""Neovim without a screen: ghost text appears, is typed on, and Tab takes it; Esc drops it."""

import argparse
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvim

from editors.record import end_record, make_command
from editors.sample import BEFORE, TYPED

EDITS = (
    "<Esc>ggo# 𝒜𝒷 ä 日本 \t.<Esc>",
    "0llx",
    "$x",
    "u",
    "dd",
    "p",
    ":%s/parser/other/g<CR>",
    "GyyP",
    "ddgg=G",
    "uu<C-r>",
)
"""Changes in other ways than by typing, among characters beyond 16 bits."""


def main() -> None:
    """Give a Neovim of its own the Lua file, and drive it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chatapp", type=Path, default=shutil.which("chatapp"), help="the command to be tried")
    parser.add_argument("--nvim", default="nvim")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for what the editor writes")
    parser.add_argument("--record", type=Path, help="where what editor and server say to each other goes")
    given = parser.parse_args()
    work = given.work.resolve()
    (work / "project/.git").mkdir(parents=True)
    (work / "config/nvim").mkdir(parents=True)
    settings = 'vim.api.nvim_create_autocmd("LspProgress", { pattern = "end", command = "let g:opened = 1" })\n'
    (work / "config/nvim/init.lua").write_text(settings)
    os.environ |= {"XDG_CONFIG_HOME": str(work / "config"), "XDG_STATE_HOME": str(work / "state")}
    subprocess.run([given.chatapp, "editor", "neovim", "--write"], check=True)
    lua = work / "config/nvim/plugin/chatapp.lua"
    command = make_command(work, given.chatapp, given.record)
    lua.write_text(lua.read_text().replace(str(given.chatapp), str(command)))
    file = work / "project/words.py"
    file.write_text(BEFORE)
    editor = pynvim.attach("child", argv=[given.nvim, "--embed", "--headless", "-n", str(file)])
    try:
        drive(editor)
        for keys in EDITS:
            editor.input(keys)
            time.sleep(0.2)
        editor.command("write")
        editor.command("lua vim.lsp.stop_client(vim.lsp.get_clients())")
        until(lambda: editor.exec_lua("return #vim.lsp.get_clients() == 0"))
    finally:
        editor.command("qa!", async_=True)
    end_record(given.record, file)


def drive(editor: pynvim.Nvim) -> None:
    """Type as a user would, and look."""
    print("Neovim", editor.exec_lua("return tostring(vim.version())"))
    until(lambda: editor.exec_lua("local c = vim.lsp.get_clients({name='chatapp'})[1]; return c and c.initialized"))
    print("positions:", editor.exec_lua("return vim.lsp.get_clients({name='chatapp'})[1].offset_encoding"))
    until(lambda: editor.vars.get("opened"))  # the model
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
    editor.input("<Esc>0C" + TYPED)  # below the line that was taken there is only one offer
    until(lambda: read_ghost(editor))
    editor.input("<C-]>")
    until(lambda: not read_ghost(editor))
    editor.input("<M-Bslash>")
    first = until(lambda: read_ghost(editor))
    editor.input("<M-Bslash>")
    until(lambda: read_ghost(editor) not in ("", first))
    print("asked for:", repr(first), "and the next:", repr(read_ghost(editor)))
    editor.input("<Esc>")
    until(lambda: not read_ghost(editor))
    assert editor.current.line == TYPED
    editor.input("o<Esc>0Cx<Tab>")
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
