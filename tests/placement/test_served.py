"""A model that the user's own server has open: the same answers as from one that is opened here, and no second load."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from chatapp.generation import Engine, GenerationError, Message, Options, Reply
from chatapp.generation.delta import Alternative, BeamEvent, Delta, Guesses, Timings, Token, Usage
from chatapp.generation.text.message import ToolCall
from chatapp.generation.wire import read_delta, read_message, read_options, write_delta, write_message, write_options
from chatapp.placement import served
from chatapp.placement.selection import PlacementOptions
from chatapp.placement.served import ServedEngine
from chatapp.remote.address import Remote
from chatapp.remote.connection import Connection
from chatapp.settings import running
from chatapp.settings.running import announce
from chatapp.workspace import Workspace
from support.checkpoints import MakeCheckpoint
from support.remote_server import LINES, Recorded, RemoteServer
from support.served import Served, serving

ASKED = [Message("user", "hello there")]
GREEDY = Options(temperature=0.0, max_tokens=8, logprobs=2)


@pytest.fixture
def shared(checkpoint: MakeCheckpoint, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server that has the model `tiny`, which chats, and that its user's other programs know of."""
    monkeypatch.setattr(served, "SMALL", 0)
    workspace = Workspace()
    assert workspace.open_store().get(str(checkpoint("tiny", chats=True))).name == "tiny"
    with serving(workspace) as running_one:
        own = announce(running_one.port, "onnx", None, None)
        running_one.service.own = own
        replace(own, pid=os.getppid()).write(home)  # a process of its own, as far as the file says
        yield running_one


def write(engine: Engine, options: Options = GREEDY) -> Reply:
    """What it answers."""
    reply = Reply()
    for delta in engine.chat(ASKED, options):
        reply.add(delta)
    return reply


def test_the_answers_are_those_of_a_model_that_is_opened_here(shared: Served) -> None:
    there, here = (Workspace(shares=shares).open_model("tiny").engine for shares in (True, False))
    assert isinstance(there, ServedEngine) and not isinstance(here, ServedEngine)
    assert list(shared.service.models.open) == ["tiny"]
    mine, other = write(there), write(here)
    assert (mine.text, mine.finish_reason) == (other.text, other.finish_reason)
    assert [(one.id, one.text, one.alternatives) for one in mine.tokens] == [
        (one.id, one.text, one.alternatives) for one in other.tokens
    ]
    assert there.last_usage == mine.usage and mine.usage and mine.usage.completion_tokens == len(mine.tokens)
    assert there.placement == here.placement
    begun = [token.id for token in mine.tokens[:3]]
    goes_on = ["".join(delta.text for delta in one.chat(ASKED, GREEDY, begun)) for one in (there, here)]
    assert goes_on[0] == goes_on[1]
    for one in ("count_tokens", "encode_marked"):
        assert getattr(there, one)("hello there") == getattr(here, one)("hello there")
    assert there.count_chat(ASKED) == here.count_chat(ASKED)
    texts = ["".join(delta.text for delta in one.complete("hello", GREEDY)) for one in (there, here)]
    assert texts[0] == texts[1]


