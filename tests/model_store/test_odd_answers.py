"""Whatever a server answers, and whatever the environment says of the network, ends as one line for the user."""

import errno
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from huggingface_hub import constants

from chatapp.text.errors import one_line
from model_store import Store, StoreError
from model_store.hub import hub, pull, web
from model_store.hub.pull import Plan
from model_store.hub.web import NoNetwork, Patience, Site, TryAgain
from support.checkpoints import Run
from support.loopback_hub import LoopbackHub
from support.pulls import ORG, QUICK, Pull

SIGNED = "?X-Amz-Signature=signature&Expires=1"
LOCATIONS = [
    "http://[bad", "http://h:99999/", "http://h:abc/", "http://[::1", "http://[::1]:x/", "http://", "https://", "//",
    "", "?", "#x", "http:///x", "http://127.0.0.1:-1/", "http://127.0.0.1:0/", "http://127.0.0.1:1/a b",
    "http://127.0.0.1:1/\u00e9", "ftp://127.0.0.1/x", "javascript:alert(1)", "data:,x", "file:///etc/passwd",
    "/" * 3000, "http://127.0.0.1:1/" + "a" * 70_000, "https://127.0.0.1:1/x", "http://localhost:1%20/",
    f"http://user:password@127.0.0.1:1/x{SIGNED}", f"ftp://127.0.0.1/x{SIGNED}", f"http://[bad{SIGNED}",
]  # fmt: skip
ORDERS = [
    "Mon, 01 Jan 99999 00:00:00 GMT", "Mon, 99 Foo 2000 99:99:99 +9999", "Fri, 31 Dec 9999 23:59:59 -9999", "-1",
    "1e999", "9" * 400, "NaN", "", "0.5", "tomorrow",
]  # fmt: skip
STATUSES = [
    204,
    205,
    206,
    226,
    300,
    304,
    305,
    399,
    400,
    401,
    402,
    403,
    404,
    405,
    410,
    416,
    418,
    425,
    451,
    499,
    600,
    999,
]
RAW = [
    b"", b"\r\n", b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"hello",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx", b"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", b"\xff\xfe\0\1", b"SSH-2.0-OpenSSH_9.9\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n{}", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n{}",
    b"HTTP/1.1 103 Early Hints\r\n\r\n" * 30, b"HTTP/1.1 100 Continue\r\n\r\n" * 3,
]  # fmt: skip
DATE = "Wed, 01 Jan 2003 00:00:00 GMT"
ANSWERS: list[dict[str, object]] = [
    *({"status": 302, "headers": {"Location": place.encode().decode("latin-1")}, "body": b""} for place in LOCATIONS),
    *({"status": 503, "headers": {"Retry-After": order, "Date": DATE}} for order in ORDERS),
    *(dict[str, object](status=status) for status in STATUSES),
    *(dict[str, object](raw=content) for content in RAW),
    *(dict[str, object](status=404, body=body) for body in (b"null", b"[" * 20_000, b"\xff\xfe", b'{"error": 1}')),
    {"status": 403, "headers": {"X-Error-Message": "\u00e9"}, "body": b"\xff"},
]


@pytest.mark.parametrize("path", ["/api/models", "/resolve/"])
@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_an_odd_answer_is_one_line(
    store: Store, folder: Path, loopback: LoopbackHub, answer: dict[str, object], path: str
) -> None:
    loopback.fault(path, times=99, **answer)
    with pytest.raises(StoreError) as caught:
        pull.plan(store.roots, ORG, site=Site(loopback.url), patience=Patience(stall=0.5, tries=2, pause=0.01))
    said = one_line(caught.value)
    assert said and len(said) < 700
    assert "signature" not in said and "password" not in said


def test_a_listing_that_never_ends_is_not_waited_for(store: Store, folder: Path, loopback: LoopbackHub) -> None:
    loopback.fault("/api/models", times=9, status=200, headers={"Content-Length": "99"}, body=b"{}")
    with pytest.raises(StoreError, match=r"the connection to 127\.0\.0\.1 broke \(.*\), 2 times in a row"):
        pull.plan(store.roots, ORG, site=Site(loopback.url), patience=Patience(stall=0.5, tries=2, pause=0.01))


def test_hints_before_an_answer_are_not_the_answer(pulling: Pull, folder: Path, loopback: LoopbackHub) -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"
    loopback.fault("", times=99, before=2 * hint)
    assert (pulling() / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_an_address_of_storage_that_has_expired_is_asked_for_once_more(
    pulling: Pull, folder: Path, loopback: LoopbackHub
) -> None:
    loopback.redirecting = True
    loopback.fault("/storage/", after=1, status=403)
    assert (pulling() / "model.safetensors").exists()
    loopback.requests.clear()
    loopback.fault("/storage/", times=99, status=403, body=b"<Error>Request has expired</Error>")
    loopback.publish(ORG, folder, "again")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-4] + b"1234")
    loopback.publish(ORG, folder)
    with pytest.raises(
        StoreError, match=r"127\.0\.0\.1 answers 403 to a request for a file of org/tiny; try again later"
    ):
        pulling()
    assert len(loopback.asked("/storage/")) == 2


