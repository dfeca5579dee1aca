"""Models on servers: what is sent to each kind, what becomes of what it says, and of what it should not say."""

import json
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from chatapp.generation import Engine, GenerationError, Message, OptionError, Reply
from chatapp.generation.contract import UNKNOWN_CONTEXT
from chatapp.generation.text.thinking import EFFORTS, split
from chatapp.generation.text.tools import Function, Toolbox
from chatapp.remote import connection
from chatapp.remote.engine import RemoteEngine
from chatapp.remote.errors import RemoteError
from chatapp.remote.opening import open_remote
from support.patience import PATIENCE
from support.recorded_streams import PIECES, SERVERS, TEXT, chunk, serve, usage
from support.remote_server import Recorded, RemoteServer, split_everywhere

ASKED = [Message("system", "Be brief."), Message("user", "Say it.")]
TORN = ("vllm", "ollama", "kserve")


def open_one(server: RemoteServer, home: Path, model: str = "") -> RemoteEngine:
    return open_remote(home, model, server.url)[0]


def answer(
    engine: RemoteEngine, asked: Sequence[Message] = ASKED, **options: Any
) -> list[Reply]:  # Any: of each its own
    """What it says, in as many replies as are asked for."""
    chosen = replace(engine.defaults, **options)
    replies = [Reply() for _ in range(chosen.n)]
    deltas = engine.chat(asked, chosen) if engine.can_chat else engine.complete("Say it.", chosen)
    for delta in deltas:
        replies[delta.index].add(delta)
    return replies


@pytest.mark.parametrize("kind", SERVERS)
def test_the_text_of_every_kind_of_server_arrives_with_its_figures(kind: str, home: Path) -> None:
    with serve(kind) as server:
        engine: Engine = open_one(server, home)
        assert isinstance(engine, RemoteEngine)
        (reply,) = answer(engine, seed=7)
    assert (reply.text, reply.finish_reason) == (TEXT, "length" if kind == "llamacpp" else "stop")
    assert [token.text for token in reply.tokens] == list(PIECES)
    assert reply.usage and reply.usage == engine.last_usage and reply.usage.seed == 7
    assert len(reply.usage.latencies) == len(PIECES) - 1 and reply.usage.time_to_first_token > 0
    told = (reply.usage.prompt_tokens, reply.usage.completion_tokens)
    assert told == ((9, 6) if kind in ("vllm", "llamacpp", "ollama") else (reply.usage.prompt_tokens, 5))
    assert (reply.usage.backend, reply.usage.precision) == ("remote", kind)


@pytest.mark.parametrize(
    ("kind", "context", "chats", "gaps"),
    [
        ("vllm", 4096, True, False),
        ("llamacpp", 2048, True, True),
        ("ollama", 2048, True, True),
        ("ovms", UNKNOWN_CONTEXT, True, False),
        ("kserve", UNKNOWN_CONTEXT, False, False),
    ],
)
def test_what_a_server_tells_of_its_model_is_taken_up(
    kind: str, context: int, chats: bool, gaps: bool, home: Path
) -> None:
    with serve(kind) as server:
        engine = open_one(server, home)
    assert (engine.context_length, engine.can_chat, engine.can_infill) == (context, chats, gaps)


def test_a_triton_that_serves_our_exports_tells_counts_and_how_it_ended(home: Path) -> None:
    last = {"text_output": "!", "finish_reason": "length", "usage": '{"prompt_tokens": 3, "completion_tokens": 4}'}
    with serve("kserve", stream=Recorded.events({"text_output": "Hi"}, last, done=False)) as server:
        (reply,) = answer(open_one(server, home))
    assert (reply.text, reply.finish_reason) == ("Hi!", "length")
    assert reply.usage and (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 4)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("kind", TORN)
