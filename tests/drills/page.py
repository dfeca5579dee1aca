"""The server's page in a headless Chromium: chat, stop, new, latencies, hostile answers, another site, a killed server.

    pip install playwright; apt-get install chromium
    PYTHONPATH=tests:tests/offline python -m drills.page FOLDER [CHROMIUM]

Pictures go to FOLDER. Nothing is fetched: the models are a script and the built-in one.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from support.scripted_engine import ScriptedEngine
from support.served import serving
from support.stand_in_home import Home

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script> \u202e ended "


def until(page: Page, condition: str) -> None:
    """Wait for a condition, which the page's own policy lets nobody leave to be evaluated in it."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"waited in vain for {condition}")


def note(complaints: list[str], message: ConsoleMessage) -> None:
    """Note an error or a warning of the page."""
    if message.type in ("error", "warning"):
        complaints.append(message.text)


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[Page]:
    """A page that complains of nothing, and asks nobody but its own server."""
    page = browser.new_page(viewport={"width": 900, "height": 640})
    complaints, asked = list[str](), set[str]()
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.add(request.url))
    page.goto(address)
    until(page, "document.querySelector('#model').options.length > 0")
    yield page
    assert not complaints, complaints
    assert all(url.startswith((f"{address}/", "data:")) for url in asked), asked
    page.close()


def chat(browser: Browser, folder: Path) -> None:
    """A conversation: two turns, of which the second has the first in it, with thinking folded and live figures."""
    engine = ScriptedEngine(text="<think>\nHm.\n</think>\n\nOne two three.", can_chat=True, delay=0.005)
    with serving(Home(engine)) as served, opened(browser, f"http://127.0.0.1:{served.port}") as page:
        page.evaluate("() => { models.set('builtin', ['chat']); invite() }")  # the stand-in can
        for turn in (1, 2):
            page.fill("#text", f"hello {turn}")
            page.keyboard.press("Enter")
            until(page, f"document.querySelectorAll('.figures').length === {turn}")
            page.wait_for_selector("#send:visible")
        figures = page.locator(".figures").last.inner_text()
        assert "first token" in figures and "p95" in figures, figures
        assert page.locator("article.assistant > div:not(.figures)").last.inner_text() == "One two three."
        assert "Hm." in str(page.locator("details").last.text_content())
        said = [(one.role, one.text) for one in engine.chats[-1]]
        assert said == [("user", "hello 1"), ("assistant", "One two three."), ("user", "hello 2")], said
        page.screenshot(path=folder / "page-chat.png")
        print(f"chat: {figures}")


def anew(browser: Browser) -> None:
    """An answer that "New" cuts off is not in the next conversation."""
    engine = ScriptedEngine(text="word " * 400, can_chat=True, delay=0.01)
    with serving(Home(engine)) as served, opened(browser, f"http://127.0.0.1:{served.port}") as page:
        page.evaluate("() => { models.set('builtin', ['chat']); invite() }")
        for text in ("old", "new"):
            page.fill("#text", text)
            page.keyboard.press("Enter")
            until(page, "document.querySelector('main').innerText.includes('word word')")
            page.click("#new")
            page.wait_for_selector("#send:visible")
        said = [[one.text for one in asked] for asked in engine.chats]
        assert said == [["old"], ["new"]] and not page.input_value("#text"), said
        print("anew: nothing of what was cut off")


def hostile(browser: Browser, folder: Path) -> None:
    """What a model writes is text, whatever it looks like; stopping ends it on the server too."""
    engine = ScriptedEngine(text=HOSTILE + "word " * 400, delay=0.01)
    with serving(Home(engine)) as served, opened(browser, f"http://127.0.0.1:{served.port}") as page:
        page.fill("#text", "x")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('main').innerText.includes('word word')")
        page.screenshot(path=folder / "page-live.png")
        page.click("#stop")
        page.wait_for_selector("#send:visible")
        said = page.locator("article.assistant").inner_text()
        assert (
            "<script>" in said
            and "word word" in said
            and "\u202e" not in said
            and "stopped" in said
            and page.title() == "chatapp"
        ), said
        while not engine.closed:
            page.wait_for_timeout(20)
        page.click("#new")
        assert not page.locator("article").count()
        print(f"hostile: shown as text, stopped after {len(said)} characters")


def elsewhere(browser: Browser) -> None:
    """A page of another origin gets no answer, and no model is asked."""
    engine = ScriptedEngine()

    class Site(BaseHTTPRequestHandler):
        """Another site."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>hello</p>")

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    site = HTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    with serving(Home(engine)) as served:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{site.server_address[1]}/")
        ask = """async ([url, mode]) => {
          const body = JSON.stringify({ model: "builtin", prompt: "x" });
          try { return (await fetch(url, { method: "POST", mode, body })).status }
          catch (error) { return String(error) }
        }"""
        for name in ("127.0.0.1", "localhost"):
            for mode in ("cors", "no-cors"):
                found = page.evaluate(ask, [f"http://{name}:{served.port}/v1/completions", mode])
                assert found in (0, "TypeError: Failed to fetch"), found
        framed = page.evaluate(
            """url => new Promise(done => { const frame = document.createElement('iframe'); frame.src = url;
            frame.onload = () => { try { done(frame.contentDocument.body.innerText) } catch { done('refused') } };
            document.body.append(frame) })""",
            f"http://127.0.0.1:{served.port}/",
        )
        assert framed in ("refused", ""), framed
        assert not engine.asked
        page.close()
    site.shutdown()
    print("elsewhere: four posts and a frame refused, no model asked")


def killed(browser: Browser) -> None:
    """A server that is killed in the middle: the text stays, and the page says what happened."""
    port = "18931"
    server = subprocess.Popen([sys.executable, "-m", "chatapp", "serve", "builtin", "--port", port])
    try:
        page = browser.new_page()
        for _ in range(100):
            try:
                page.goto(f"http://127.0.0.1:{port}/")
                break
            except Exception as error:  # Playwright's own errors have one class
                if "ERR_CONNECTION_REFUSED" not in str(error):
                    raise
                page.wait_for_timeout(200)
        until(page, "document.querySelector('#model').options.length > 0")
        page.select_option("#model", "builtin")
        page.evaluate(
            "() => { const ask = fetch; window.fetch = (url, how) => ask(url, how && how.body ? "
            '{ ...how, body: how.body.replace(\'256\', \'1500,"stop":"never","logit_bias":{"0":-100,"5":-100}\') } '
            ": how) }"
        )
        page.fill("#text", "import os")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('main').innerText.length > 60")
        server.send_signal(signal.SIGKILL)
        page.wait_for_selector("[role=alert]")
        said = page.locator("article").last.inner_text()
        assert len(said) > 60
        page.fill("#text", "unanswered")
        page.keyboard.press("Enter")
        page.wait_for_selector("article:last-child [role=alert]")
        assert page.input_value("#text") == "unanswered"
        print(f"killed: {page.locator('[role=alert]').first.inner_text()!r}, and the text stays")
    finally:
        server.kill()
        server.wait()


def main() -> None:
    """All of it."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("CHATAPP_HOME", tempfile.mkdtemp())
    with sync_playwright() as playwright:
        path = sys.argv[2] if sys.argv[2:] else "/usr/bin/chromium"
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        hostile(browser, folder)
        elsewhere(browser)
        killed(browser)
        chat(browser, folder)
        anew(browser)
        browser.close()


if __name__ == "__main__":
    main()
