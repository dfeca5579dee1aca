"""VS Code, as code-server, in a headless Chromium: ghost text appears, is typed on, and Tab takes it."""

import argparse
import json
import os
import subprocess
from pathlib import Path

from playwright.sync_api import Page

from editors.browser import add_arguments, drop_and_ask, open_page, serve, shrink, wait_for_ghost
from editors.record import end_record, make_command
from editors.sample import BEFORE, TYPED

GHOST = ".ghost-text, .ghost-text-decoration, .ghost-text-decoration-preview"
SETTINGS = {
    "chat.disableAIFeatures": True,
    "editor.cursorBlinking": "solid",
    "editor.minimap.enabled": False,
    "extensions.autoCheckUpdates": False,
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "workbench.colorTheme": "Default Dark Modern",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
}


def main() -> None:
    """Install the extension into a code-server of its own, and drive it."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--node", required=True)
    parser.add_argument("--code-server", type=Path, required=True, help="the folder node_modules/code-server")
    parser.add_argument("--extension", type=Path, default="packaging/vscode/dist/chatapp.vsix")
    given = parser.parse_args()
    work = given.work.resolve()
    project = work / "project"
    project.mkdir(parents=True)
    (project / "words.py").write_text(BEFORE)
    settings = {"User": SETTINGS, "Machine": {"chatapp.path": str(make_command(work, given.chatapp, given.record))}}
    for scope, chosen in settings.items():
        (work / "data" / scope).mkdir(parents=True)
        (work / "data" / scope / "settings.json").write_text(json.dumps(chosen))
    command = [given.node, given.code_server / "out/node/entry.js", "--user-data-dir", work / "data"]
    command += ["--extensions-dir", work / "extensions", "--disable-telemetry", "--disable-update-check"]
    environment = {"HOME": str(work), "PATH": os.defpath, "LANG": "C.UTF-8"}
    if home := os.environ.get("CHATAPP_HOME"):
        environment["CHATAPP_HOME"] = home
    install = [*command, "--install-extension", given.extension.resolve()]
    subprocess.run(install, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"127.0.0.1:{given.port}"
    command += ["--auth", "none", "--bind-addr", address, "--disable-workspace-trust", project]
    with (
        serve(command, environment, work / "server.log"),
        open_page(given.chromium, f"http://{address}/?folder={project}", (900, 460), work / "failure.png") as page,
    ):
        drive(page, given.picture)
        edit(page)
        page.wait_for_timeout(500)
    end_record(given.record, project / "words.py")


def drive(page: Page, picture: Path | None) -> None:
    """Type as a user would, and look."""
    page.wait_for_selector(".explorer-folders-view .monaco-list-row", timeout=120_000)
    page.get_by_role("treeitem", name="words.py").first.dblclick()
    page.wait_for_selector(".monaco-editor .view-line")
    state = page.locator(".statusbar-item", has_text="chatapp").first
    page.wait_for_function(
        "item => item.querySelector('.codicon-check') !== null", arg=state.element_handle(), timeout=60_000
    )
    page.locator(".monaco-editor .view-lines").first.click()
    page.keyboard.press("Control+End")
    page.keyboard.type(TYPED, delay=80)
    wait_for_ghost(page, GHOST)
    ghost = read_ghost(page)
    print("ghost text:", repr(ghost))
    if picture:
        page.keyboard.press("Control+B")
        page.wait_for_timeout(500)
        page.screenshot(path=picture)
        shrink(picture, (0, 34, 900, 460))
    page.keyboard.type(ghost[:3], delay=80)
    rest = read_ghost(page)
    print("typed on:", repr(rest))
    assert rest == ghost[3:]
    page.keyboard.press("Tab")
    page.wait_for_function("ghost => !document.querySelector(ghost)", arg=GHOST)
    text = page.evaluate("Array.from(document.querySelectorAll('.view-line'), line => line.innerText).join('\\n')")
    lines = text.replace("\xa0", " ").split("\n")
    print("taken:", [line for line in lines if TYPED in line])
    assert any(line.endswith(TYPED + ghost) for line in lines)
    drop_and_ask(page, GHOST, ghost)


def edit(page: Page) -> None:
    """Change the text in other ways than by typing, among it characters beyond 16 bits, and save it."""
    for keys in ("Control+Home", "End", "Enter"):
        page.keyboard.press(keys)
    page.keyboard.insert_text("# 𝒜𝒷 ä 日本 \t.")
    for keys in ("Home", "ArrowRight", "ArrowRight", "Delete", "End", "Backspace", "Control+Z", "Control+Shift+K"):
        page.keyboard.press(keys, delay=50)
    for keys in ("Control+Z", "Control+End", "Shift+Alt+ArrowUp", "Alt+ArrowUp", "Control+Slash", "Control+S"):
        page.keyboard.press(keys, delay=50)
    page.wait_for_function("!document.querySelector('.tab.dirty')")


def read_ghost(page: Page) -> str:
    """The ghost text, once there is one."""
    page.wait_for_selector(GHOST, timeout=60_000)
    page.wait_for_timeout(300)
    return "".join(page.locator(GHOST).all_inner_texts()).replace("\xa0", " ")


if __name__ == "__main__":
    main()