def test_chunks_that_tear_characters_lines_and_events_apart_change_nothing(kind: str, size: int, home: Path) -> None:
    with serve(kind) as server:
        path = {"vllm": "/v1/chat/completions", "ollama": "/api/chat"}.get(kind, "/v2/models/m/generate_stream")
        split_everywhere(server.answers[path][0], size)
        assert answer(open_one(server, home))[0].text == TEXT


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("vllm", {"top_k": 0, "repetition_penalty": 1.1}, {"top_k": -1, "repetition_penalty": 1.1, "top_p": 0.95}),
        ("vllm", {"max_tokens": 7, "stop": ("a", "b"), "seed": 5}, {"max_tokens": 7, "stop": ["a", "b"], "seed": 5}),
        ("vllm", {"logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        (
            "llamacpp",
            {"repetition_penalty": 1.1, "dry_multiplier": 0.8},
            {"repeat_penalty": 1.1, "dry_multiplier": 0.8},
        ),
        ("ovms", {"temperature": 0.0}, {"temperature": 0.0, "model": "m", "stream": True}),
    ],
)
def test_options_are_sent_by_the_names_that_the_server_knows(
    kind: str, options: dict[str, Any], expected: dict[str, object], home: Path
) -> None:
    with serve(kind) as server:
        answer(open_one(server, home), **options)
        sent = server.requests[-1].body
    assert {name: sent.get(name) for name in expected} == expected
    assert sent["messages"] == [{"role": one.role, "content": one.text} for one in ASKED]


def test_ollama_gets_its_options_in_a_table_of_their_own_and_the_switch_of_thinking_beside_it(home: Path) -> None:
    with serve("ollama") as server:
        engine = open_one(server, home)
        assert engine.thinking_choices == (False, True)
        answer(engine, max_tokens=5, seed=3, think=False, stop=("x",))
        sent = server.requests[-1].body
    table = {"num_predict": 5, "seed": 3, "stop": ["x"], "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.0}
    assert (sent["options"], sent["think"]) == (table, False)


def test_ollama_is_told_how_much_gpt_oss_is_to_think(home: Path) -> None:
    with serve("ollama") as server:
        shown = json.loads(server.answers["/api/show"][0].parts[0])
        server.answers["/api/show"] = [Recorded.json(shown | {"details": {"family": "gptoss"}})]
        engine = open_one(server, home)
        assert engine.thinking_choices == EFFORTS
        answer(engine, think="low")
        assert server.requests[-1].body["think"] == "low"


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("vllm", {"typical_p": 0.5}, "typical_p"),
        ("ovms", {"min_p": 0.1}, "min_p"),
        ("ollama", {"logit_bias": {5: 1.0}}, "logit_bias"),
        ("kserve", {"logprobs": 1}, "logprobs"),
        ("llamacpp", {"bad_words": ("no",)}, "bad_words"),
        ("vllm", {"num_beams": 4}, "num_beams"),
    ],
)
def test_an_option_that_the_server_does_not_know_is_refused_by_name_before_anything_is_sent(
    kind: str, options: dict[str, Any], name: str, home: Path
) -> None:
    with serve(kind) as server:
        engine = open_one(server, home)
        before = len(server.requests)
        with pytest.raises(OptionError, match=f"{name} is not passed on to .*: leave it out"):
            answer(engine, **options)
        assert len(server.requests) == before


def test_several_answers_come_at_once_or_one_after_the_other_with_seeds_of_their_own(home: Path) -> None:
    both = [chunk({"content": "a"}), chunk({"content": "b"}), chunk({}, "stop"), chunk({}, "length")]
    for place, one in enumerate(both):
        one["choices"][0]["index"] = place % 2
    with serve("vllm", chat=Recorded.events(*both, usage())) as server:
        replies = answer(open_one(server, home), n=2)
        assert server.requests[-1].body["n"] == 2
    assert [(one.text, one.finish_reason) for one in replies] == [("a", "stop"), ("b", "length")]
    with serve("ollama") as server:
        replies = answer(open_one(server, home), n=2, seed=7)
        assert [one.body["options"]["seed"] for one in server.requests[-2:]] == [7, 8]
    assert [one.text for one in replies] == [TEXT, TEXT]
    assert replies[1].usage and replies[1].usage.completion_tokens == 12
    often = Recorded.events(chunk({"content": "a"}), usage(9, 1), usage(9, 2), chunk({}, "stop"), usage(9, 3))
    with serve("llamacpp", chat=often) as server:
        usages = [one.usage for one in answer(open_one(server, home), n=2)]
    assert usages[1] and usages[1].completion_tokens == 6


