"""Deploying on Ray, as far as it computes without Ray: replicas are threads with real engines, which end when told."""

import asyncio
import hashlib
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends import Placement
from chatapp.deploy.ray import environment, fetching, running
from chatapp.deploy.ray.engine import TRIES, DeployedEngine, ReplicaLost
from chatapp.deploy.ray.fetching import FolderSource, fetch, provide
from chatapp.deploy.ray.gateway import SPOKEN, DeployedStore, DeployedWorkspace, Gateway
from chatapp.deploy.ray.ledger import Ledger
from chatapp.deploy.ray.replica import Replica
from chatapp.deploy.ray.version import File, Version, describe_version
from chatapp.generation import Message, Options, PromptTooLong
from chatapp.generation.engine import Engine
from chatapp.generation.wire import Json
from chatapp.placement.selection import PlacementOptions
from chatapp.server.refusals import Refusal
from chatapp.server.settings import ServerSettings
from chatapp.text.errors import InputError
from chatapp.workspace import Workspace
from model_store import ModelNotFound, Store, StoredModel
from support.checkpoints import MakeCheckpoint, Run
from support.patience import PATIENCE
from support.served import Served, serving_with

PLACE = PlacementOptions("onnx", "cpu", "f32")
GOING = {0: -100.0}
WAYS = [
    Options(temperature=0, max_tokens=24, logit_bias=GOING),
    Options(temperature=1.1, seed=7, max_tokens=24, logit_bias=GOING),
    Options(temperature=0.9, seed=5, max_tokens=40, stop=("e", "th"), logit_bias=GOING),
    Options(temperature=1.0, seed=3, max_tokens=16, n=3, logprobs=1),
    Options(temperature=0, max_tokens=10, num_beams=3),
    Options(temperature=1.0, seed=9, max_tokens=16, mirostat_tau=4.0),
    Options(temperature=1.0, seed=4, max_tokens=16, json_object=True),
]


Place = tuple[Workspace, StoredModel]


class Threads:
    """Replicas in this process, of which some are lost: after how many messages, `ends` says, one call each."""

    def __init__(self, engines: Sequence[Engine], ends: Sequence[int] = ()):
        self.replicas = [Replica(engine) for engine in engines]
        self.ends, self.calls = list(ends), list[Json]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def draw(self, asked: Json) -> Generator[Any, None, None]:
        replica = self.replicas[len(self.calls) % len(self.replicas)]
        self.calls.append(asked)
        left = self.ends.pop(0) if self.ends else -1
        messages = replica.draw(asked)
        try:
            while left:
                yield asyncio.run_coroutine_threadsafe(anext(messages), self._loop).result()  # type: ignore[arg-type]
                left -= 1
            raise ReplicaLost("killed")
        except StopAsyncIteration:
            return
        finally:
            asyncio.run_coroutine_threadsafe(messages.aclose(), self._loop).result()  # type: ignore[attr-defined]

    def look(self, asked: Json) -> Any:
        return asyncio.run_coroutine_threadsafe(self.replicas[0].look(asked), self._loop).result()


@pytest.fixture(scope="module")
def place(
    lasting_checkpoint: MakeCheckpoint, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Workspace, StoredModel]:
    workspace = Workspace(tmp_path_factory.mktemp("home"))
    return workspace, workspace.open_store().get(str(lasting_checkpoint("tiny", chats=True)))


@pytest.fixture(scope="module")
def engines(place: Place) -> list[Engine]:
    found: list[Any] = [place[0].open_model("tiny", PLACE).engine for _ in range(2)]
    for engine in found:
        engine.hold = 0.0  # each token is told by itself
    return found


Make = Callable[..., tuple[DeployedEngine, Threads]]


@pytest.fixture
def make(place: Place, engines: list[Engine]) -> Iterator[Make]:
    """An engine whose replicas end as told."""
    made = list[Threads]()

    def deployed(*ends: int, **options: Any) -> tuple[DeployedEngine, Threads]:
        made.append(Threads(engines, ends))
        model = place[1]
        tokenizer = place[0].open_store().tokenizer(model)
        return DeployedEngine(made[-1], model.folder, tokenizer, chats=True, **options), made[-1]

    yield deployed
    for one in made:
        one.close()


