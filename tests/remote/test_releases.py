"""Whether there is a newer chatapp: asked only when its user says so, at the address that its user names."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from chatapp import __version__
from chatapp.cli.main import main
from chatapp.remote import releases

SUM = "0" * 64


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_newest_is_found_by_its_numbers(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = (
        "chatapp-0.9.0-linux-x86_64.tar.gz",
        "chatapp-0.10.2-py3-none-any.whl",
        "chatapp_0.10.1_amd64.deb",
        "x-99.0.0-y",
    )
    (tmp_path / "SHA256SUMS").write_text("".join(f"{SUM}  {name}\n" for name in names))
    assert main(["version", "--check", page]) == 0
    said = capsys.readouterr().out
    assert "chatapp 0.10.2 is available" in said and f"install.sh {page}" in said
    (tmp_path / "SHA256SUMS").write_text(f"{SUM}  chatapp-{__version__}-linux-x86_64.tar.gz\n")
    assert main(["version", "--check", f"{page}/"]) == 0
    assert f"{__version__} is the newest" in capsys.readouterr().out


def test_what_is_no_page_of_releases_is_said(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--check", page]) == 1
    assert "no SHA256SUMS" in capsys.readouterr().err
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff" * (releases.MOST + 1))
    assert main(["version", "--check", page]) == 1
    assert "no SHA256SUMS" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["http://example.org", "ftp://127.0.0.1", "example.org", "file:///etc", ""])
def test_nothing_is_asked_without_encryption(address: str) -> None:
    with pytest.raises(releases.NoReleases, match="must be at an https:// URL"):
        releases.find_newest(address)


def test_offline_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CHATAPP_OFFLINE", "1")
    assert main(["version", "--check", "https://example.org"]) == 1
    assert "--offline" in capsys.readouterr().err