def test_log_probabilities_and_alternatives_arrive_in_both_forms(home: Path) -> None:
    hi, yo = {"token": "Hi", "logprob": -0.25, "bytes": [72, 105]}, {"token": "Yo", "logprob": -2}
    told = {"content": [hi | {"top_logprobs": [hi, yo]}]}
    with serve("vllm", chat=Recorded.events(chunk({"content": "Hi"}, logprobs=told), chunk({}, "stop"))) as server:
        (token,) = answer(open_one(server, home), logprobs=2)[0].tokens
    assert (token.text, token.logprob) == ("Hi", -0.25)
    assert [(one.text, one.logprob) for one in token.alternatives] == [("Hi", -0.25), ("Yo", -2.0)]
    legacy = {"tokens": ["Hi", "!"], "token_logprobs": [-0.5, -1], "top_logprobs": [{"Hi": -0.5}, {"!": -1, "?": -3}]}
    choice = {"index": 0, "text": "Hi!", "logprobs": legacy, "finish_reason": "stop"}
    with serve("vllm", completions=Recorded.events({"choices": [choice]})) as server:
        engine = open_one(server, home)
        reply = Reply()
        for delta in engine.complete("Say", replace(engine.defaults, logprobs=1)):
            reply.add(delta)
        assert server.requests[-1].body["logprobs"] == 1
    assert [(one.text, one.logprob) for one in reply.tokens] == [("Hi", -0.5), ("!", -1.0)]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_what_a_model_thinks_is_told_apart_and_is_not_sent_back(name: str, home: Path) -> None:
    stream = Recorded.events(chunk({name: "Well"}), chunk({name: "…"}), chunk({"content": "Yes."}), chunk({}, "stop"))
    with serve("vllm", chat=stream) as server:
        engine = open_one(server, home)
        (reply,) = answer(engine)
        said = Message("assistant", reply.thinking + reply.text)
        for _ in engine.chat([*ASKED, said, Message("user", "Really?")], engine.defaults):
            pass
        assert server.requests[-1].body["messages"][2] == {"role": "assistant", "content": "Yes."}
    assert (reply.text, reply.thinking_tokens) == ("Yes.", 2)
    assert split(said.text).thinking == "Well…"


def test_an_answer_goes_on_from_its_beginning_where_the_server_can(home: Path) -> None:
    with serve("vllm") as server:
        engine = open_one(server, home)
        begun = [token.id for token in engine.tokens_of("It is")]
        assert engine.text_of(begun) == "It is"
        assert "".join(delta.text for delta in engine.chat(ASKED, engine.defaults, begun)) == TEXT
        sent = server.requests[-1].body
    assert sent["messages"][-1] == {"role": "assistant", "content": "It is"} and sent["continue_final_message"]
    with serve("ovms") as server:
        engine = open_one(server, home)
        with pytest.raises(GenerationError, match="cannot continue from a token"):
            engine.chat(ASKED, engine.defaults, [token.id for token in engine.tokens_of("It is")])
        with pytest.raises(GenerationError, match="from an earlier start"):
            engine.chat(ASKED, engine.defaults, [12345])


