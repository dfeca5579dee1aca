"""JupyterLab in a headless Chromium: ghost text appears in a notebook, is typed on, and Tab takes it."""

import argparse
import json
import os
import shutil
from pathlib import Path

from playwright.sync_api import Page

from editors.browser import add_arguments, drop_and_ask, open_page, serve, shrink, wait_for_ghost
from editors.record import make_command
from editors.sample import BEFORE, TYPED

GHOST = ".jp-GhostText"


def main() -> None:
    """Run a JupyterLab that has the extension, and drive it."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--jupyter-lab", type=Path, default=shutil.which("jupyter-lab"), help="with the extension")
    given = parser.parse_args()
    work = given.work.resolve()
    settings = work / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"fetchNews": "false"}))
    project = work / "project"
    project.mkdir()
    environment = {"HOME": str(work), "PATH": f"{given.jupyter_lab.parent}:{os.defpath}", "LANG": "C.UTF-8"}
    environment["JUPYTERLAB_SETTINGS_DIR"] = str(work / "settings")
    if home := os.environ.get("CHATAPP_HOME"):
        environment["CHATAPP_HOME"] = home
    command = [given.jupyter_lab, "--no-browser", "--allow-root", f"--port={given.port}", f"--notebook-dir={project}"]
    command += [
        "--IdentityProvider.token=drill",
        f"--Chatapp.command={make_command(work, given.chatapp, given.record)}",
    ]
    address = f"http://127.0.0.1:{given.port}/lab?token=drill"
    with (
        serve(command, environment, work / "server.log"),
        open_page(given.chromium, address, (1000, 500), work / "failure.png") as page,
    ):
        drive(page, given.picture)


def drive(page: Page, picture: Path | None) -> None:
    """Type as a user would, and look."""
    page.locator('.jp-LauncherCard[data-category="Notebook"]').first.click(timeout=120_000)
    page.wait_for_selector(".jp-Notebook .cm-content")
    page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', timeout=60_000)
    page.locator(".jp-Notebook .cm-content").first.click()
    page.keyboard.insert_text(BEFORE.rstrip())
    page.keyboard.press("Shift+Enter")
    page.wait_for_function("document.querySelectorAll('.jp-Notebook .cm-content').length == 2")
    page.wait_for_timeout(1000)
    page.keyboard.type(TYPED, delay=80)
    wait_for_ghost(page, GHOST)
    ghost = read_ghost(page)
    print("ghost text:", repr(ghost))
    if picture:
        page.keyboard.press("Control+B")
        page.wait_for_timeout(500)
        page.screenshot(path=picture)
        shrink(picture, (40, 28, 960, 480))
    page.keyboard.type(ghost[:3], delay=80)
    page.wait_for_timeout(1500)
    rest = read_ghost(page)
    print("typed on:", repr(rest))
    assert rest == ghost[3:]
    page.keyboard.press("Tab")
    page.wait_for_function(f"!document.querySelector('{GHOST}')")
    lines = page.locator(".jp-Notebook .cm-line").all_inner_texts()
    print("taken:", lines[-1])
    assert lines[-1] == TYPED + ghost
    drop_and_ask(page, GHOST, ghost, back=["Enter"])


def read_ghost(page: Page) -> str:
    """The ghost text, once there is one."""
    page.wait_for_selector(GHOST, timeout=60_000)
    page.wait_for_timeout(300)
    return "".join(page.locator(GHOST).all_inner_texts())


if __name__ == "__main__":
    main()