# The environment


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment without proxies; what was read from another one is read again."""

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    web.trust.cache_clear()
    yield monkeypatch
    web.trust.cache_clear()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ALL_PROXY": "socks5://127.0.0.1:1"}, "proxies of the kind socks5:// are not supported; set HTTPS_PROXY"),
        ({"HTTP_PROXY": "http://127.0.0.1:99999"}, "the proxy URL in the environment is not usable"),
        ({"HTTP_PROXY": "http://[bad"}, "the proxy URL in the environment is not usable"),
    ],
    ids=range(3),
)
def test_a_proxy_that_cannot_be_used_is_named(
    planned: Callable[..., Plan], folder: Path, anew: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        anew.setenv(name, value)
    with pytest.raises(StoreError, match=message):
        planned()


def test_certificates_that_cannot_be_used_are_named(
    store: Store, loopback: LoopbackHub, anew: pytest.MonkeyPatch
) -> None:
    anew.setenv("SSL_CERT_FILE", "/nope")
    with pytest.raises(
        StoreError, match="the certificates of SSL_CERT_FILE=/nope.* cannot be read .*; set it to others, or"
    ):
        pull.plan(store.roots, ORG, site=Site(loopback.url.replace("http:", "https:")), patience=QUICK)


def test_a_proxy_that_cannot_be_used_does_not_matter_where_none_is_needed(
    planned: Callable[..., Plan], folder: Path, anew: pytest.MonkeyPatch
) -> None:
    anew.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    anew.setenv("NO_PROXY", "127.0.0.1")
    assert planned().files


@pytest.mark.parametrize("endpoint", ["http://[bad", "http://h:99999", "http://h:abc", "nonsense", "ftp://h", ""])
def test_an_endpoint_that_is_no_address_is_named(endpoint: str) -> None:
    with pytest.raises(StoreError, match="HF_ENDPOINT is .*, which is not a URL"):
        hub.with_token(endpoint, None)


@pytest.mark.process
def test_an_endpoint_with_which_huggingface_hub_cannot_be_imported_is_named(
    chatapp: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://[bad")
    assert chatapp("search", "tiny").stderr == (
        "Error: HF_ENDPOINT is 'http://[bad', which is not a URL (Invalid IPv6 URL)\n"
    )


def test_a_token_is_sent_over_plain_http_to_this_machine_only() -> None:
    for endpoint in ("http://hub.example", "http://10.0.0.7:8080", "http://localhost.example"):
        assert hub.with_token(endpoint, None).token is None
        with pytest.raises(StoreError, match="anybody on the way could read your token"):
            hub.with_token(endpoint, "secret")
    for endpoint in ("https://hub.example", "http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost"):
        assert hub.with_token(endpoint, "secret").token == "secret"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_end_of_an_address_is_not_taken_for_a_port(scheme: str) -> None:
    connection = web.connect(urlsplit(f"{scheme}://[2606:4700::1]/x"), None, stall=1, private=False)
    assert (connection.host, connection.port) == ("2606:4700::1", web.PORTS[scheme])


# No network


def test_where_there_is_no_network_a_pull_gives_up_at_once(tmp_path: Path, anew: pytest.MonkeyPatch) -> None:
    waits: list[tuple[str, float]] = []

    def refuse(*address: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    anew.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(StoreError, match=r"^no network: hub\.example cannot be reached \(.*\), 2 times in a row"):
        pull.plan(
            [tmp_path / "models"],
            ORG,
            site=Site("https://hub.example"),
            patience=Patience(pause=0.01),
            on_wait=lambda reason, pause: waits.append((reason, pause)),
        )
    assert [pause for _, pause in waits] == [0.01]


def test_a_search_without_a_network_shows_the_catalogue(chatapp: Run, anew: pytest.MonkeyPatch) -> None:
    def refuse(*address: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    anew.setattr(socket, "getaddrinfo", refuse)
    anew.setattr(constants, "ENDPOINT", "https://hub.example")
    lost = "no network: hub.example cannot be reached (Temporary failure in name resolution)"
    done = chatapp("search", "tinyllama")
    assert done.returncode == 0 and "tinyllama-chat" in done.stdout
    ending = "2 times in a row; check the network, and try again later"
    assert (
        done.stderr
        == f"{lost}; retrying in 0.5 s\ncannot search the Hub, showing the catalogue only: {lost}, {ending}\n"
    )
    done = chatapp("search", "nowhere", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{lost}; retrying in 0.5 s\nError: {lost}, {ending}\n"


@pytest.mark.parametrize("reached", [False, True])
def test_only_a_network_that_was_there_is_waited_for(reached: bool) -> None:
    failures = iter([TryAgain("busy")] * reached + [NoNetwork("no network")] * 9)

    def request() -> None:
        raise next(failures)

    with pytest.raises(StoreError, match=f"no network, {3 if reached else 2} times in a row"):
        web.patiently(request, QUICK, on_wait=lambda reason, pause: None)


def test_what_the_system_says_of_the_network_is_told_from_a_host_that_is_down() -> None:
    for error in (socket.gaierror(-2, "Name or service not known"), OSError(errno.ENETUNREACH, "unreachable")):
        assert isinstance(web.unreached("h", error), NoNetwork)
    assert not isinstance(web.unreached("h", ConnectionRefusedError(errno.ECONNREFUSED, "refused")), NoNetwork)