def test_a_gap_is_filled_where_the_server_can_and_gone_on_with_elsewhere(home: Path) -> None:
    with serve("llamacpp") as server:
        engine = open_one(server, home)
        reply = Reply()
        for delta in engine.infill("def f(a, b):\n    return", "\n", engine.defaults):
            reply.add(delta)
        sent = server.requests[-1]
        lines = engine.find_lines("def f(a, b):\n    return", "\n")
    assert (reply.text, reply.finish_reason, sent.path) == (" a + b\n", "length", "/infill")
    assert (sent.body["input_prefix"], sent.body["input_suffix"]) == ("def f(a, b):\n    return", "\n")
    assert reply.usage and reply.usage.prompt_tokens == 30 and lines and lines[0].text == " a + b"
    with serve("vllm") as server:
        engine = open_one(server, home)
        assert "".join(delta.text for delta in engine.infill("x =", "\n", engine.defaults)) == TEXT
        assert server.requests[-1].path == "/v1/completions" and "suffix" not in server.requests[-1].body
        with pytest.raises(GenerationError, match="use a model on this machine"):
            engine.next_token("x =")
        assert engine.score_lines("x =", "\n", ["1"]) is None


# What it may call


WEATHER = Function("sky.weather", "Now", {"type": "object", "properties": {"city": {"type": "string"}}})
BERN, BIEL = '{"city": "Bern </tool_call>"}', '{"city": "Biel"}'


def part(index: int | None, arguments: object, **more: object) -> dict[str, Any]:  # Any: JSON
    """A part of a call, as servers stream it."""
    function = {"arguments": arguments} | ({"name": "sky_weather"} if "id" in more else {})
    return {"function": function, **({} if index is None else {"index": index}), **more}


STREAMS = {
    "vllm": Recorded.events(
        chunk({"role": "assistant", "content": "Let me see."}),
        chunk({"tool_calls": [part(0, "", id="a", type="function")]}),
        *(chunk({"tool_calls": [part(0, BERN[at : at + 5])]}) for at in range(0, len(BERN), 5)),
        chunk({"tool_calls": [part(1, BIEL, id="b", type="function")]}),
        chunk({}, "tool_calls"),
    ),
    "ovms": Recorded.events(  # whole calls without an index, and one index for two
        chunk({"content": "Let me see."}),
        chunk({"tool_calls": [part(None, BERN, id="a")]}),
        chunk({"tool_calls": [part(None, BIEL, id="b")]}, "tool_calls"),
    ),
    "llamacpp": Recorded.events(
        chunk({"content": "Let me see.", "tool_calls": [part(0, BERN, id="a"), part(0, BIEL, id="b")]}, "tool_calls")
    ),
    "ollama": Recorded.lines(
        {"message": {"role": "assistant", "content": "Let me see."}, "done": False},
        {"message": {"content": "", "tool_calls": [part(None, json.loads(BERN), id="a")]}, "done": False},
        {"message": {"content": "", "tool_calls": [part(None, json.loads(BIEL), id="b")]}, "done": True},
    ),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_functions_are_offered_and_their_calls_found_and_sent_back(kind: str, home: Path) -> None:
    box = Toolbox([WEATHER])
    with serve(kind, chat=STREAMS[kind]) as server:
        if kind == "ollama":
            shown = json.loads(server.answers["/api/show"][0].parts[0])
            server.answers["/api/show"] = [Recorded.json(shown | {"capabilities": ["completion", "tools"]})]
        engine = open_one(server, home)
        assert engine.knows_tools
        (reply,), listener = answer(engine, **box.keep_to({})), box.listen()
        assert listener
        told = listener.add(reply.text)
        rest, calls = listener.end()
        assert (told + rest).strip() == "Let me see." and reply.is_heard
        found = [(one.name, json.loads(one.arguments)) for one in calls]
        assert found == [("sky.weather", json.loads(BERN)), ("sky.weather", json.loads(BIEL))]
        sent = server.requests[-1].body
        assert [one["function"]["name"] for one in sent["tools"]] == ["sky_weather"]
        assert sent["tools"][0]["function"]["parameters"] == WEATHER.parameters
        given = Message("tool", "Rain", answers=calls[0])
        answer(engine, [*ASKED, Message("assistant", "Let me see.", tuple(calls[:1])), given], **box.keep_to({}))
        *_, called, result = server.requests[-1].body["messages"]
    (call,) = called["tool_calls"]
    function = {"name": "sky_weather", "arguments": json.loads(BERN) if kind == "ollama" else calls[0].arguments}
    assert (called["content"], call["function"]) == ("Let me see.", function)
    about = {"tool_name": "sky_weather"} if kind == "ollama" else {"tool_call_id": call["id"]}
    assert result == {"role": "tool", "content": "Rain"} | about


def test_where_functions_are_not_known_that_is_said(home: Path) -> None:
    options = Toolbox([WEATHER]).keep_to({})
    with serve("ollama") as server:
        engine = open_one(server, home)
        assert not engine.knows_tools
        with pytest.raises(GenerationError, match="does not support tools"):
            answer(engine, **options)
    refusal = Recorded.json({"message": '"auto" tool choice requires --enable-auto-tool-choice'}, 400)
    with serve("vllm", chat=refusal) as server, pytest.raises(RemoteError, match="requires .* turn them off"):
        answer(open_one(server, home), **options)


# What goes wrong


STOPPED = [chunk({"content": piece}) for piece in PIECES]


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (Recorded.events(*STOPPED, done=False), "without an end mark"),
        (Recorded.events(*STOPPED, done=False, cut=True), "broke"),
        (Recorded.events(*STOPPED, {"error": {"message": "out of memory", "code": 500}}), "failed: out of memory"),
        (Recorded.events(*STOPPED, {"object": "error", "message": "KV cache full"}), "KV cache full"),
        (Recorded([*Recorded.events(*STOPPED, done=False).parts, b'error: {"message": "slot died"}\n\n'],
                  "text/event-stream"), "slot died"),
        (Recorded([*Recorded.events(*STOPPED, done=False).parts, b'data: {"choices": [\n\n'], "text/event-stream"),
         "in the middle of an event"),
        (Recorded([*Recorded.events(*STOPPED, done=False).parts, b"data: \xff\n\n"], "text/event-stream"), "UTF-8"),
        (Recorded.events(*STOPPED, chunk({}, "content_filter")), "content_filter"),
    ],
)  # fmt: skip
def test_a_stream_that_breaks_off_is_an_error_that_keeps_the_text(stream: Recorded, said: str, home: Path) -> None:
    with serve("vllm", chat=stream) as server:
        engine, kept = open_one(server, home), ""
        deltas = engine.chat(ASKED, engine.defaults)
        with pytest.raises(RemoteError, match=said):
            for delta in deltas:
                kept += delta.text
    assert kept == TEXT and engine.last_usage and engine.last_usage.completion_tokens == len(PIECES)


