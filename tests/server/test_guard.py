"""Who may ask, against a real port."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chatapp.server.refusals import without_folders
from chatapp.server.settings import ServerSettings, read_keys
from chatapp.settings.settings import SettingsError
from chatapp.text.errors import UsageError
from support.scripted_engine import ScriptedEngine
from support.served import Served, serving
from support.stand_in_home import Home

KEY, OTHER = "first-of-two-keys-1", "second-of-two-keys-2"
PAGE = "https://chat.example"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(Home(ScriptedEngine(can_chat=True)), origins=(PAGE,), hosts=("models.example",)) as served:
        yield served


@pytest.fixture(scope="module")
def keyed() -> Iterator[Served]:
    with serving(Home(ScriptedEngine(can_chat=True)), keys=(KEY, OTHER)) as served:
        yield served


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST.:1", 200),
        ("127.0.0.1:8012", 200),
        ("127.0.0.2", 200),
        ("[::1]:80", 200),
        ("models.example", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("10.0.0.1", 403),
        ("2130706433", 403),
        ("", 403),
    ],
)
def test_only_a_name_of_this_machine_is_answered(served: Served, host: str, status: int) -> None:
    assert served.get("/v1/models", host=host).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": PAGE}, 200),
        ({"origin": PAGE, "sec-fetch-site": "cross-site"}, 200),
        ({"origin": f"{PAGE}.evil"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_only_pages_that_are_allowed_are_answered(served: Served, headers: dict[str, str], status: int) -> None:
    answer = served.get("/v1/models", **headers)
    assert answer.status_code == status
    assert answer.headers.get("access-control-allow-origin") == (PAGE if headers.get("origin") == PAGE else None)


def test_the_servers_own_pages_are_answered(served: Served) -> None:
    assert served.get("/v1/models", origin=f"http://127.0.0.1:{served.port}").status_code == 200


def test_a_browser_that_asks_first_is_told(served: Served) -> None:
    headers = {"access-control-request-method": "POST", "access-control-request-headers": "x-stainless-os"}
    answer = served.client.options("/v1/chat/completions", headers={"origin": PAGE, **headers})
    assert answer.status_code == 204 and "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "x-stainless-os"
    answer = served.client.options("/v1/chat/completions", headers={"origin": "https://evil.example", **headers})
    assert answer.status_code == 403 and "access-control-allow-methods" not in answer.headers


def test_a_foreign_page_is_refused_before_its_body_is_read(served: Served) -> None:
    answer = served.client.post("/v1/chat/completions", content=b"{", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": f"Bearer {KEY}"}, 200),
        ({"authorization": f"bearer {OTHER}"}, 200),
        ({"x-api-key": KEY}, 200),
        ({"authorization": f"Bearer {KEY}x"}, 401),
        ({"authorization": f"Basic {KEY}"}, 401),
        ({"authorization": "Bearer"}, 401),
    ],
)
def test_with_keys_one_of_them_is_needed(keyed: Served, headers: dict[str, str], status: int) -> None:
    answer = keyed.get("/v1/models", **headers)
    assert answer.status_code == status
    assert ("does not accept this key" in answer.text) == (
        status == 401 and headers == {"authorization": f"Bearer {KEY}x"}
    )


def test_a_page_that_may_ask_can_read_that_it_lacks_a_key() -> None:
    with serving(Home(ScriptedEngine()), keys=(KEY,), origins=(PAGE,)) as served:
        answer = served.get("/v1/models", origin=PAGE)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (401, PAGE)


def test_a_missing_key_is_told_before_what_there_is(keyed: Served) -> None:
    answer = keyed.get("/nothing/here")
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"


def test_other_addresses_need_a_key() -> None:
    with pytest.raises(UsageError, match="--keys"):
        ServerSettings(host="0.0.0.0")
    assert ServerSettings(host="0.0.0.0", keys=(KEY,)).keys
    assert ServerSettings(host="::1").is_local and ServerSettings(host="localhost").is_local


@pytest.mark.parametrize(("host", "why"), [("", "empty"), ("[::1]", "the brackets"), ("localhost:80", "with --port")])
def test_what_is_no_address_to_listen_on_is_refused(host: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        ServerSettings(host=host, keys=(KEY,))


@pytest.mark.parametrize("origin", ["chat.example", f"{PAGE}/", f"{PAGE}/page", "https://Chat.example", "", "null"])
def test_what_no_browser_sends_as_an_origin_is_refused(origin: str) -> None:
    with pytest.raises(UsageError, match="is not an origin"):
        ServerSettings(origins=(PAGE, origin))
    pages = "http://localhost:3000", "http://[::1]:3000", "app://obsidian.md", "chrome-extension://abc"
    assert ServerSettings(origins=pages).origins == pages


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# mine\n{KEY}\n\n  {OTHER}  \n  # the old one: {KEY}-old\n")
    assert read_keys(path) == (KEY, OTHER)
    for text, complaint in (("# none\n", "no key"), ("short\n", "shorter")):
        path.write_text(text)
        with pytest.raises(SettingsError, match=complaint):
            read_keys(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cannot read /home/me/models/tiny/config.json: gone", "cannot read config.json: gone"),
        (r"cannot read C:\Users\me\tiny.onnx", "cannot read tiny.onnx"),
        ("see ~/models/x or a/b and 1/2", "see x or a/b and 1/2"),
        ("GET /v1/models lists them", "GET /v1/models lists them"),
    ],
)
def test_a_refusal_names_no_folder(text: str, told: str) -> None:
    assert without_folders(text) == told