def said(deltas: Iterator[Any]) -> dict[int, tuple[str, list[int], list[float | None], Any]]:
    """The text, tokens, log-probabilities and end of each completion."""
    found: dict[int, tuple[str, list[int], list[float | None], Any]] = {}
    for one in deltas:
        text, ids, logprobs, end = found.get(one.index, ("", [], [], None))
        assert end is None or not (one.text or one.tokens)
        ids, logprobs = ids + [token.id for token in one.tokens], logprobs + [token.logprob for token in one.tokens]
        found[one.index] = text + one.text, ids, logprobs, one.finish_reason or end
    return found


@pytest.mark.parametrize("options", WAYS)
def test_an_answer_whose_replicas_are_lost_is_that_of_an_uninterrupted_run(
    make: Make, engines: list[Engine], options: Options
) -> None:
    whole = said(engines[0].complete("hello there, ", options))
    for ends in ((1,), (3, 5), (2, 4, 9, 12), (0, 0, 6)):
        gaps = list[float]()
        engine, replicas = make(*ends, on_failover=gaps.append)
        assert said(engine.complete("hello there, ", options)) == whole
        assert engine.last_usage and engine.last_usage.backend == "onnx"
        assert not replicas.ends or len(replicas.calls) <= len(ends) + 1  # it ended before all were lost
    chat = [Message("user", "hi")]
    engine, _ = make(2, 3)
    greedy = replace(WAYS[0], max_tokens=12)
    assert said(engine.chat(chat, greedy)) == said(engines[0].chat(chat, greedy))


def test_without_a_seed_the_next_replica_reads_the_tokens_at_once(make: Make) -> None:
    engine, replicas = make(6)
    said(engine.complete("hello", WAYS[0]))
    first, second = replicas.calls
    assert first["partial"] == [] and len(second["partial"]) >= 4 and first["seed"] == second["seed"]


def test_a_replica_that_computes_otherwise_goes_on_from_the_tokens(make: Make) -> None:
    engine, replicas = make(6)
    other: Any = replicas.replicas[1].engine

    class Other:
        """Says otherwise what is not told to it."""

        def complete(self, text: str, options: Options, told: Any = None) -> Any:
            return other.complete(text, options, told) if told else other.complete("something else", options)

    replicas.replicas[1] = Replica(Other())  # type: ignore[arg-type]
    whole = said(other.complete("hello", WAYS[1]))
    assert said(engine.complete("hello", WAYS[1])) == whole
    partial = replicas.calls[-1]["partial"]
    assert len(replicas.calls) == 3 and partial == whole[0][1][: len(partial)]


def test_it_gives_up_when_no_replica_says_anything_new(make: Make) -> None:
    engine, replicas = make(*[0] * 20)
    with pytest.raises(Refusal, match="no replica can answer now"):
        list(engine.complete("hello", WAYS[1]))
    assert len(replicas.calls) == TRIES


def test_what_is_wrong_with_a_request_is_told_as_by_a_model_here(make: Make) -> None:
    engine, replicas = make()
    before = len(replicas.calls)
    for call in (engine.complete, engine.score):  # before a word of it, or of a text before it, is told
        with pytest.raises(PromptTooLong, match="the prompt is too long by"):
            call([5] * 5000, WAYS[0])
    assert len(replicas.calls) == before
    with pytest.raises(Refusal, match="file_start is for models that continue text") as other:
        list(engine.chat([Message("user", "hi")], Options(file_start=1)))
    assert other.value.status == 400


def test_closing_an_answer_ends_it_at_the_replica(make: Make, engines: list[Engine]) -> None:
    engine, replicas = make()
    with closing(engine.complete("hello", replace(WAYS[0], max_tokens=200))) as deltas:
        next(deltas)
    assert all(one.turns.idle for one in engines)


