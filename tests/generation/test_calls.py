"""Calls that a model begins by itself: behind their mark a random model writes one that fits its schema."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from chatapp.generation import Message, Options, Reply
from chatapp.generation.engine import Engine
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.generation.text.tools import Function, Toolbox, read_calls
from support.scripted_session import CHATML, ScriptedSession, hashed, write_tokenizer

ROOT = Path(__file__).parents[1]
QWEN = (ROOT / "chat_templates" / "qwen2_5.jinja").read_text("utf-8")
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Bern", "Biel"]}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
ODD = {"type": "object", "properties": {"x": {"$ref": "https://example.org/nowhere"}}}
SKY = {"type": "object", "properties": {"sky": {"enum": ["blue", "grey"]}}, "required": ["sky"]}
WEATHER, OTHER = Function("weather", "Now", CITY), Function("other", None, ODD)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer"), chat_template=QWEN))


@pytest.fixture(scope="module")
def merging(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer that ends the mark of a call in a token that says more."""
    folder = write_tokenizer(tmp_path_factory.mktemp("merging"), chat_template=QWEN)
    path = folder / "tokenizer.json"
    facts = json.loads(path.read_text("utf-8"))
    model = facts["model"]
    model["vocab"][">`"] = model["vocab"].pop("".join(model["merges"][-1]))
    model["merges"][-1] = [">", "`"]
    path.write_text(json.dumps(facts), "utf-8")
    return Tokenizer(folder)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> ChatTemplate:
    return ChatTemplate(write_tokenizer(tmp_path_factory.mktemp("template"), chat_template=QWEN))


def ask(
    tokenizer: Tokenizer, template: ChatTemplate, beginning: str, seed: int, *tools: Function, **form: str
) -> Reply:
    """The reply of a model that says a text first, and then at random what it likes, ends with preference."""
    text, asked = tokenizer.encode(beginning), [Message("user", f"weather {seed}?")]
    options = Options(temperature=1.0, top_k=0, top_p=1.0, seed=seed, max_tokens=200, **Toolbox(tools).keep_to(form))
    prompt = len(template.encode(asked, tokenizer, tools=options.tools))

    def fill(tokens: Sequence[int], logits: np.ndarray) -> None:
        said = len(tokens) - prompt
        hashed(tokens, logits)
        if 0 <= said < len(text):
            logits[text[said]] = 60
        else:
            logits[[0, 7, 98]] += 6

    engine = Engine(ScriptedSession(fill, vocab_size=400, context_length=2048), tokenizer, template)
    reply = Reply()
    for delta in engine.chat(asked, options):
        reply.add(delta)
    return reply


@pytest.mark.parametrize("beginning", ["Let me see.\n<tool_call>\n", "<tool_call>", '<tool_call>{"na'])
def test_what_begins_as_a_call_becomes_one(tokenizer: Tokenizer, template: ChatTemplate, beginning: str) -> None:
    names = set()
    for seed in range(6):
        reply = ask(tokenizer, template, beginning, seed, WEATHER, OTHER)
        assert reply.text.startswith(beginning) and reply.valid is None
        call, _ = json.JSONDecoder().raw_decode(reply.text.partition("<tool_call>")[2].lstrip())
        names.add(call["name"])
        assert set(call) == {"name", "arguments"} and isinstance(call["arguments"], dict)
        if call["name"] == "weather":
            assert call["arguments"]["city"] in ("Bern", "Biel") and 0 <= call["arguments"]["days"] <= 9
    assert names == {"weather", "other"}


def test_what_is_no_call_is_as_it_would_be_without_functions(tokenizer: Tokenizer, template: ChatTemplate) -> None:
    replies = [ask(tokenizer, template, "Good day to you <tool", 3, *tools) for tools in ((), (WEATHER,))]
    assert all(reply.text.startswith("Good day to you <tool") for reply in replies)


def test_a_mark_whose_last_token_begins_no_call_leaves_the_reply_free(
    merging: Tokenizer, template: ChatTemplate
) -> None:
    said = "the `<tool_call>` tag: <tool_call>"
    assert len(merging.encode(">`")) == 1
    for beginning in ("the `<tool_call>` tag.", said):
        reply = ask(merging, template, beginning, 3, WEATHER)
        assert reply.text.startswith(beginning)
    call, _ = json.JSONDecoder().raw_decode(reply.text.removeprefix(said).lstrip())
    assert call["name"] == "weather", "another call is one"


def test_a_reply_that_was_begun_with_what_is_no_call_goes_on(tokenizer: Tokenizer, template: ChatTemplate) -> None:
    engine = Engine(ScriptedSession(hashed, vocab_size=400, context_length=2048), tokenizer, template)
    options = Options(max_tokens=9, seed=3, **Toolbox((WEATHER,)).keep_to({}))
    begun = tokenizer.encode("<tool_call>Bern")
    assert list(engine.chat([Message("user", "weather?")], options, begun))


