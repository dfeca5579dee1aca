"""What goes between a page and its app, over a real socket and the pipes of a real process."""

import asyncio
import json
from pathlib import Path

import pytest

from chatapp.desktop import bridge
from chatapp.desktop.bridge import environment
from chatapp.desktop.state import SingleInstance, WindowState, read, write
from chatapp.text.errors import UserError
from support.patience import PATIENCE
from support.typist import until
from support.windows import drawn, told, window


async def test_the_app_gets_the_size_that_the_window_had(tmp_path: Path) -> None:
    async with window(tmp_path) as one, one.enter() as client:
        assert await drawn(client, "False") == b"90x30 xterm-256color False"


def test_the_app_sees_no_other_terminal() -> None:
    given = {"TMUX": "x", "COLUMNS": "1", "SSH_CONNECTION": "y", "HOME": "/home/me", "TERM": "dumb"}
    assert environment(given) == {"HOME": "/home/me", "TERM": "xterm-256color", "COLORTERM": "truecolor"}


async def test_what_is_typed_arrives_even_where_it_is_no_text(tmp_path: Path) -> None:
    async with window(tmp_path) as one, one.enter() as client:
        await client.send("äöü 漢字 🙂".encode())
        await drawn(client, "äöü 漢字 🙂")
        await client.send(b"\xff\xfe!")
        await drawn(client, "��!")


async def test_a_new_size_reaches_the_app_and_is_kept(tmp_path: Path) -> None:
    async with window(tmp_path) as one, one.enter() as client:
        await client.send('{"type": "resize", "columns": 120, "rows": 40}')
        await client.send('{"type": "zoom", "size": 20}')
        await until(lambda: one.face.announced)
        assert json.loads(one.face.announced[0]) == {"type": "resize", "width": 120, "height": 40}
        await until(lambda: one.bridge.state.zoom == 20)
        assert (one.bridge.state.columns, one.bridge.state.rows) == (120, 40)


async def test_a_page_that_is_loaded_anew_is_drawn_anew(tmp_path: Path) -> None:
    async with window(tmp_path, '{"type": "colours", "background": "#111111"}') as one:
        async with one.enter() as client:
            assert (await told(client, "colours"))["background"] == "#111111"
        async with one.enter() as client:
            assert (await told(client, "colours"))["background"] == "#111111"
            await until(lambda: one.face.announced)
            assert json.loads(one.face.announced[-1]) == {"type": "repaint"}


async def test_a_browser_is_told_what_a_window_tells_itself(tmp_path: Path) -> None:
    messages = ('{"type": "busy", "busy": true}', '{"type": "announce", "text": "builtin has answered."}')
    async with window(tmp_path, *messages, stays=False) as one, one.enter() as client:
        assert (await told(client, "busy"))["busy"]
        assert (await told(client, "announce"))["text"] == "builtin has answered."
        assert one.bridge.busy
    async with window(tmp_path, *messages) as one, one.enter() as client:
        assert not (await told(client, "busy"))["busy"]  # a native window asks by itself
        await until(lambda: one.face.announced == ["builtin has answered."])


async def test_only_links_of_the_web_are_opened(tmp_path: Path) -> None:
    links = ["file:///etc/passwd", "javascript:1", "/bin/sh", "https://example.org"]
    messages = [json.dumps({"type": "open_url", "url": link}) for link in links]
    async with window(tmp_path, *messages) as one, one.enter():
        await until(lambda: one.face.links)
        assert one.face.links == ["https://example.org"]


async def test_a_dropped_file_is_attached_from_where_it_lies(tmp_path: Path) -> None:
    there = tmp_path / "my notes.md"
    async with window(tmp_path) as one, one.enter() as client:
        one.face.places["my notes.md"] = there
        await client.send('{"type": "file", "name": "my notes.md", "text": "x"}')
        await until(lambda: one.face.announced)
        assert json.loads(one.face.announced[0]) == {"type": "drop", "path": str(there)}
        assert not (tmp_path / "dropped").exists()


