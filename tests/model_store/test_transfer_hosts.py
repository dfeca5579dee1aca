"""Where bytes come from: another host does not see the token, and one's own network is not reached."""

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from model_store.errors import StoreError
from model_store.hub import hub, web
from model_store.hub.hub import Repository
from model_store.hub.web import Answer, Site, is_private, plain_url
from support.loopback_hub import LoopbackHub
from support.pulls import QUICK
from support.transfers import SIZE, WEIGHTS, fetch, found


def test_large_files_come_from_another_host_that_does_not_see_the_token(tmp_path: Path) -> None:
    with LoopbackHub(token="secret", redirecting=True) as loopback:
        folder = tmp_path / "source"
        folder.mkdir()
        (folder / WEIGHTS).write_bytes(os.urandom(SIZE))
        loopback.publish("org/name", folder)
        loopback.fault("storage", cut=1_000_000)
        fetch(found(loopback), tmp_path / "to")
        assert all(one.authorized for one in loopback.asked("/resolve/"))
        assert [(one.authorized, one.range) for one in loopback.asked("/storage/")] == [
            (False, None),
            (False, "bytes=1000000-"),
        ]
        assert all(one.host in loopback.storage_url for one in loopback.asked("/storage/"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:secret@host.example/a?signature=1", "https://host.example/a"),
        ("https://evil.example/x/@huggingface.co/y", "https://evil.example/x/@huggingface.co/y"),
        ("https://a@b@host.example", "https://host.example"),
        ("host.example/a#b", "host.example/a"),
    ],
)
def test_an_address_is_shown_with_its_host_and_without_secrets(url: str, shown: str) -> None:
    assert plain_url(url) == shown


PRIVATE = [
    "127.0.0.1",
    "::1",
    "10.1.2.3",
    "192.168.0.1",
    "172.16.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "fe80::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "2002:7f00:1::",
    "64:ff9b::7f00:1",
    "localhost",
    "printer.local",
    "fe80::1%eth0",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_of_one_s_own_network_are_known(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::6810:1", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_other_addresses_are_not_private(address: str) -> None:
    assert not is_private(address)


def test_a_redirect_into_one_s_own_network_is_refused_by_its_host(
    loopback: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub of this test has a public name, under which a proxy reaches it."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / WEIGHTS).write_bytes(b"x" * 100)
    loopback.publish("org/name", tmp_path / "source")
    monkeypatch.setenv("http_proxy", loopback.url)
    monkeypatch.setenv("no_proxy", "")

    def get() -> Answer:
        return web.get(f"http://hub.example/org/name/resolve/main/{WEIGHTS}", Site("http://hub.example"), stall=5)

    with closing(get()) as answer:
        assert (answer.status, answer.whole(1000)) == (200, b"x" * 100)
    for place in (
        "http://127.0.0.1:1/x",
        "http://[::1]/x",
        "http://10.0.0.7/x",
        "https://169.254.169.254/x",
        "http://localhost/x",
    ):
        asked = len(loopback.requests)
        loopback.fault("resolve", status=302, headers={"Location": place}, body=b"")
        with pytest.raises(StoreError, match="own network|not https"):
            get()
        assert len(loopback.requests) == asked + 1
    loopback.fault("resolve", status=302, headers={"Location": "file:///etc/passwd"})
    with pytest.raises(StoreError, match="not https"):
        get()
    loopback.fault("resolve", status=302, headers={"Location": f"/org/name/resolve/main/{WEIGHTS}"}, times=9)
    with pytest.raises(StoreError, match="in a loop"):
        get()


def test_a_connection_checks_the_address_that_it_really_uses() -> None:
    from model_store.hub.web import open_socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(StoreError, match="own network"):
            open_socket("127.0.0.1", port, 1.0, private=False)
        open_socket("127.0.0.1", port, 1.0, private=True).close()


def test_a_name_is_looked_up_once_so_that_a_second_answer_cannot_lead_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from model_store.hub.web import ask

    looked_up: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def rebind(host: object, port: object, **options: object) -> list[tuple[object, ...]]:
            looked_up.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(socket, "getaddrinfo", rebind)
        with pytest.raises(
            StoreError, match=r"redirects to storage\.example, an address of this machine's own network"
        ):
            ask(f"http://storage.example:{server.getsockname()[1]}/x", {}, stall=1.0, private=False)
    assert looked_up == ["storage.example"]


def test_a_server_that_cannot_be_reached_is_named(source: Repository, tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else gets the port
        gone = Site(f"http://127.0.0.1:{held.getsockname()[1]}")
        with pytest.raises(StoreError, match=r"127\.0\.0\.1 cannot be reached .*refused.*3 times"):
            hub.repository(gone, "org/name", None, patience=QUICK, on_wait=lambda *told: None)
