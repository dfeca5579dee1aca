"""Functions that clients offer to a model, and answers in a form that they want, against a real port."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatapp.generation.text.tools import Listener
from chatapp.workspace import Workspace
from model_store import Store
from support.checkpoints import CHAT_TEMPLATE, MakeCheckpoint
from support.scripted_engine import ScriptedEngine
from support.served import Served, serving
from support.stand_in_home import Home

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Weather in Bern?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "The weather now", "parameters": CITY}
TOOL = {"type": "function", "function": WEATHER}
CALL = 'Let me see.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Bern"}}\n</tool_call>'
BERN = ("get_weather", '{"city": "Bern"}')


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine(text="It is sunny.", can_chat=True)


@pytest.fixture(scope="module")
def served(engine: ScriptedEngine) -> Iterator[Served]:
    with serving(Home(engine)) as served:
        yield served


@pytest.mark.parametrize(
    ("reply", "text", "calls"),
    [
        (CALL, "Let me see.\n", [BERN]),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "Bern"}}', "", [BERN]),
        (CALL + CALL.partition("\n")[2], "Let me see.\n", [BERN, BERN]),
        ('{"name": "get_weather", "parameters": {"city": "Bern"}}', "", [BERN]),
        ('<|python_tag|>{"name": "get_weather", "parameters": {"city": "Bern"}}', "", [BERN]),
        ('{"name": "get_weather", "parameters": {"city": "Bern"}}; {"name": "now", "parameters": {}}', "",
         [BERN, ("now", "{}")]),
        ('[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Bern"}}]', "", [BERN]),
        (' [{"name": "get_weather", "arguments": {"city": "Bern"}}, {"name": "now", "arguments": {}}]', "",
         [BERN, ("now", "{}")]),
        ('[TOOL_CALLS]get_weather[ARGS]{"city": "Bern"}', "", [BERN]),
        ('get_weather{"city": "Bern"}', "", [BERN]),
        ('<function=get_weather>{"city": "Bern"}</function>', "", [BERN]),
        ('<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</parameter>\n</function>\n</tool_call>', "",
         [BERN]),
        ('I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n12\n'
         "</parameter>\n<parameter=place>\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>"
         "\n</tool_call>", "I look.\n\n",
         [("get_weather", '{"city": "12", "days": 12, "place": ""}'), ("now", "{}")]),
        ("<function=now>\n</function>", "", [("now", "{}")]),
        ('So.<tool_calls>[\n  {"name": "get_weather", "arguments": {"city": "Bern"}},\n'
         '  {"name": "now", "arguments": {}}\n]</tool_calls>', "So.", [BERN, ("now", "{}")]),
        ('<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Bern</parameter>\n</invoke>\n'
         '<invoke name="now">\n</invoke>\n</minimax:tool_call>', "", [BERN, ("now", "{}")]),
        ('<|tool_call_start|>[get_weather(city="Bern"), now()]<|tool_call_end|>', "", [BERN, ("now", "{}")]),
        ('[get_weather(city="Bern")]', "", [BERN]),
        ('[get_weather(city=open("/etc/passwd"))]', '[get_weather(city=open("/etc/passwd"))]', []),
        ("[get_weather(city=", "[get_weather(city=", []),
        ('{"type": "function", "function": {"name": "get_weather", "arguments": "{\\"city\\": \\"Bern\\"}"}}',
         "", [BERN]),
        ("It is <b>sunny</b>, {really}.", "It is <b>sunny</b>, {really}.", []),
        ('{"sky": "blue"}', '{"sky": "blue"}', []),
        ('<tool_call>{"name": "unknown", "arguments": {}}</tool_call>',
         '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>', []),
        ('<tool_call>{"name": "get_weather", "arg', '<tool_call>{"name": "get_weather", "arg', []),
        ("get_weather is a function.", "get_weather is a function.", []),
        ("[TOOL", "[TOOL", []),
        ("", "", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_calls_are_found_in_the_forms_that_models_write(
    reply: str, text: str, calls: list[tuple[str, str]], size: int
) -> None:
    listener = Listener(["get_weather", "now"], schemas={"get_weather": CITY, "now": None})
    told = "".join(listener.add(reply[place : place + size]) for place in range(0, len(reply), size))
    rest, found = listener.end()
    assert told + rest == text and [(one.name, one.arguments) for one in found] == calls
    assert len({one.id for one in found}) == len(found)


def test_plain_text_is_told_as_it_comes() -> None:
    listener = Listener(["get_weather"])
    assert [listener.add(part) for part in ("It", " is", " <b", "old", " <", "t")] == [
        "It",
        " is",
        " <b",
        "old",
        " ",
        "",
    ]
    assert listener.end() == ("<t", [])


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ('{"sk', 'y": "bl'),
        ('{"name": "Be', 'rn"'),
        ('{"name":', "{"),
        ('[{"name" : ', "[]"),
        ('{"type": "fun', '"'),
        ('{"id": 7, "type": "function", "', 'size"'),
        ('{"id": "a\\"b",', '"size":'),
        ('{"function": "f", "name": "get', '_"'),
    ],
)
def test_json_is_told_as_it_comes_where_it_is_no_call(held: str, told: str) -> None:
    listener = Listener(["get_weather"])
    assert [listener.add(part) for part in (held, told, ".")] == ["", held + told, "."]


def test_a_chat_asks_for_a_call(served: Served, engine: ScriptedEngine) -> None:
    engine.turns += [CALL, CALL]
    (choice,) = served.post(CHAT, messages=HELLO, tools=[TOOL]).json()["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] == "Let me see.\n"
    assert (call["function"]["name"], call["function"]["arguments"]) == BERN and len(call["id"]) == 9
    assert [json.loads(one) for one in engine.options[-1].tools] == [TOOL]
    chunks = [chunk["choices"][0] for chunk in served.chunks(CHAT, messages=HELLO, tools=[TOOL])]
    assert "".join(chunk["delta"].get("content", "") for chunk in chunks) == "Let me see.\n"
    assert [
        chunk["delta"]["tool_calls"][0]["function"]["name"] for chunk in chunks if "tool_calls" in chunk["delta"]
    ] == ["get_weather"]
    assert chunks[-1]["finish_reason"] == "tool_calls"


def test_a_call_that_is_cut_is_neither_a_call_nor_an_answer(served: Served, engine: ScriptedEngine) -> None:
    engine.turns.append(CALL)
    (choice,) = served.post(CHAT, messages=HELLO, tools=[TOOL], max_tokens=6).json()["choices"]
    assert choice["finish_reason"] == "length" and choice["message"]["content"] == "Let me see.\n"
    engine.turns.append('{"name": "get_weather", "arguments": {"city": "Bern"}}')
    must = {"tools": [TOOL], "tool_choice": "any", "max_tokens": 6}  # as Mistral's clients say required
    (choice,) = served.post(CHAT, messages=HELLO, **must).json()["choices"]
    assert choice["finish_reason"] == "length" and not choice["message"]["content"]


def test_what_a_function_gave_reaches_the_model(served: Served, engine: ScriptedEngine) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Bern"}'}}
    said = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [called]}]
    served.post(CHAT, messages=[*said, {"role": "tool", "tool_call_id": "c1", "content": "blue"}], tools=[TOOL])
    _, asked, answered = engine.chats[-1]
    assert asked.calls[0].name == "get_weather" and answered.role == "tool" and answered.text == "blue"
    assert answered.answers and (answered.answers.name, answered.answers.id) == ("get_weather", "c1")


def test_a_call_can_be_demanded(served: Served, engine: ScriptedEngine) -> None:
    named = {"function": {"name": "get_weather"}}  # Hugging Face's client leaves out the type
    served.post(CHAT, messages=HELLO, tools=[TOOL], tool_choice=named)
    schema = json.loads(engine.options[-1].json_schema or "")
    assert schema["properties"]["name"] == {"const": "get_weather"}
    assert schema["properties"]["arguments"].items() >= CITY.items()
    tools: list[dict[str, Any]] = [{"type": "function", **WEATHER}, {"type": "function", "name": "now"}]
    only: dict[str, Any] = {"mode": "required", "tools": [{"type": "function", **named}]}
    both = [{"type": "function", "function": {"name": one["name"]}} for one in tools]
    served.post(CHAT, messages=HELLO, tools=both, tool_choice={"type": "allowed_tools", "allowed_tools": only})
    (offered,) = engine.options[-1].tools
    assert "get_weather" in offered and engine.options[-1].json_schema
    flat = {"type": "allowed_tools", "mode": "auto", "tools": tools[1:]}
    served.post("/v1/responses", input="x", tools=tools, tool_choice=flat)
    (offered,) = engine.options[-1].tools
    assert '"now"' in offered and engine.options[-1].json_schema is None
    refused = served.post("/v1/responses", input="x", tools=tools[:1], tool_choice=flat).json()["error"]
    assert refused["message"] == "tool_choice names 'now', which is not one of the tools"
    served.post(CHAT, messages=HELLO, tools=[TOOL], tool_choice="none")
    assert engine.options[-1].tools == () and engine.options[-1].json_schema is None


def test_a_model_that_must_call_does_so_with_arguments_that_fit(tmp_path: Path, checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint("tiny", chats=True)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{% if tools %}{{ tools | tojson }}{% endif %}" + CHAT_TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    Store(tmp_path / "home" / "models").get(str(folder))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"day": {"enum": ["today", "tomorrow"]}},
        "required": ["day"],
    }
    odd = {"$ref": "#/$defs/odd"}
    known = {"additionalProperties": False, "$defs": {"odd": {"type": "array", "uniqueItems": True, "maxItems": 1}}}
    known["properties"] = {**schema["properties"], "odd": odd}
    tool: dict[str, Any] = {"type": "function", "function": {"name": "plan", "parameters": {**schema, **known}}}
    with serving(Workspace(tmp_path / "home")) as served:
        answer = served.post(CHAT, model="tiny", messages=HELLO, tools=[tool], tool_choice="required", seed=1).json()
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"])["day"] in ("today", "tomorrow")
        tool["function"]["strict"] = True
        refused = served.post(CHAT, model="tiny", messages=HELLO, tools=[tool], tool_choice="required").json()["error"]
        assert refused["param"] == "tool_choice" and "uniqueItems" in refused["message"]
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes", "no"], "format": "x"}}}
        answer = served.post(CHAT, model="tiny", messages=HELLO, response_format=form).json()
        assert json.loads(answer["choices"][0]["message"]["content"]) in ("yes", "no")
        told = {one["name"]: one["capabilities"] for one in served.get("/api/tags").json()["models"]}
        assert told == {"tiny": ["completion", "tools"], "builtin": ["completion"]}
        plain = served.post("/api/generate", model="tiny", prompt="x", format={"enum": [1]}, stream=False).json()
        assert plain["response"] == "1"


def test_other_protocols_ask_for_calls_in_their_forms(served: Served, engine: ScriptedEngine) -> None:
    engine.turns += [CALL] * 5
    anthropic = {"messages": HELLO, "max_tokens": 99, "tools": [{"name": "get_weather", "input_schema": CITY}]}
    answer = served.post("/v1/messages", **anthropic).json()
    assert answer["stop_reason"] == "tool_use" and answer["content"][1]["input"] == {"city": "Bern"}
    events = [json.loads(event) for event in served.events("/v1/messages", **anthropic)]
    (part,) = [one["delta"]["partial_json"] for one in events if one.get("delta", {}).get("type") == "input_json_delta"]
    assert json.loads(part) == {"city": "Bern"} and events[-2]["delta"]["stop_reason"] == "tool_use"

    chosen = {"type": "function", "name": "get_weather"}
    body: dict[str, Any] = {"messages": HELLO, "tools": [TOOL], "tool_choice": chosen, "stream": False}
    message = served.post("/api/chat", **body).json()["message"]
    assert message["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": {"city": "Bern"}}

    flat = {"input": "Weather?", "tools": [{"type": "function", **WEATHER}]}
    called = served.post("/v1/responses", **flat).json()["output"][1]
    assert called["type"] == "function_call" and (called["name"], called["arguments"]) == BERN
    kinds = [json.loads(event)["type"] for event in served.events("/v1/responses", **flat)]
    assert kinds[-4:-1] == [
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]


def test_the_result_of_a_call_follows_the_response_that_asked_for_it(served: Served, engine: ScriptedEngine) -> None:
    engine.turns.append(CALL)
    flat = {"tools": [{"type": "function", **WEATHER}]}
    before = served.post("/v1/responses", input="Weather?", **flat).json()
    result = {"type": "function_call_output", "call_id": before["output"][1]["call_id"], "output": "blue"}
    served.post("/v1/responses", input=[result], previous_response_id=before["id"], **flat)
    _, asked, answered = engine.chats[-1]
    assert asked.text.strip() == "Let me see." and (asked.calls[0].name, asked.calls[0].arguments) == BERN
    assert answered.role == "tool" and answered.answers and answered.answers.name == "get_weather"


def test_codex_is_asked_for_calls_by_the_names_that_it_offers(served: Served, engine: ScriptedEngine) -> None:
    engine.turns.append('<tool_call>{"name": "sky__get_weather", "arguments": {"city": "Bern"}}</tool_call>')
    space = {
        "type": "namespace",
        "name": "sky",
        "description": "Of the sky",
        "tools": [{"type": "function", **WEATHER}],
    }
    more = {"tools": [space, {"type": "web_search", "external_web_access": False}], "client_metadata": {"turn": "1"}}
    before = served.post("/v1/responses", input="Weather?", **more).json()
    (called,) = before["output"]
    assert (called["namespace"], called["name"], called["arguments"]) == ("sky", *BERN)
    assert [one["type"] for one in before["tools"]] == ["namespace"]
    result = {"type": "function_call_output", "call_id": called["call_id"], "output": "blue"}
    first = {"input": [result], "previous_response_id": before["id"]}
    for body in (first, {"input": [{"role": "user", "content": "?"}, called, result]}):
        response = served.post("/v1/responses", **body, **more).json()
        listed = served.get(f"/v1/responses/{response['id']}/input_items?order=asc").json()["data"]
        assert listed[1] == {**called, "id": listed[1]["id"]}
        _, asked, answered = engine.chats[-1]
        assert asked.calls[0].name == "sky__get_weather"
        assert answered.answers and answered.answers.name == "sky__get_weather"


def test_other_protocols_bring_results(served: Served, engine: ScriptedEngine) -> None:
    use = {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Bern"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "blue"}]}
    said = [*HELLO, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    items = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "Let me see."},  # of the same turn as the call
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city":"Bern"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "blue"},
    ]
    called = {"function": {"name": "get_weather", "arguments": {"city": "Bern"}}}
    lines = [
        *HELLO,
        {"role": "assistant", "tool_calls": [called]},
        {"role": "tool", "tool_name": "get_weather", "content": "blue"},
    ]
    for path, body in (
        ("/v1/messages", {"messages": said, "max_tokens": 9}),
        ("/v1/responses", {"input": items}),
        ("/api/chat", {"messages": lines}),
    ):
        assert served.post(path, **body).status_code == 200
        _, asked, answered = engine.chats[-1]
        assert asked.calls[0].name == "get_weather" and json.loads(asked.calls[0].arguments) == {"city": "Bern"}
        assert (answered.role, answered.text) == ("tool", "blue")
        assert answered.answers and answered.answers.name == "get_weather"


@pytest.mark.parametrize(
    ("more", "option", "value"),
    [
        ({"response_format": {"type": "json_object"}}, "json_object", True),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": CITY, "strict": True}}},
         "json_schema", json.dumps(CITY)),
        ({"response_format": {"type": "json_object"}, "tools": [TOOL]}, "json_object", True),
        ({"response_format": {"type": "json_object"}, "tools": [TOOL], "tool_choice": "required"}, "json_object",
         False),
        ({"response_format": {"type": "text"}}, "json_schema", None),
    ],
)  # fmt: skip
def test_the_form_of_an_answer_arrives(
    served: Served, engine: ScriptedEngine, more: dict[str, Any], option: str, value: object
) -> None:
    assert served.post(CHAT, messages=HELLO, **more).status_code == 200
    assert getattr(engine.options[-1], option) == value


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
    ],
)
def test_what_cannot_be_is_refused_by_name(served: Served, more: dict[str, Any], param: str) -> None:
    answer = served.post(CHAT, messages=HELLO, **more)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_a_tool_of_openais_own_is_refused_for_its_type(served: Served) -> None:
    for tool, wrong in (
        ({"type": "file_search", "vector_store_ids": []}, "tools.0.type should be 'function'"),
        ({"type": "function", "parameters": {}}, "tools.0.name is missing"),
        ({"type": "function", "name": ""}, "tools.0.name should have at least 1 character"),
    ):
        answer = served.post("/v1/responses", input="x", tools=[tool]).json()
        assert answer["error"]["message"] == wrong


def test_a_tool_of_anthropics_own_is_refused_for_its_type(served: Served) -> None:
    tool = {"type": "web_search_20250305", "name": "web_search"}
    answer = served.post("/v1/messages", messages=HELLO, max_tokens=9, tools=[tool])
    assert answer.json()["error"]["message"] == "tools.0.type should be 'custom'"


def test_a_deferred_tool_of_anthropics_is_offered_once_a_search_has_found_it(
    served: Served, engine: ScriptedEngine
) -> None:
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "search", "input": {}}]}
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": "x"}
    found = result | {"content": [{"type": "tool_reference", "tool_name": "get_weather"}]}
    search = {"name": "search", "input_schema": {"type": "object"}}
    tools = [search, {"name": "get_weather", "input_schema": CITY, "defer_loading": True}]
    for answer, offered in ((result, ["search"]), (found, ["search", "get_weather"])):
        said = [*HELLO, use, {"role": "user", "content": [answer]}]
        assert served.post("/v1/messages", messages=said, max_tokens=9, tools=tools).status_code == 200
        assert [json.loads(one)["function"]["name"] for one in engine.options[-1].tools] == offered
    assert engine.chats[-1][-1].text == "get_weather\n"