def test_lines_for_a_gap_and_the_next_token_are_a_replica_s_too(make: Make, engines: list[Engine]) -> None:
    engine, _ = make()
    found = [one.find_lines("def add(a, b):\n    return ", "\n") for one in (engine, engines[0])]
    assert found[0] and found[1] and [one.text for one in found[0]] == [one.text for one in found[1]]
    mine, other = engine.next_token("hello"), engines[0].next_token("hello")
    assert mine and other and np.allclose(mine.logits, other.logits, atol=1e-4)
    scored = [said(one.score("hello there", WAYS[0])) for one in (engine, engines[0])]
    assert scored[0] == scored[1] and scored[0]


# The gateway


class Clusters:
    """A cluster of this process: a ledger, and replicas in threads."""

    def __init__(self, workspace: Workspace, replicas: Threads):
        self.ledger, self.workspace, self.replicas = Ledger(), workspace, replicas

    def provide(self, store: Store, version: Version, shared: str = "") -> StoredModel:
        return self.workspace.open_store().get("tiny")

    def count_replicas(self, version: Version) -> dict[str, int]:
        return {"running": len(self.replicas.replicas)}

    def open_replicas(self, version: Version) -> Threads:
        return self.replicas


@pytest.fixture
def gateway(place: Place, make: Make) -> Iterator[tuple[Served, Gateway, Any]]:
    _, replicas = make()
    cluster: Any = Clusters(place[0], replicas)
    settings = ServerSettings(port=0, drain=5.0, keys=("a key of sixteen",))
    version = describe_version(place[0].open_store(), place[1], PLACE, "public")
    cluster.ledger.promote(version)
    one = Gateway(DeployedWorkspace(place[0], "public"), settings, cluster, "", lambda line: None)
    one.take(version)
    with serving_with(one.service, SPOKEN) as served:
        served.client.headers["Authorization"] = "Bearer a key of sixteen"
        yield served, one, cluster


def test_a_gateway_answers_for_one_model_in_the_server_s_protocols(gateway: tuple[Served, Gateway, Any]) -> None:
    served, _, cluster = gateway
    body = {"model": "public", "prompt": "hello", "max_tokens": 12, "seed": 1, "logit_bias": {"0": -100}}
    whole = served.post("/v1/completions", **body).json()
    assert whole["model"] == "public" and whole["usage"]["completion_tokens"] == 12
    cluster.replicas.ends = [4, 8]
    chunks = served.chunks("/v1/completions", **body)
    assert "".join(one["choices"][0]["text"] for one in chunks) == whole["choices"][0]["text"]
    assert "chatapp_failover_seconds_count 2.0" in served.get("/metrics").text
    assert [one["id"] for one in served.get("/v1/models").json()["data"]] == ["public"]
    assert served.post("/v1/completions", **body | {"model": "tiny"}).status_code == 404
    assert served.client.request("DELETE", "/api/delete", json={"model": "public"}).status_code == 404
    assert served.client.get("/v1/models", headers={"Authorization": ""}).status_code == 401


async def test_a_gateway_follows_the_current_version_and_tells_which_it_still_uses(
    gateway: tuple[Served, Gateway, Any],
) -> None:
    served, one, cluster = gateway
    body = {"prompt": "hello", "max_tokens": 4}
    assert served.post("/v1/completions", **body).status_code == 200
    old = one.workspace.version
    assert old
    new = replace(old, placement=Placement("onnx", "cpu", "int8"))
    loaded = one.service.models.open["public"]
    while loaded.users:  # the answer was sent, and its place is about to be free
        await asyncio.sleep(0.01)
    loaded.users += 1  # an answer that is being written
    await one.look()
    assert cluster.ledger.count_streams("public", old.digest) == 2  # that, and new ones
    cluster.ledger.promote(new)
    await one.look()
    await one.look()
    assert one.workspace.version == new and cluster.ledger.count_streams("public", old.digest) == 1
    loaded.users -= 1
    await one.look()
    assert cluster.ledger.count_streams("public", old.digest) == 0
    assert served.post("/v1/completions", **body).status_code == 200
    assert one.service.models.open["public"].engine.origin["digest"] == new.digest


