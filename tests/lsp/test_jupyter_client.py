"""The language server as JupyterLab's extension runs it: started when needed, again when it has ended."""

import asyncio
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "packaging/jupyterlab"))

from chatapp_jupyterlab.language_server import Asked, LanguageServer, NotStartedError  # noqa: E402

LINE = "parser.add_argument('ä 𝒜', help='more')\n"
NO_MODEL = {"model": "none-of-that-name", "threshold": 0.0}
"""Files alone have offers, which starts quickly."""


def ask(text: str, character: int, *, name: str = "a.py") -> Asked:
    """The end of the second line of a text."""
    return Asked(f"file:///nowhere/{name}", "python", text, 1, character, 1, NO_MODEL)


async def end(server: LanguageServer) -> None:
    """End the process, as when it is killed."""
    assert server.process
    server.process.terminate()
    await server.process.wait()


@pytest.mark.process
@pytest.mark.usefixtures("home")
async def test_offers_and_what_the_server_says_come_from_a_process_that_may_end(tmp_path: Path) -> None:
    server = LanguageServer("chatapp", tmp_path)
    begun = LINE[:26]
    found = await server.complete(ask(LINE + begun, 27))  # one more in UTF-16
    assert found[0]["insertText"] == LINE[26:-1]
    assert (await server.complete(ask(LINE + LINE[:31], 32)))[0]["insertText"] == LINE[31:-1]
    while not (messages := server.take_messages()):
        await asyncio.sleep(0.05)
    assert "none-of-that-name" in messages[0]
    await end(server)
    assert (await server.complete(ask(LINE + begun, 27)))[0]["insertText"] == LINE[26:-1]
    await end(server)


async def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotStartedError, match="no-such-command was not found; install chatapp"):
        await LanguageServer("no-such-command", tmp_path).complete(ask("\n", 0))


@pytest.mark.process
async def test_a_command_that_ends_at_once_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotStartedError, match="lsp has ended"):
        await LanguageServer("false", tmp_path).complete(ask("\n", 0))