NAMES = {"a.py": "a.py", "../../.bashrc": "bashrc", "C:\\x\\b.txt": "b.txt", "a/\0?.\n": "dropped", 'q"<.c': "q.c"}
NAMES |= {"more/a.py": "a-2.py"}  # another file, which leaves the first as it is


async def test_a_file_whose_place_nobody_knows_is_written_below_one_folder(tmp_path: Path) -> None:
    async with window(tmp_path) as one, one.enter() as client:
        for name in NAMES:
            await client.send(json.dumps({"type": "file", "name": name, "text": f"{name}\n"}))
        await until(lambda: len(one.face.announced) == len(NAMES))
        for (name, becomes), message in zip(NAMES.items(), one.face.announced, strict=True):
            path = Path(json.loads(message)["path"])
            assert path == tmp_path / "dropped" / becomes
            assert path.read_bytes().decode() == f"{name}\n"


async def test_a_file_that_cannot_be_written_is_told_of_and_the_window_stays(tmp_path: Path) -> None:
    (tmp_path / "dropped").write_text("in the way")
    async with window(tmp_path) as one, one.enter() as client:
        await client.send('{"type": "file", "name": "a.py", "text": "x"}')
        await until(lambda: one.face.announced)
        lost = json.loads(one.face.announced[0])
        assert lost == {"type": "lost", "text": f"a.py cannot be saved in {tmp_path / 'dropped'}: File exists"}
        await client.send('{"type": "blur"}')
        assert (await told(client, "end"))["text"]


async def test_the_page_says_how_the_app_ended(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        async with one.enter() as client:
            await client.send('{"type": "blur"}')
            end = (await told(client, "end"))["text"]
            assert "exit code 1" in end and "broken on purpose" in end
        assert await one.served == 1
    async with window(tmp_path) as one, one.enter() as client:
        assert one.bridge.process
        one.bridge.process.kill()
        assert (await told(client, "end"))["text"].startswith("chatapp exited (SIGKILL)")
        assert await one.served == 1


async def test_closing_the_window_asks_the_app(tmp_path: Path) -> None:
    async with window(tmp_path) as one, one.enter() as client:
        await asyncio.to_thread(one.bridge.close)
        assert "has quit" in (await told(client, "end"))["text"]
        assert await one.served == 0


async def test_the_app_behind_a_page_that_was_closed_leaves_once_it_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "ALONE", 1.0)
    async with window(tmp_path, stays=False) as one:
        async with one.enter() as client:
            await drawn(client, "90x30")
        assert await asyncio.wait_for(one.served, PATIENCE) == 0


# The window of a user


async def test_a_second_start_raises_the_window(tmp_path: Path) -> None:
    first = SingleInstance(tmp_path)
    assert first.is_first
    async with window(tmp_path) as one, one.enter() as client:
        first.publish(one.bridge.door.port, one.bridge.door.raising)
        assert first.path.stat().st_mode & 0o077 == 0
        second = SingleInstance(tmp_path)
        assert not second.is_first
        await asyncio.to_thread(second.raise_window)
        assert len(one.face.shown) == 1
        await client.send(b"unharmed")
        await drawn(client, "unharmed")
        second.close()
        first.close()
    third = SingleInstance(tmp_path)
    assert third.is_first and third.read() is None
    third.close()


def test_a_window_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatapp.desktop.state.PATIENCE", 0.0)
    first, second = SingleInstance(tmp_path), SingleInstance(tmp_path)
    with pytest.raises(UserError, match="does not respond"):
        second.raise_window()
    second.close()
    first.close()


def test_the_state_of_a_window_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "window.json"
    write(path, WindowState(900, 600, -5, 20, maximized=True, zoom=18))
    assert read(path) == WindowState(900, 600, -5, 20, maximized=True, zoom=18)


@pytest.mark.parametrize("text", ["", "[]", '{"width": "wide", "zoom": true, "x": 1e300}', "\0", '{"width": 9999999}'])
def test_nonsense_in_the_state_is_the_usual_window(text: str, tmp_path: Path) -> None:
    path = tmp_path / "window.json"
    path.write_text(text)
    assert read(path) == WindowState()