LLAMA = """\
{% if tools %}{{ tools | tojson }} Respond in the format {"name": function name, "parameters": dictionary}.{% endif %}\
{% for message in messages %}{% if message.tool_calls %}
{{- '{"name": "' + message.tool_calls[0].function.name + '", ' }}{{- '"parameters": ' }}
{{- message.tool_calls[0].function.arguments | tojson }}{{- '}' }}
{%- else %}{{ message.content }}{% endif %}{% endfor %}"""


@pytest.mark.parametrize("beginning", ['{"name": "weather"', '\n{"name": "weather", "par'])
def test_a_call_without_a_mark_fits_its_schema_where_its_template_makes_such(
    beginning: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    llama = ChatTemplate(write_tokenizer(tmp_path, chat_template=LLAMA))
    for seed in range(4):
        text = ask(tokenizer, llama, beginning, seed, WEATHER, OTHER).text
        assert text.startswith(beginning)
        call, _ = json.JSONDecoder().raw_decode(text.lstrip())
        assert set(call) == {"name", "parameters"} and call["parameters"]["city"] in ("Bern", "Biel")
        (found, *_) = read_calls(text, ["weather"])
        assert found.name == "weather" and json.loads(found.arguments) == call["parameters"]


@pytest.mark.parametrize("beginning", ['{  "name": "weather"', '{\t"name": "weather"', '{\n\n"name":"weather"}'])
def test_a_call_without_a_mark_in_another_form_is_free(beginning: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    llama = ChatTemplate(write_tokenizer(tmp_path, chat_template=LLAMA))
    assert ask(tokenizer, llama, beginning, 3, WEATHER).text.startswith(beginning)


def test_json_that_calls_nothing_is_free(tokenizer: Tokenizer, tmp_path: Path) -> None:
    llama = ChatTemplate(write_tokenizer(tmp_path, chat_template=LLAMA))
    for beginning in ('{"name": "Weather', 'Say {"name": "weather", '):
        assert '"parameters"' not in ask(tokenizer, llama, beginning, 3, WEATHER).text


@pytest.mark.parametrize("source", [QWEN, LLAMA, "{% if tools %}[TOOL_CALLS]{% endif %}", "{% if tools %}{% endif %}"])
def test_an_answer_that_has_a_form_is_that_or_a_call(tokenizer: Tokenizer, tmp_path: Path, source: str) -> None:
    calling = ChatTemplate(write_tokenizer(tmp_path, chat_template=source + CHATML))
    mark = next((one for one in ("<tool_call>", "[TOOL_CALLS]") if one in source), '{"name": "weath')
    for beginning in (mark, '{"sky'):
        reply = ask(tokenizer, calling, beginning, 3, WEATHER, OTHER, json_schema=json.dumps(SKY))
        assert reply.text.startswith(beginning) and reply.valid
        calls = [*read_calls(reply.text, ["weather", "other"])]
        assert calls or json.loads(reply.text)["sky"] in ("blue", "grey")
        assert all(json.loads(one.arguments)["city"] in ("Bern", "Biel") for one in calls if one.name == "weather")
        assert bool(calls) == (beginning != '{"sky')


@pytest.mark.parametrize(
    "call",
    [
        "<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</parameter>\n</function>\n</tool_call>",
        '<|tool_call>call:weather{city:<|"|>Bern<|"|>}<tool_call|>',
    ],
)
def test_a_call_that_is_no_json_is_written_beside_a_form_too(tokenizer: Tokenizer, tmp_path: Path, call: str) -> None:
    calling = ChatTemplate(write_tokenizer(tmp_path, chat_template=f"{{% if tools %}}{call}{{% endif %}}{CHATML}"))
    reply = ask(tokenizer, calling, call, 3, WEATHER, json_schema=json.dumps(SKY))
    (found,) = read_calls(reply.text, ["weather"])
    assert reply.valid and json.loads(found.arguments) == {"city": "Bern"}


def test_forms_that_are_no_json_are_left_alone() -> None:
    from chatapp.generation.decoding.calls import find_opener

    assert find_opener(QWEN) == "<tool_call>"
    assert find_opener("<tool_call><function=name>") == find_opener("[TOOL_CALLS]name[ARGS]{}") == ""
    assert find_opener((ROOT / "chat_templates" / "llama3.jinja").read_text("utf-8")) == ""


def test_a_call_that_is_only_thought_of_is_free(tokenizer: Tokenizer, template: ChatTemplate) -> None:
    replies = [ask(tokenizer, template, "<think>perhaps <tool_call>", seed, WEATHER) for seed in range(4)]
    assert not all(
        (reply.thinking + reply.text).partition("<tool_call>")[2].lstrip().startswith("{") for reply in replies
    )