@pytest.mark.parametrize("kind", ["ollama", "kserve"])
def test_a_connection_that_breaks_is_noticed_where_streams_have_other_marks(kind: str, home: Path) -> None:
    with serve(kind) as server:
        path = "/api/chat" if kind == "ollama" else "/v2/models/m/generate_stream"
        stream = server.answers[path][0]
        stream.parts, stream.cut = stream.parts[:3], True
        with pytest.raises(RemoteError, match="broke"):
            answer(open_one(server, home))


def test_an_answer_whose_end_is_told_needs_no_further_mark_and_comments_keep_it_alive(home: Path) -> None:
    parts = [b": ping\n\n", *Recorded.events(*STOPPED, chunk({}, "stop"), done=False).parts, b":\n\n"]
    with serve("vllm", chat=Recorded(parts, "text/event-stream")) as server:
        (reply,) = answer(open_one(server, home))
    assert (reply.text, reply.finish_reason) == (TEXT, "stop")


def test_a_server_that_does_not_stream_is_understood(home: Path) -> None:
    whole = {"object": "chat.completion", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 6}}  # fmt: skip
    with serve("vllm", chat=Recorded.json(whole)) as server:
        (reply,) = answer(open_one(server, home))
    assert reply.text == TEXT and reply.usage and reply.usage.prompt_tokens == 4


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (Recorded.json({"error": {"message": "the maximum context length is 8"}}, 400), "refuses this: .* is 8"),
        (Recorded.json({"detail": [{"msg": "field required"}]}, 422), "field required"),
        (Recorded.json({"error": "model not found"}, 404), "model not found"),
        (Recorded.json({"message": "slow down"}, 429, Retry_After="7"), "busy: slow down; try again in 7 seconds"),
        (Recorded([b"<html>Bad gateway</html>"], "text/html", 502), r"failed \(502 Bad Gateway\)"),
        (Recorded.json({}, 401), "needs a key"),
        (Recorded.json({}, 307, Location="http://elsewhere.example/v1?token=1"), "redirects to http://elsewhere.example/v1;"),
    ],
)  # fmt: skip
def test_what_a_server_refuses_is_told_in_its_own_words(recorded: Recorded, said: str, home: Path) -> None:
    with serve("vllm", chat=recorded) as server, pytest.raises(RemoteError, match=said):
        answer(open_one(server, home))


