"""Who may enter a window: real sockets, real requests, and whoever does not belong there."""

import asyncio
import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.exceptions import InvalidMessage, InvalidStatus
from websockets.typing import Origin, Subprotocol

from chatapp.desktop.door import PAGE, ROUTES
from support.windows import OpenWindow, closed, drawn, told, window


async def test_the_page_comes_with_all_it_needs_and_may_load_nothing_else(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        for path, (name, kind) in ROUTES.items():
            head, _, body = (await one.get(path)).partition("\r\n\r\n")
            assert head.startswith("HTTP/1.1 200 "), path
            assert body.encode("latin-1") == (PAGE / name).read_bytes()
            assert f"Content-Type: {kind}" in head
            assert "default-src 'none'; script-src 'self';" in head
            assert f"connect-src ws://{one.bridge.door.host};" in head
            assert "frame-ancestors 'none'" in head and "X-Frame-Options: DENY" in head
            assert "Cross-Origin-Resource-Policy: same-origin" in head


def test_the_page_names_only_files_that_are_served() -> None:
    named = set()
    for page in ("index.html", "page.css", "page.js"):
        text = (PAGE / page).read_text("utf-8")
        assert not re.search(r"https?://", text)
        named |= set(re.findall(r"""(?:href|src|icon)(?:=|: )"(/[^"]*)"|url\("([^"]*)"\)""", text))
    files = {one or other for one, other in named}
    assert files == ROUTES.keys() - {"/"}


async def test_there_is_no_other_route(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        for path in ("/nothing", "/../screen.py", "//", "/%2e%2e/door.py", "/page.js?x", "/static/"):
            assert (await one.get(path)).startswith("HTTP/1.1 404 "), path


async def test_a_wrong_host_is_refused(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        port = one.bridge.door.port
        for host in ("evil.example", f"evil.example:{port}", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}"):
            assert (await one.get(host=host)).startswith("HTTP/1.1 421 "), host
        twice = await one.get("/", "Host: evil.example")
        assert twice.startswith("HTTP/1.1 421 ")
        assert (await one.request("GET / HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 421 ")


async def test_no_other_method_is_known(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        for method in ("POST", "HEAD", "PUT", "OPTIONS", "CONNECT"):
            answer = await one.request(f"{method} / HTTP/1.1\r\nHost: {one.bridge.door.host}\r\n\r\n")
            assert not answer.startswith("HTTP/1.1 2"), method


async def test_another_page_can_load_nothing(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        assert (await one.get("/page.js", "Origin: http://evil.example")).startswith("HTTP/1.1 403 ")
        assert (await one.get("/xterm.js", "Sec-Fetch-Site: cross-site")).startswith("HTTP/1.1 403 ")
        assert (await one.get("/xterm.js", "Sec-Fetch-Site: same-site")).startswith("HTTP/1.1 403 ")
        assert (await one.get("/xterm.js", "Sec-Fetch-Site: same-origin")).startswith("HTTP/1.1 200 ")


async def refusal(one: OpenWindow, token: str | None = None, **given: object) -> int:
    """The status with which a client is refused."""
    with pytest.raises((InvalidStatus, InvalidMessage)) as raised:
        async with one.enter(token, **given):
            pass
    return raised.value.response.status_code if isinstance(raised.value, InvalidStatus) else 0


async def test_the_socket_opens_for_the_pages_own_origin_only(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        port = one.bridge.door.port
        for origin in ("http://evil.example", "null", f"http://localhost:{port}", f"https://127.0.0.1:{port}", None):
            assert await refusal(one, origin=origin and Origin(origin)) == 403, origin
        async with one.enter() as client:  # and the token is not spent
            await drawn(client, "90x30")


async def test_the_socket_opens_for_the_token_only(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        token = one.bridge.door.token
        for wrong in ("none", token[:-1], token + "x", token.swapcase(), one.bridge.door.raising):
            assert await refusal(one, wrong) == 403
        for offer in (None, [token], ["chatapp"], ["chatapp-raise", token], ["chatapp", token, token]):
            assert await refusal(one, subprotocols=offer and [Subprotocol(part) for part in offer]) == 403
        async with one.enter(token) as client:
            await drawn(client, "90x30")


async def test_a_token_opens_once_and_the_page_is_given_the_next(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        first = one.bridge.door.token
        async with one.enter(first) as client:
            following = (await told(client, "token"))["token"]
            await drawn(client, "90x30")
        assert await refusal(one, first) == 403
        async with one.enter(following) as client:  # as a page that is loaded anew does
            await client.send(b"hello")
            await drawn(client, "hello")


async def test_a_second_client_is_refused_and_the_first_does_not_notice(tmp_path: Path) -> None:
    async with window(tmp_path) as one, one.enter() as first:
        assert await refusal(one) == 409
        assert await refusal(one) == 409  # its token was not spent
        await first.send(b"still here")
        await drawn(first, "still here")


async def test_floods_leave_the_window_unharmed(tmp_path: Path) -> None:
    async with window(tmp_path) as one, one.enter() as client:
        port, host = one.bridge.door.port, one.bridge.door.host
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        floods = [refusal(one, "guess" * 10) for _ in range(50)]
        floods += [refusal(one, origin=Origin("http://evil.example")) for _ in range(50)]
        assert set(await asyncio.gather(*floods)) == {403}
        for nonsense in ("\0" * 20_000, "GET " * 20_000, f"GET / HTTP/1.1\r\nHost: {host}\r\n" + "X: y\r\n" * 5_000):
            assert not (await one.request(nonsense + "\r\n\r\n")).startswith("HTTP/1.1 2")
        for _ in range(300):
            await client.send(b"x" * 1_000)
        await client.send(b"the end")
        assert len(await drawn(client, "the end")) >= 300_000
        with ExitStack() as stack:
            for _, writer in silent:
                stack.callback(writer.close)


NONSENSE = (
    "no JSON",
    "[]",
    '{"type": "exit"}',
    '{"type": "close"}',
    '{"type": "resize", "columns": 1000000, "rows": 3}',
    '{"type": "resize", "columns": -1, "rows": 3}',
    '{"type": "zoom", "size": 1e9}',
    '{"type": "deliver_chunk_request", "key": "x", "size": 1}',
)


async def test_a_client_that_says_what_no_page_says_is_sent_away(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        for message in NONSENSE:
            async with one.enter() as client:
                await client.send(message)
                assert await closed(client) == 1008, message
        async with one.enter() as client:
            await client.send(b"alive")
            await drawn(client, "alive")
        assert set(one.face.announced) == {'{"type": "repaint"}'}


async def test_a_message_that_is_too_long_ends_that_client_only(tmp_path: Path) -> None:
    async with window(tmp_path) as one:
        async with one.enter(max_size=None) as client:
            await client.send([b"x" * 2**20] * 4 + [b"x"])
            assert await closed(client) == 1009
        async with one.enter() as client:
            await client.send(b"alive")
            await drawn(client, "alive")