def test_the_next_token_and_its_options_are_those_of_a_model_here(shared: Served) -> None:
    there, here = (Workspace(shares=shares).open_model("tiny").engine for shares in (True, False))
    previews = []
    for engine in (there, here):
        found = engine.next_token(ASKED)
        assert found
        previews.append(found.under(Options(repetition_penalty=1.3)))
    assert previews[0] == previews[1]
    lines = [one.find_lines("def add(a, b):\n    ", "\n") for one in (there, here)]
    assert lines[0] == lines[1] and lines[0]
    texts = [lines[0][0].text, "return a", "x" * 4000]
    scores = [one.score_lines("def add(a, b):\n    ", "\n", texts) for one in (there, here)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_what_the_engine_refuses_is_told_in_its_words(shared: Served) -> None:
    engine = Workspace(shares=True).open_model("tiny").engine
    with pytest.raises(GenerationError, match="^the prompt is too long"):
        list(engine.chat([Message("user", "hello " * 4000)], GREEDY))
    with pytest.raises(GenerationError, match="file_start is for models"):
        list(engine.chat(ASKED, replace(GREEDY, file_start=1)))


def test_who_leaves_frees_the_model_for_the_next(shared: Served) -> None:
    engine = Workspace(shares=True).open_model("tiny").engine
    with closing(engine.chat(ASKED, replace(GREEDY, max_tokens=60))) as deltas:
        for delta in deltas:
            if delta.tokens:
                break
    assert write(engine).tokens


def test_where_the_server_has_ended_the_model_is_opened_here_and_goes_on(shared: Served) -> None:
    engine = Workspace(shares=True).open_model("tiny").engine
    before = write(engine)
    shared.server.should_exit = True
    while shared.server.started and shared.server.servers[0].is_serving():
        pass
    after = write(engine)
    assert after.text == before.text and engine.last_usage
    assert engine.next_token(ASKED)


@pytest.mark.parametrize("wanted", [{"backend": "openvino"}, {"precision": "f32"}, {"device": "gpu"}])
def test_a_model_that_is_wanted_elsewhere_than_the_server_has_it_is_opened_here(
    shared: Served, wanted: dict[str, str]
) -> None:
    workspace = Workspace()
    options = workspace.choose_placement(**wanted)
    store = workspace.open_store()
    assert served.find_server(workspace.home, options, store.get("tiny")) is None
    assert served.find_server(workspace.home, workspace.choose_placement(), store.get("tiny"))


def test_small_models_and_strange_listeners_are_not_asked(
    shared: Served, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace()
    model, options = workspace.open_store().get("tiny"), workspace.choose_placement()
    own = running.read(home)
    assert own and served.find_server(home, options, model)
    replace(own, token="x" * 40).write(home)  # who listens there does not know it
    assert served.find_server(home, options, model) is None
    replace(own, port=9).write(home)
    assert served.find_server(home, options, model) is None
    replace(own, pid=os.getpid()).write(home)
    assert served.find_server(home, options, model) is None
    own.write(home)
    monkeypatch.setattr(served, "SMALL", model.parameters + 1)
    assert served.find_server(home, options, model) is None


def test_nobody_without_the_token_is_answered(shared: Served) -> None:
    body = {"model": "tiny", "call": "facts"}
    assert shared.post("/engine", **body).status_code == 401
    assert shared.client.post("/engine", json=body, headers={"X-Chatapp-Token": "x" * 43}).status_code == 401
    assert shared.client.post("/engine", json=body, headers={"Authorization": "Bearer x"}).status_code == 401
    own = shared.service.own
    assert own
    found = shared.client.post("/engine", json=body, headers={"X-Chatapp-Token": own.token})
    assert found.status_code == 200 and own.token not in found.text
    assert own.token not in shared.post("/engine/hello", nonce="0123456789abcdef").text
    shared.service.own = None
    assert shared.post("/engine/hello", nonce="0123456789abcdef").status_code == 404
    assert shared.client.post("/engine", json=body, headers={"X-Chatapp-Token": ""}).status_code == 401


# The file


def test_the_file_is_for_its_user_alone_and_is_believed_only_then(home: Path) -> None:
    own = announce(4321, "onnx", None, "int8")
    own.write(home)
    path = home / running.NAME
    assert running.read(home) == own and own.place == ("onnx", "", "int8")
    if os.name != "nt":
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o644)
        assert running.read(home) is None
        path.chmod(0o600)
    for wrong in (b"", b"[]", b"{}", b"{" * 5000, path.read_bytes().replace(b"4321", b'"a"')):
        path.write_bytes(wrong)
        assert running.read(home) is None
    replace(own, version="0.0.0").write(home)
    assert running.read(home) is None
    other = announce(1, None, None, None)
    other.write(home)
    own.forget(home)
    assert running.read(home) == other
    other.forget(home)
    assert not path.exists() and running.read(home) is None


@pytest.mark.skipif(os.name == "nt", reason="processes are asked for on Unix only")
def test_a_server_without_a_process_is_gone(home: Path) -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    replace(announce(4321, None, None, None), pid=child).write(home)
    assert running.read(home) is None


# Between two processes


def test_a_delta_and_options_arrive_as_they_were_sent() -> None:
    minus = float("-inf")
    token = Token(5, "a", minus, (Alternative(6, "b", minus), Alternative(7, "c", -0.5)), 0.25, guessed=True)
    usage = Usage(1, 2, 3, 4, 0.1, 2.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 9, "onnx", "cpu", "int8", (0.1, 0.2))
    delta = Delta("a", 1, (token,), "stop", Timings(0.1, 0.2, 0.3, 0.4), usage, "thinking", -1.5,
                  (BeamEvent("pruned", 1, 0, 5, "a", -1.0),), (1, 9), Guesses(5, 3, 1.2), False, "x")  # fmt: skip
    assert not any(getattr(delta, field.name) == field.default for field in fields(delta)), "nothing is left out"
    assert read_delta(json.loads(json.dumps(write_delta(delta), allow_nan=False))) == delta
    call = ToolCall("f", '{"a": 1}', "id")
    message = Message("tool", "x", (call,), call)
    assert read_message(json.loads(json.dumps(write_message(message)))) == message
    options = Options(top_k=3, stop=("x",), logit_bias={5: minus, 6: 1.0}, choice=("a", "b"), seed=2**64 - 1, n=2)
    assert read_options(json.loads(json.dumps(write_options(options), allow_nan=False))) == options


def test_a_server_that_breaks_off_in_the_middle_says_so_and_the_text_stays(
    checkpoint: MakeCheckpoint, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "SMALL", 0)
    model = Workspace().open_store().get(str(checkpoint("tiny", chats=True)))
    facts = {"context_length": 64, "vocab_size": 320, "whole_prompts": False, "placement": ["onnx", "cpu", "int8"]}
    delta = write_delta(Delta("Hi", 0, (), None, Timings(0.0, 0.0, 0.0, 0.0), None))
    own = replace(announce(1, "onnx", None, None), pid=os.getppid())
    torn = Recorded([json.dumps(delta).encode() + b'\n["Hi",0,[],null,[0,0,0'], LINES)
    for answer in (Recorded.lines(delta), Recorded.lines(delta, cut=True), torn):
        with RemoteServer({"/engine": [Recorded.json(facts), answer]}) as server:
            connection = Connection(Remote("chatapp", server.url))
            engine = ServedEngine(connection, own.token, Workspace().open_store(), model, lambda: pytest.fail("opened"))
            said = ""
            with pytest.raises(GenerationError, match="the server stopped in the middle"):
                for one in engine.chat(ASKED, GREEDY):
                    said += one.text
            assert said == "Hi"


def test_a_server_that_breaks_off_before_it_says_anything_is_not_needed(
    checkpoint: MakeCheckpoint, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "SMALL", 0)
    workspace = Workspace()
    model = workspace.open_store().get(str(checkpoint("tiny", chats=True)))
    here, opened = workspace.open_model("tiny").engine, list[str]()
    facts = {"context_length": 64, "vocab_size": 320, "whole_prompts": False, "placement": ["onnx", "cpu", "int8"]}

    def open_here() -> Engine:
        opened.append("tiny")
        return here

    calls = (lambda engine: write(engine).text, lambda engine: engine.find_lines("def add(", "\n"))
    for answer in (Recorded([b'["Hi",0,[]'], LINES), Recorded([], LINES), Recorded([], LINES, cut=True)):
        for call in calls:
            with RemoteServer({"/engine": [Recorded.json(facts), answer]}) as server:
                connection = Connection(Remote("chatapp", server.url))
                assert call(ServedEngine(connection, "x" * 40, workspace.open_store(), model, open_here)) == call(here)
    assert len(opened) == 6


@pytest.mark.parametrize("answer", [b"", b"{", b"[]", b'{"context_length": 64}', b'{"error": {"message": "no"}}'])
def test_a_server_that_says_nothing_of_the_model_is_not_asked(
    checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    workspace = Workspace()
    model = workspace.open_store().get(str(checkpoint("tiny")))
    with RemoteServer({"/engine": [Recorded([answer], LINES)]}) as server:
        found = Connection(Remote("chatapp", server.url)), "x" * 40
        monkeypatch.setattr(served, "find_server", lambda *given: found)
        given = workspace.home, workspace.open_store(), model, PlacementOptions(), lambda: pytest.fail("opened")
        assert served.open_served(*given) is None
