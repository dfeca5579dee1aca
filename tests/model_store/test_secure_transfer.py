"""Bytes come encrypted, from who they should come from, and through a proxy that asks who one is."""

import hashlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from model_store import StoreError
from model_store.hub import transfer, web
from model_store.hub.hub import Repository
from model_store.hub.partial import Wanted
from model_store.hub.web import Site
from support.checkpoints import MakeCheckpoint, Run
from support.loopback_hub import LoopbackHub
from support.pulls import QUICK

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
CONTENT = os.urandom(1_000_000)


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A certificate of this machine, which the tests trust."""
    path = tmp_path / "certificate.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    subprocess.run([*make, "-keyout", tmp_path / "key.pem", "-out", path], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    return path


@pytest.fixture
def loopback(certificate: Path, tmp_path: Path) -> Iterator[LoopbackHub]:
    """A hub that speaks TLS."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(CONTENT)
    with LoopbackHub() as hub:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_name("key.pem"))
        hub.server.socket = context.wrap_socket(hub.server.socket, server_side=True)
        hub.publish("org/name", folder)
        web.trust.cache_clear()
        yield hub
    web.trust.cache_clear()


def fetch(loopback: LoopbackHub, folder: Path) -> None:
    """Fetch the file, and check it."""
    folder.mkdir()
    file = Wanted("model.safetensors", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    site = Site(f"https://localhost:{loopback.server.server_address[1]}", "secret")
    source = Repository(site, "org/name", loopback.heads["org/name", "main"], "mit", False, {file.name: file})
    transfer.fetch([file], folder, source.open, on_transfer=lambda now: None, patience=QUICK)
    assert (folder / file.digest).read_bytes() == CONTENT


def test_an_encrypted_transfer_goes_on_after_a_cut(loopback: LoopbackHub, tmp_path: Path) -> None:
    loopback.fault("safetensors", cut=400_000)
    fetch(loopback, tmp_path / "to")
    assert [one.range for one in loopback.requests] == [None, "bytes=400000-"]


def test_who_cannot_prove_who_he_is_gets_no_request(
    loopback: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    web.trust.cache_clear()
    with pytest.raises(StoreError, match="localhost has no valid certificate"):
        fetch(loopback, tmp_path / "to")
    assert not loopback.requests


def test_a_proxy_is_told_who_we_are_and_sees_nothing_else(
    loopback: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server, seen), daemon=True).start()
        monkeypatch.setenv("https_proxy", f"http://me:p%40ss@127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        fetch(loopback, tmp_path / "to")
    (request,) = seen
    assert request.startswith(b"CONNECT localhost:")
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in request
    assert b"secret" not in request


@pytest.fixture
def tiny(loopback: LoopbackHub, checkpoint: MakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of the hub, which is the one to ask."""
    loopback.publish("org/tiny", checkpoint("tiny"))
    address = f"https://localhost:{loopback.server.server_address[1]}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("no_proxy", "")


@pytest.mark.usefixtures("tiny")
def test_a_whole_pull_goes_through_a_proxy_that_cannot_read_it(
    chatapp: Run, loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server, seen), daemon=True).start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.getsockname()[1]}")
        done = chatapp("pull", "org/tiny", "--backend", "onnx", "--precision", "f32")
    assert done.returncode == 0, done.stderr
    assert len(seen) > 4 and all(request.startswith(b"CONNECT localhost:") for request in seen)
    assert len(loopback.asked("/api/")) == 1 and len(loopback.asked("/resolve/")) >= len(seen) - 1


@pytest.mark.usefixtures("tiny")
def test_neither_the_api_nor_a_file_is_taken_from_where_anybody_could_alter_it(
    chatapp: Run, loopback: LoopbackHub
) -> None:
    for path in "/api/models", "/resolve/":
        loopback.requests.clear()
        loopback.fault(path, status=302, headers={"Location": f"{loopback.storage_url}{path}"}, body=b"")
        assert "which is not https; nothing was downloaded from there" in chatapp("pull", "org/tiny").stderr
        assert not any(one.host in loopback.storage_url for one in loopback.requests)


def serve(server: socket.socket, seen: list[bytes]) -> None:
    """Be a proxy for one connection after the other."""
    with suppress(OSError):
        while True:
            ours, _ = server.accept()
            head = b""
            while b"\r\n\r\n" not in head:
                head += ours.recv(4096)
            seen.append(head)
            theirs = socket.create_connection(("127.0.0.1", int(head.split()[1].rpartition(b":")[2])))
            ours.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            for ends in (ours, theirs), (theirs, ours):
                threading.Thread(target=pump, args=ends, daemon=True).start()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Hand on bytes until one side ends."""
    with suppress(OSError):
        while chunk := source.recv(1 << 16):
            target.sendall(chunk)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    target.close()
