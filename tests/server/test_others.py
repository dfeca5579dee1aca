"""The protocols of Anthropic, of OpenAI's responses and of KServe, against a real port."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatapp.generation import Message
from chatapp.server.refusals import Refusal
from chatapp.server.response_store import ResponseStore, StoredResponse
from chatapp.workspace import Workspace
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.scripted_engine import ScriptedEngine
from support.served import Served, serving
from support.stand_in_home import Home

HELLO = [{"role": "user", "content": "Hello"}]
THOUGHT = "<think>\nHm.\n</think>\n\nYes."
WEATHER = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
USED = "total_tokens", "input_tokens"
INFER = "/v2/models/builtin/infer"


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine(text="One two three.", can_chat=True, thinking_choices=(False, True))


@pytest.fixture(scope="module")
def served(engine: ScriptedEngine) -> Iterator[Served]:
    with serving(Home(engine)) as served:
        yield served


# Anthropic


def test_messages_are_answered(served: Served, engine: ScriptedEngine) -> None:
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    body = {"messages": HELLO, "system": system, "max_tokens": 9, "stop_sequences": ["x"], "top_k": 4}
    answer = served.post("/v1/messages", **body).json()
    assert answer["content"] == [{"type": "text", "text": "One two three."}] and answer["stop_reason"] == "end_turn"
    assert answer["usage"]["input_tokens"] == 5 and answer["usage"]["output_tokens"] == 4
    assert [one.role for one in engine.chats[-1]] == ["system", "user"]
    assert (engine.options[-1].max_tokens, engine.options[-1].stop, engine.options[-1].top_k) == (9, ("x",), 4)


def test_messages_come_in_blocks(served: Served, engine: ScriptedEngine) -> None:
    engine.turns.append(THOUGHT)
    body = {"messages": HELLO, "max_tokens": 99, "thinking": {"type": "enabled", "budget_tokens": 2000}}
    events = [json.loads(event) for event in served.events("/v1/messages", **body)]
    assert engine.options[-1].think is True
    assert events[0]["type"] == "message_start" and events[0]["message"]["usage"]["input_tokens"] == 2
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    starts = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert starts == ["thinking", "text"]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("thinking", "") for delta in deltas).strip() == "Hm."
    assert "".join(delta.get("text", "") for delta in deltas) == "Yes."
    assert events[-2]["delta"]["stop_reason"] == "end_turn" and events[-2]["usage"]["output_tokens"] > 1


def test_events_of_messages_have_names(served: Served) -> None:
    text = served.post("/v1/messages", messages=HELLO, max_tokens=2, stream=True).text
    for block in text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        assert name.removeprefix("event: ") == json.loads(data.removeprefix("data: "))["type"]


def test_messages_are_counted(served: Served) -> None:
    assert served.post("/v1/messages/count_tokens", messages=HELLO, system="Be brief.").json() == {"input_tokens": 5}
    offered = served.post("/v1/messages/count_tokens", messages=HELLO, tools=[WEATHER]).json()["input_tokens"]
    events = [json.loads(one) for one in served.events("/v1/messages", messages=HELLO, tools=[WEATHER], max_tokens=5)]
    assert events[0]["message"]["usage"]["input_tokens"] == offered > 5


def test_what_was_read_before_is_counted_apart(served: Served, engine: ScriptedEngine) -> None:
    engine.cached_tokens = 1
    try:
        usage = served.post("/v1/messages", messages=HELLO, max_tokens=5).json()["usage"]
    finally:
        engine.cached_tokens = 0
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (1, 1)


def test_what_claude_code_sends_is_understood(served: Served, engine: ScriptedEngine) -> None:
    keep = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    ask = {"messages": HELLO, "max_tokens": 5, "context_management": keep, "output_config": {"effort": "high"}}
    thoughts = {"adaptive": None, "enabled": "high", "disabled": False}
    for kind, think in thoughts.items():
        assert served.post("/v1/messages", **ask, thinking={"type": kind}).status_code == 200
        assert engine.options[-1].think == think
    schema = {"type": "object"}
    form = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    assert served.post("/v1/messages", **ask | form).status_code == 200
    assert json.loads(engine.options[-1].json_schema or "") == schema
    for name, wrong in {
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "output_config.format": {"format": {"type": "grammar"}},
    }.items():
        answer = served.post("/v1/messages", **ask | {name.partition(".")[0]: wrong})
        assert answer.status_code == 400 and name in answer.json()["error"]["message"]


def test_what_changes_no_answer_is_taken(served: Served, engine: ScriptedEngine) -> None:
    more: dict[str, Any] = {"cache_control": {"type": "ephemeral"}, "container": None, "max_tokens": 5}
    more |= {"diagnostics": {"previous_message_id": None}, "speed": "fast", "user_profile_id": "me"}
    thought = [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Yes."}]
    said = [*HELLO, {"role": "assistant", "content": thought}, *HELLO]
    tools = [WEATHER | {"eager_input_streaming": True}]
    assert served.post("/v1/messages", messages=said, tools=tools, **more).status_code == 200
    assert [one.text for one in engine.chats[-1]] == ["Hello", "Yes.", "Hello"]
    asked = {"truncation": "auto", "max_tool_calls": 3, "stream_options": {"include_obfuscation": False}}
    asked |= {"prompt_cache_retention": "24h", "prompt_cache_options": {"mode": "implicit"}}
    answer = served.post("/v1/responses", input="Hello", **asked).json()
    counted = served.post("/v1/responses/input_tokens", input="Hello", previous_response_id=answer["id"]).json()
    assert counted == {"object": "response.input_tokens", "input_tokens": sum(map(answer["usage"].get, USED))}


def test_a_thread_is_refused_as_anthropics_client_wants_it_and_goes_on_without(served: Served) -> None:
    answer = served.post("/v1/messages", messages=HELLO, max_tokens=5, thread={"type": "create"})
    assert answer.status_code == 400
    assert answer.json()["error"]["details"] == {"error_code": "thread_unsupported_request"}


def test_a_stop_sequence_is_told(tmp_path: Path, checkpoint: MakeCheckpoint) -> None:
    Store(tmp_path / "home" / "models").get(str(checkpoint("tiny", chats=True)))
    ask = {"model": "tiny", "messages": HELLO, "max_tokens": 20, "temperature": 0}
    with serving(Workspace(tmp_path / "home")) as served:
        whole = served.post("/v1/messages", **ask).json()
        assert (whole["stop_reason"], whole["stop_sequence"]) == ("max_tokens", None)
        stop = whole["content"][0]["text"][3:6]
        ask["stop_sequences"] = ["nowhere", stop]
        answer = served.post("/v1/messages", **ask).json()
        (ended,) = [
            one for one in map(json.loads, served.events("/v1/messages", **ask)) if one["type"] == "message_delta"
        ]
        for end in answer, ended["delta"]:
            assert (end["stop_reason"], end["stop_sequence"]) == ("stop_sequence", stop)
        completion = served.post("/completion", model="tiny", prompt="Hello", temperature=0, n_predict=20).json()
        word = completion["content"][3:6]
        cut = served.post("/completion", model="tiny", prompt="Hello", temperature=0, n_predict=20, stop=[word]).json()
        assert (completion["stop_type"], cut["stop_type"], cut["stopping_word"]) == ("limit", "word", word)


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"messages": HELLO}, 400, "invalid_request_error"),
        ({"messages": HELLO, "max_tokens": 5, "mood": 1}, 400, "invalid_request_error"),
        ({"messages": [{"role": "user", "content": []}], "max_tokens": 5}, 400, "invalid_request_error"),
        ({"messages": HELLO, "max_tokens": 5, "model": "nobody"}, 404, "not_found_error"),
    ],
)  # fmt: skip
def test_anthropics_form_of_errors(served: Served, body: dict[str, object], status: int, kind: str) -> None:
    answer = served.post("/v1/messages", **body)
    assert answer.status_code == status and answer.json()["type"] == "error" and answer.json()["error"]["type"] == kind


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/v1/chat/completions", {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}),
        ("/v1/responses", {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"}),
        ("/v1/messages", {"type": "document", "title": "x", "source": {"type": "text", "data": "x"}}),
        ("/v1/messages", {"type": "tool_result", "tool_use_id": "x", "content": [{"type": "image", "source": {}}]}),
    ],
)
def test_what_is_no_text_is_refused_for_its_type(served: Served, path: str, part: dict[str, Any]) -> None:
    said = [{"role": "user", "content": [{"type": "text", "text": "x"}, part]}]
    asked = {"input": said} if path == "/v1/responses" else {"messages": said, "max_tokens": 5}
    answer = served.post(path, **asked)
    inner = (part.get("content") or [part])[0]["type"]
    assert answer.status_code == 400
    assert f"is of the type '{inner}', and the models here read only text" in answer.json()["error"]["message"]


# OpenAI's responses


def test_a_response_as_a_whole(served: Served, engine: ScriptedEngine) -> None:
    engine.turns.append(THOUGHT)
    said = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]
    answer = served.post("/v1/responses", input=said, instructions="Be brief.", max_output_tokens=50).json()
    thought, message = answer["output"]
    assert thought["type"] == "reasoning" and thought["content"][0]["text"].strip() == "Hm."
    assert message["content"][0]["text"] == "Yes." and answer["status"] == "completed"
    assert answer["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    assert [one.role for one in engine.chats[-1]] == ["system", "user"]


def test_a_response_in_events(served: Served) -> None:
    events = [
        json.loads(event)
        for event in served.events("/v1/responses", input="Hello", max_output_tokens=2, top_logprobs=3)
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "incomplete"]
    grown = [event for event in events if event["type"].endswith("output_text.delta")]
    told = [one for event in grown for one in event["logprobs"]]
    assert told == events[-1]["response"]["output"][0]["content"][0]["logprobs"]
    assert [(one["token"], len(one["top_logprobs"])) for one in told] == [("One", 3), (" two", 3)]
    text = "".join(event["delta"] for event in grown)
    assert text == "One two" == events[-1]["response"]["output"][0]["content"][0]["text"]
    assert events[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_response_goes_on_from_one_before_without_its_instructions(served: Served, engine: ScriptedEngine) -> None:
    first = served.post("/v1/responses", input="Hello", instructions="Be brief.").json()
    events = [json.loads(e) for e in served.events("/v1/responses", input="And?", previous_response_id=first["id"])]
    second = events[-1]["response"]
    assert second["previous_response_id"] == first["id"] and first["store"] is second["store"] is True
    served.post("/v1/responses", input="So?", previous_response_id=second["id"], store=False)
    said = [("user", "Hello"), ("assistant", "One two three."), ("user", "And?"), ("assistant", "One two three.")]
    assert [(one.role, one.text) for one in engine.chats[-1]] == [*said, ("user", "So?")]
    assert served.get(f"/v1/responses/{second['id']}").json() == second
    assert served.get(f"/v1/responses/{second['id']}?stream=true").json()["error"]["param"] == "stream"


def test_what_a_response_answers_is_listed_in_pages(served: Served) -> None:
    called = [
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ]
    first = served.post("/v1/responses", input=[{"role": "user", "content": "Hello"}, *called]).json()
    second = served.post("/v1/responses", input="And?", previous_response_id=first["id"]).json()
    path = f"/v1/responses/{second['id']}/input_items"
    whole = served.get(f"{path}?order=asc").json()
    hello, call, result, answer, question = whole["data"]
    assert [hello["content"], question["content"]] == [
        [{"type": "input_text", "text": one}] for one in ("Hello", "And?")
    ]
    assert answer["role"] == "assistant" and answer["content"][0]["type"] == "output_text"
    assert [{name: one[name] for name in wanted} for one, wanted in zip((call, result), called, strict=True)] == called
    assert (whole["first_id"], whole["last_id"], whole["has_more"]) == (hello["id"], question["id"], False)
    page = served.get(f"{path}?limit=2").json()
    assert page["data"] == [question, answer] and page["has_more"]
    rest = served.get(f"{path}?after={page['last_id']}").json()
    assert rest["data"] == [result, call, hello] and not rest["has_more"]
    assert served.get(f"{path}?after={hello['id']}").json()["data"] == []
    for wrong in "limit=0", "order=up", "after=x":
        refused = served.get(f"{path}?{wrong}")
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, wrong.partition("=")[0])
    assert "no response 'resp_1' here" in served.get("/v1/responses/resp_1/input_items").text


def test_what_a_developer_said_is_listed_as_it_was_sent(served: Served, engine: ScriptedEngine) -> None:
    sent = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    first = served.post("/v1/responses", input=sent).json()
    second = served.post("/v1/responses", input="And?", previous_response_id=first["id"]).json()
    listed = served.get(f"/v1/responses/{second['id']}/input_items?order=asc").json()["data"]
    assert [one["role"] for one in listed] == ["developer", "user", "assistant", "user"]
    assert [[one.role for one in said[:2]] for said in engine.chats[-2:]] == [["system", "user"]] * 2


def test_what_a_response_said_is_sent_back_whole_or_by_name(served: Served, engine: ScriptedEngine) -> None:
    output = served.post("/v1/responses", input="Hello").json()["output"]
    for said in output, [{"type": "item_reference", "id": one["id"]} for one in output]:
        history = [{"role": "user", "content": "Hello"}, *said, {"role": "user", "content": "So?"}]
        assert served.post("/v1/responses", input=history).status_code == 200
        assert [one.text for one in engine.chats[-1]] == ["Hello", "One two three.", "So?"]
    unknown = served.post("/v1/responses", input=[{"type": "item_reference", "id": "msg_1"}])
    assert unknown.status_code == 404 and "send the whole conversation" in unknown.json()["error"]["message"]


def test_a_response_tells_its_settings_again(served: Served) -> None:
    form = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}}
    answer = served.post("/v1/responses", input="Hello", text=form, tool_choice="none").json()
    assert answer["text"] == form and answer["tool_choice"] == "none"
    zero = served.post("/v1/responses", input="Hello", max_output_tokens=0)
    assert (zero.status_code, zero.json()["error"]["param"]) == (400, "max_output_tokens")


@pytest.mark.parametrize("path", ["/api/v1/chat/completions", "/v1/chat/completions/", "/v1/v1/chat/completions"])
def test_where_the_base_of_an_address_is_wrong_the_path_is_told(served: Served, path: str) -> None:
    answer = served.post(path, messages=HELLO)
    assert answer.status_code == 404
    assert "did you mean /v1/chat/completions?" in answer.text
    assert "did you mean /chat/completions?" in served.post("//v1/chat/completions/", messages=HELLO).text


def test_a_path_that_there_is_not_is_refused_in_the_form_of_its_neighbours(served: Served) -> None:
    assert isinstance(served.get("/api/nothing").json()["error"], str)
    assert isinstance(served.get("/v2/repository/index").json()["error"], str)
    assert served.get("/v1/messages/batches").json()["type"] == "error"
    assert served.get("/v1/nothing").json()["error"]["code"] == "not_found"


def test_a_response_that_is_not_kept_cannot_be_gone_on_from(served: Served) -> None:
    unkept, forgotten = (served.post("/v1/responses", input="x", store=store).json()["id"] for store in (False, True))
    assert served.client.delete(f"/v1/responses/{forgotten}").json() == {
        "id": forgotten,
        "object": "response",
        "deleted": True,
    }
    for name in (unkept, forgotten, "resp_1"):
        answer = served.post("/v1/responses", input="x", previous_response_id=name)
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "previous_response_not_found"
        assert "send the whole conversation" in answer.json()["error"]["message"]
        assert served.get(f"/v1/responses/{name}").status_code == 404
        assert served.client.delete(f"/v1/responses/{name}").status_code == 404


def test_the_oldest_responses_are_forgotten_and_each_client_has_its_own() -> None:
    responses = ResponseStore(most=2, size=2000)
    for name, size in ("a", 1), ("b", 800), ("c", 1000):
        responses.add(StoredResponse("me", [Message("user", "x" * size)], {"id": name}))
    assert list(responses.stored) == ["b", "c"]
    responses.add(StoredResponse("me", [], {"id": "d", "instructions": "x" * 1200}))
    assert list(responses.stored) == ["d"] and 700 < responses.room < 800
    with pytest.raises(Refusal, match="there is no response 'd' here"):
        responses.find("d", "another")
    responses.remove("d", "me")
    assert responses.room == 2000


@pytest.mark.parametrize("name", ["conversation", "prompt"])
def test_what_would_have_to_be_kept_on_the_disk_is_refused_by_name(served: Served, name: str) -> None:
    answer = served.post("/v1/responses", input="x", **{name: "resp_1"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


# KServe and Triton


def test_the_server_and_its_models(served: Served) -> None:
    assert served.get("/v2").json()["name"] == "chatapp"
    assert served.get("/v2/health/live").json() == {"live": True} and served.get("/v2/health/ready").status_code == 200
    model = served.get("/v2/models/builtin/versions/1").json()
    assert model["name"] == "builtin" and {"name": "text_input", "datatype": "BYTES", "shape": [1]} in model["inputs"]
    assert served.get("/v2/models/builtin/ready").json() == {"name": "builtin", "ready": True}
    assert served.get("/v2/models/nobody/ready").status_code == 404
    assert "no Triton configurations" in served.get("/v2/models/builtin/config").json()["error"]


def test_a_text_is_generated(served: Served, engine: ScriptedEngine) -> None:
    body = {"text_input": "Say", "max_tokens": 2, "parameters": {"temperature": 0, "stop_words": ["x"]}}
    answer = served.post("/v2/models/builtin/generate", **body).json()
    assert answer == {"model_name": "builtin", "model_version": "1", "text_output": "One two"}
    assert (engine.options[-1].temperature, engine.options[-1].stop) == (0, ("x",))
    text = served.post("/v2/models/builtin/generate_stream", text_input="Say").text
    parts = [json.loads(block.removeprefix("data: ")) for block in text.removesuffix("\n\n").split("\n\n")]
    assert "".join(part["text_output"] for part in parts) == "One two three."


def tensor(name: str, *data: Any, kind: str = "BYTES") -> dict[str, object]:
    return {"name": name, "shape": [len(data)], "datatype": kind, "data": list(data)}


def test_tensors_in_json(served: Served, engine: ScriptedEngine) -> None:
    answer = served.post(
        INFER, inputs=[tensor("text_input", "Say"), tensor("max_tokens", 2, kind="INT32")], id="7"
    ).json()
    output = {"name": "text_output", "datatype": "BYTES", "shape": [1], "data": ["One two"]}
    assert answer == {"model_name": "builtin", "model_version": "1", "id": "7", "outputs": [output]}


def test_tensors_in_bytes(served: Served) -> None:
    text, most = struct.pack("<I", 3) + b"Say", struct.pack("<i", 2)
    inputs = [
        {"name": "text_input", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(text)}},
        {"name": "max_tokens", "shape": [1], "datatype": "INT32", "parameters": {"binary_data_size": len(most)}},
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    sent = {"inference-header-content-length": str(len(head))}
    answer = served.client.post(INFER, content=head + text + most, headers=sent)
    length = int(answer.headers["inference-header-content-length"])
    assert json.loads(answer.content[:length])["outputs"][0]["parameters"] == {"binary_data_size": 11}
    assert answer.content[length:] == struct.pack("<I", 7) + b"One two"


@pytest.mark.parametrize(
    ("inputs", "rest"),
    [
        ([tensor("prompt", "x")], b""),
        ([tensor("max_tokens", 1, kind="INT32")], b""),
        ([tensor("text_input", "x", "y")], b""),
        ([tensor("text_input", "x"), tensor("temperature", "hot")], b""),
        ([tensor("text_input", "x")], b"more"),
        ([{"name": "text_input", "parameters": {"binary_data_size": 99}}], b"ab"),
        ([{"name": "text_input", "parameters": {"binary_data_size": 8}}], b"\xff\0\0\0abcd"),
        ([{"name": "text_input", "parameters": {"binary_data_size": -1}}], b""),
    ],
)
def test_tensors_that_are_none_are_refused(served: Served, inputs: list[object], rest: bytes) -> None:
    head = json.dumps({"inputs": inputs}).encode()
    sent = {"inference-header-content-length": str(len(head))}
    answer = served.client.post(INFER, content=head + rest, headers=sent)
    assert answer.status_code == 400 and isinstance(answer.json()["error"], str)
