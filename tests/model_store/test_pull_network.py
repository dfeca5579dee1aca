"""A whole pull, metadata and bytes, where a proxy stands in between, the Hub redirects, or the clock jumps."""

import itertools
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from model_store import Store, StoreError
from model_store.hub import pull
from model_store.hub.partial import Wanted
from model_store.hub.transfer import Tracker, Transfer
from model_store.hub.web import Site
from support.checkpoints import MakeCheckpoint, Run
from support.loopback_hub import LoopbackHub
from support.patience import PATIENCE
from support.pulls import QUICK

PUBLIC = "http://hub.example"
"""A name that only a proxy can resolve."""
PULL = ("pull", "org/tiny", "--backend", "onnx", "--precision", "f32")
YEARS = 20 * 365 * 86_400


@pytest.fixture
def loopback(checkpoint: MakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A hub that also answers as a proxy would, with a repository."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with LoopbackHub(token="secret") as hub:
        hub.publish("org/tiny", checkpoint("tiny"))
        yield hub


@pytest.fixture
def ask_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the Hub be at this address."""

    def choose(address: str) -> None:
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)  # read once, when it is imported

    return choose


def hosts(loopback: LoopbackHub) -> set[str]:
    return {one.host for one in loopback.requests}


# Proxies


@pytest.mark.process
def test_everything_goes_through_the_proxy(
    chatapp: Run, loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch, ask_at: Callable[[str], None]
) -> None:
    ask_at(PUBLIC)
    monkeypatch.setenv("http_proxy", loopback.url)
    done = chatapp(*PULL)
    assert done.returncode == 0, done.stderr
    assert hosts(loopback) == {"hub.example"}
    assert all(one.path.startswith(PUBLIC) for one in loopback.requests)
    assert chatapp("run", "org/tiny", "hello", "--max-tokens", "2").returncode == 0


def test_a_proxied_pull_that_is_cut_goes_on(
    chatapp: Run, loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch, ask_at: Callable[[str], None]
) -> None:
    ask_at(PUBLIC)
    monkeypatch.setenv("http_proxy", loopback.url)
    loopback.fault(r"resolve/.*/tokenizer\.json", cut=1000)
    assert chatapp(*PULL).returncode == 0
    assert [one.range for one in loopback.asked(r"/tokenizer\.json")] == [None, "bytes=1000-"]


def test_a_proxy_that_does_not_answer_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"^hub\.example, through the proxy 127\.0\.0\.1, cannot be reached"):
        pull.plan(store.roots, "org/tiny", site=Site(PUBLIC), patience=QUICK)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_to_know_who_asks_is_asked_once(
    scheme: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        asked, _ = server.accept()
        with asked:
            asked.recv(65_536)
            asked.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=refuse, daemon=True).start()
        monkeypatch.setenv(f"{scheme}_proxy", f"http://me:wrong@127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(StoreError, match=r"the proxy 127\.0\.0\.1 needs another name or password; give them as"):
            pull.plan(store.roots, "org/tiny", site=Site(f"{scheme}://hub.example"), patience=QUICK)


@pytest.mark.process
def test_what_needs_no_proxy_gets_none(
    chatapp: Run, loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch, ask_at: Callable[[str], None]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as dead:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{dead.getsockname()[1]}")
    ask_at(loopback.url)
    done = chatapp("pull", "org/tiny", "--dry-run", "--offline")
    assert done.returncode == 1 and not loopback.requests
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert chatapp(*PULL).returncode == 0
    assert hosts(loopback) == {loopback.url.removeprefix("http://")}


def test_a_token_is_not_sent_where_it_can_be_read(
    chatapp: Run, loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch, ask_at: Callable[[str], None]
) -> None:
    ask_at(PUBLIC)
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("http_proxy", loopback.url)
    done = chatapp("pull", "org/tiny", "--dry-run")
    assert done.returncode == 1 and "anybody on the way could read your token" in done.stderr
    assert not loopback.requests


# Redirects of the API


@pytest.fixture
def redirected(
    chatapp: Run, loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch, ask_at: Callable[[str], None]
) -> Callable[[str], str]:
    """What a pull complains about where the API redirects to a place."""
    ask_at(PUBLIC)
    monkeypatch.setenv("http_proxy", loopback.url)
    monkeypatch.setenv("no_proxy", "")

    def pull_from(place: str) -> str:
        loopback.fault("/api/models", status=307, headers={"Location": place}, body=b"")
        done: subprocess.CompletedProcess[str] = chatapp("pull", "org/tiny", "--dry-run")
        return done.stderr

    return pull_from


@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:9/x", "http://[::1]:9/x", "http://10.0.0.7/x", "https://169.254.169.254/x",
              "http://localhost:9/x", "http://printer.local/x"],
)  # fmt: skip
def test_the_api_does_not_lead_into_one_s_own_network(
    loopback: LoopbackHub, redirected: Callable[[str], str], place: str
) -> None:
    assert "an address of this machine's own network; nothing was sent there" in redirected(place)
    assert len(loopback.requests) == 1


def test_another_host_may_answer_for_the_api_and_is_not_told_the_token(
    loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which `site` would not send over http:// to another machine at all."""
    moved = {"Location": "http://mirror.example/api/models/org/tiny?blobs=true"}
    loopback.fault("/api/models", status=307, headers=moved, body=b"")
    monkeypatch.setenv("http_proxy", loopback.url)
    monkeypatch.setenv("no_proxy", "")
    pull.plan([Path("nowhere")], "org/tiny", site=Site(PUBLIC, "secret"))
    asked = [(one.host, one.authorized) for one in loopback.asked("/api/models")]
    assert asked == [("hub.example", True), ("mirror.example", False)]
    assert all(one.host == "hub.example" and one.authorized for one in loopback.asked("/resolve/"))


def test_a_redirect_that_is_no_web_address_is_refused(loopback: LoopbackHub, redirected: Callable[[str], str]) -> None:
    assert "which is not https; nothing was downloaded from there" in redirected("file:///etc/passwd")
    assert len(loopback.requests) == 1


def test_a_hub_of_one_s_own_network_may_redirect_within_it(
    chatapp: Run, loopback: LoopbackHub, ask_at: Callable[[str], None]
) -> None:
    ask_at(loopback.url)
    moved = f"{loopback.storage_url}/api/models/org/tiny?blobs=true"
    loopback.fault("/api/models", status=307, headers={"Location": moved}, body=b"")
    assert chatapp("pull", "org/tiny", "--dry-run").returncode == 0


# Clocks


@pytest.fixture(params=["back", "forward", "to and fro"])
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system clock that is set anew each time somebody looks."""
    now, steps = time.time(), itertools.count(1)
    ways: dict[str, Callable[[int], float]] = {
        "back": lambda step: now - step * YEARS / 10,
        "forward": lambda step: now + step * YEARS / 10,
        "to and fro": lambda step: now + (-1) ** step * YEARS,
    }
    monkeypatch.setattr(time, "time", lambda: ways[request.param](next(steps)))


@pytest.mark.usefixtures("clock")
def test_a_clock_that_jumps_changes_neither_rates_nor_pauses(loopback: LoopbackHub, tmp_path: Path) -> None:
    store = Store(tmp_path / "models")
    size = (tmp_path / "tiny" / "model.safetensors").stat().st_size
    loopback.fault("/api/models", status=429, headers={"Retry-After": "1"})
    loopback.fault("model.safetensors", after=1, status=503, headers={"Retry-After": "1"})
    loopback.fault("model.safetensors", rate=size)
    told: list[Transfer] = []
    start = time.monotonic()
    plan = pull.plan(store.roots, "org/tiny", site=Site(loopback.url), patience=QUICK)
    plan.fetch(on_transfer=told.append, patience=QUICK)
    assert 2 <= time.monotonic() - start < PATIENCE
    assert any("retrying in 1.0 s" in one.note for one in told)
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert all(0 <= one.rate < 100 * size for one in told)
    assert all(one.seconds_left is None or one.seconds_left >= 0 for one in told)
    assert store.get("org/tiny").family == "llama"


@pytest.mark.usefixtures("clock")
def test_a_pull_that_was_interrupted_before_a_jump_goes_on(loopback: LoopbackHub, tmp_path: Path) -> None:
    store = Store(tmp_path / "models")
    plan = pull.plan(store.roots, "org/tiny", site=Site(loopback.url), patience=QUICK)
    loopback.fault("model.safetensors", stall=100_000, delay=1000)

    def interrupt(now: Transfer) -> None:
        if now.done >= plan.size - (tmp_path / "tiny" / "model.safetensors").stat().st_size + 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan.fetch(on_transfer=interrupt, patience=QUICK)
    asked = len(loopback.requests)
    plan.fetch(on_transfer=lambda now: None, patience=QUICK)
    assert [one.range for one in loopback.requests[asked:]] == ["bytes=100000-"]


def test_a_machine_that_slept_shows_no_rate_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a machine sleeps the steady clock may stand still or run on; neither makes a rate that cannot be."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tracker = Tracker([Wanted("weights", 1_000_000, "0" * 64)])
    rates = []
    for pause, fetched in ((0.0, 0), (1.0, 100_000), (0.0, 100_000), (3600.0, 100_000), (1.0, 200_000)):
        now += pause
        rates.append(tracker.look({"weights": fetched}, fetched).rate)
    assert rates[:3] == [0.0, 100_000.0, 100_000.0]
    assert 0 <= rates[3] < 100 and 0 <= rates[4] <= 100_000


def test_an_order_to_come_again_that_cannot_be_is_told(loopback: LoopbackHub, tmp_path: Path) -> None:
    for order in "9" * 30, "Fri, 31 Dec 9999 23:59:59 GMT":
        dated = {"Retry-After": order, "Date": "Wed, 01 Jan 2003 00:00:00 GMT"}
        loopback.fault("/api/models", status=429, headers=dated)
        with pytest.raises(StoreError, match="asks to wait .* minutes; try again then"):
            pull.plan([tmp_path / "models"], "org/tiny", site=Site(loopback.url), patience=QUICK)
    assert len(loopback.requests) == 2