async def test_a_gateway_is_heard_of_while_it_fetches_a_version_and_tells_once_what_fails(
    gateway: tuple[Served, Gateway, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, one, cluster = gateway
    heard, told, hear, old = list[object](), list[str](), cluster.ledger.hear, one.workspace.version
    long = threading.Event()

    def note(*given: Any) -> Any:
        heard.append(given)
        if len(heard) == 3:
            long.set()
        return hear(*given)

    def provide(*_: object) -> StoredModel:
        assert long.wait(PATIENCE)
        raise OSError("the disk is full")

    monkeypatch.setattr("chatapp.deploy.ray.gateway.LOOKING", 0.01)
    one.log, cluster.ledger.hear, cluster.provide = told.append, note, provide
    assert old
    cluster.ledger.promote(replace(old, placement=Placement("onnx", "cpu", "int8")))
    await one.look()
    await one.look()
    assert one.workspace.version == old and [line[-16:] for line in told] == ["the disk is full"]


def test_a_store_of_one_model_knows_no_other(place: Place) -> None:
    store = DeployedStore(place[0].open_store(), place[1], "public")
    assert [one.name for one in store.list()] == ["public"] == list(store.every_location())
    with pytest.raises(ModelNotFound, match="this gateway serves public"):
        store.get("builtin")


# Files


def file_of(content: bytes, path: str = "model.bin") -> File:
    return File(path, len(content), hashlib.sha256(content).hexdigest())


class Bytes:
    """A source of given bytes, which may end too early."""

    def __init__(self, content: bytes, fails_at: int = -1):
        self.content, self.fails_at, self.name, self.good = content, fails_at, "a node", list[bool]()
        self.starts = list[int]()

    def read(self, path: str, start: int) -> Iterator[bytes]:
        self.starts.append(start)
        for place in range(start, len(self.content), 3):
            if 0 <= self.fails_at <= place:
                raise OSError("gone")
            yield self.content[place : min(place + 3, max(self.fails_at, 0) or len(self.content))]

    def close(self, good: bool) -> None:
        self.good.append(good)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PAUSE", 0.0)
    monkeypatch.setattr("chatapp.deploy.ray.engine.PAUSE", 0.0)


def test_a_file_is_fetched_on_from_another_node_where_one_ends(tmp_path: Path) -> None:
    content = bytes(range(100))
    sources = [Bytes(content, 40), Bytes(content)]
    given = iter([None, *sources])
    fetch(tmp_path, file_of(content, "below/model.bin"), "m", lambda: next(given), 5)
    assert (tmp_path / "below" / "model.bin").read_bytes() == content
    assert [one.good for one in sources] == [[False], [True]] and sources[1].starts == [40]


@pytest.mark.parametrize("wrong", [b"\0" * 100, bytes(range(99)), bytes(range(100)) + b"more"])
def test_a_file_with_another_digest_is_not_believed(tmp_path: Path, wrong: bytes) -> None:
    content = bytes(range(100))
    sources = [Bytes(wrong), Bytes(content), Bytes(content)]
    given = iter(sources)
    fetch(tmp_path, file_of(content), "m", lambda: next(given), 5)
    assert (tmp_path / "model.bin").read_bytes() == content and sources[0].good == [False]


def test_a_file_that_nobody_has_right_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model.bin of m .* cannot be copied: a node has another file of this name"):
        fetch(tmp_path, file_of(b"right"), "m", lambda: Bytes(b"wrong"), 0.01)
    with pytest.raises(InputError, match="outside its folder"):
        fetch(tmp_path, file_of(b"right", "../other"), "m", lambda: Bytes(b"right"), 0.01)


def test_the_replicas_of_a_node_fetch_once(place: Place, tmp_path: Path) -> None:
    workspace, model = place
    version = describe_version(workspace.open_store(), model, PLACE, "public")
    store, reads = Store(tmp_path / "node"), list[str]()

    class Counted(FolderSource):
        def read(self, path: str, start: int) -> Iterator[bytes]:
            reads.append(path)
            return super().read(path, start)

    found = list[StoredModel]()
    work = lambda: found.append(provide(store, version, lambda: Counted(model.folder), 5))  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(reads) == sorted(file.path for file in version.files) and len(found) == 3
    assert {one.name for one in found} == {version.stored}
    assert describe_version(store, found[0], PLACE, "public").digest == version.digest


def test_a_shared_folder_gets_the_files_once_and_whole(place: Place, tmp_path: Path) -> None:
    version = describe_version(place[0].open_store(), place[1], PLACE, "public")
    for _ in range(2):
        running.share(tmp_path, version, place[1])
    assert [path.name for path in tmp_path.iterdir()] == [version.stored]
    with pytest.raises(InputError, match="there is no folder"):
        running.share(tmp_path / "nowhere", version, place[1])


def test_a_version_is_what_it_computes(place: Place) -> None:
    store, model = place[0].open_store(), place[1]
    first = describe_version(store, model, PLACE)
    assert first.name == "tiny" and first.digest == describe_version(store, model, PLACE, "other").digest
    assert first.digest != describe_version(store, model, PlacementOptions("onnx", "cpu", "int8")).digest
    with pytest.raises(InputError, match="is not a model name"):
        describe_version(store, model, PLACE, "../up")
    with pytest.raises(InputError, match="which cannot be deployed"):
        describe_version(store, replace(model, export="onnx"), PLACE)


# The command


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["deploy", "ray"], 2, "no MODEL given; run: chatapp deploy ray MODEL"),
        (["deploy", "kubernetes", "builtin"], 2, "unknown value 'kubernetes'"),
        (["deploy", "ray", "builtin", "--replicas", "4:2"], 2, "is not a number of replicas"),
        (["deploy", "ray", "builtin", "--replicas", "0"], 2, "is not a number of replicas"),
        (["deploy", "ray", "builtin", "--cpus", "0"], 2, "is not a number of CPUs"),
        (["deploy", "ray", "builtin", "--address", "nowhere"], 2, "is not HOST:PORT"),
        (["deploy", "ray", "builtin", "--remove"], 2, "--remove needs a running cluster; add --address"),
        (["deploy", "ray", "--remove", "--no-gateway", "--address", "h:1"], 2, "not allowed with argument --remove"),
        (["deploy", "ray", "builtin", "--gateway-only", "--address", "h:1"], 2, "takes --name instead of MODEL"),
        (["deploy", "ray", "builtin", "--without-keys", "--keys", "k"], 2, "not allowed with argument --without-keys"),
        (["deploy", "ray", "nobody"], 1, "no model or folder 'nobody'"),
        (["deploy", "ray", "builtin", "--host", "0.0.0.0", "--without-keys"], 2, "is reachable from other machines"),
        (["deploy", "ray", "builtin", "--replica", "2"], 2, "unknown option --replica"),
    ],
)
def test_what_cannot_be_deployed_is_refused_before_anything_is_made(
    chatapp: Run, home: Path, given: list[str], code: int, said: str
) -> None:
    done = chatapp(*given)
    assert done.returncode == code and said in done.stderr
    assert not (home / "deploy").exists()


def test_without_ray_the_extra_is_named(chatapp: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    done = chatapp("deploy", "ray", "builtin")
    assert done.returncode == 1 and "with its extra `ray`" in done.stderr
    assert not (home / "deploy").exists()
    monkeypatch.setattr(environment, "find_spec", lambda name: object())
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        done = chatapp("deploy", "ray", "--gateway-only", "--name", "x", "--address", address)
        assert done.returncode == 1 and "this cluster needs a token; copy it to" in done.stderr
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else gets the port
        address = f"127.0.0.1:{held.getsockname()[1]}"
        done = chatapp("deploy", "ray", "--remove", "--name", "x", "--address", address)
        assert done.returncode == 1 and f"nothing answers at {address} (" in done.stderr


def test_secrets_are_made_once_and_for_their_user_only(tmp_path: Path) -> None:
    path = environment.keep_secret(tmp_path / "deploy" / "token")
    assert path.stat().st_mode & 0o077 == 0 and len(first := path.read_text()) == 64
    assert environment.keep_secret(path).read_text() == first