def test_an_index_that_nobody_asked_for_is_refused(home: Path) -> None:
    strange = chunk({"content": "x"})
    strange["choices"][0]["index"] = 5
    with serve("vllm", chat=Recorded.events(strange)) as server, pytest.raises(RemoteError, match="not requested"):
        answer(open_one(server, home))


def test_a_flood_is_left(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LARGEST_STREAM", 4096)
    with (
        serve("vllm", chat=Recorded.events(*STOPPED * 100)) as server,
        pytest.raises(RemoteError, match="too much for an answer"),
    ):
        answer(open_one(server, home))


def test_an_event_of_very_many_lines_is_read_as_quickly_as_others() -> None:
    started = perf_counter()
    assert [*connection.split_events(iter([b"data: x\n" * 60_000]))] == ["\n".join("x" * 60_000)]
    assert perf_counter() - started < 10


def test_a_reader_that_leaves_hangs_up_even_while_nothing_comes(home: Path) -> None:
    never = threading.Event()
    stream = Recorded.events(*STOPPED, waits=never)
    with serve("vllm", chat=stream) as server:
        engine, said = open_one(server, home), ""
        with closing(engine.chat(ASKED, engine.defaults)) as deltas:
            for delta in deltas:
                said += delta.text
                if said == TEXT and not delta.tokens:
                    break  # it waits, and the reader is asked whether it still wants to
        assert server.left.wait(PATIENCE)
    assert engine.last_usage and engine.last_usage.completion_tokens == len(PIECES)


def test_counting_sends_nothing_and_learns_from_what_the_server_has_counted(home: Path) -> None:
    stream = Recorded.events(chunk({"content": "x"}, "stop"), usage(prompt=500, completion=1))
    with serve("vllm", chat=stream) as server:
        engine = open_one(server, home)
        before, text = len(server.requests), "word " * 200
        assert engine.count_tokens(text) == 250
        assert engine.count_chat([Message("user", text)]) > engine.count_chat([Message("user", "x")])
        assert len(server.requests) == before
        for _ in engine.chat([Message("user", text)], engine.defaults):
            pass
        assert engine.count_tokens(text) == 500


def test_a_model_that_the_server_does_not_list_is_asked_for_all_the_same(home: Path) -> None:
    with serve("vllm") as server:
        assert open_one(server, home, "other").model.name == "other"


@pytest.mark.parametrize("found", [{}, {"data": []}, {"data": [{"id": 5}]}])
def test_a_server_that_names_no_model_is_refused(found: dict[str, object], home: Path) -> None:
    answers = {"/v1/models": Recorded.json(found)} | {path: Recorded.json({}) for path in ("/api/tags", "/v2")}
    with RemoteServer(answers) as server, pytest.raises(RemoteError, match="lists no models|none of the protocols"):
        open_one(server, home)


def test_a_server_that_is_not_there_is_told_of(home: Path) -> None:
    with RemoteServer({}) as server:
        url = server.url
    with pytest.raises(RemoteError, match=r"cannot be reached \([^\[]+; check that the server is running"):
        open_remote(home, "", url)
