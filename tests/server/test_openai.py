"""OpenAI's protocol, against a real port."""

import math
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.server.asks import Texts
from chatapp.workspace import Workspace
from model_store import Store
from model_store.store import BUILTIN_FOLDER
from support.checkpoints import MakeCheckpoint
from support.scripted_engine import ScriptedEngine
from support.scripted_session import hashed, make_engine, write_tokenizer
from support.served import Served, serving
from support.stand_in_home import Home

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine(text="One two three.", can_chat=True, thinking_choices=(False, True))


@pytest.fixture(scope="module")
def served(engine: ScriptedEngine) -> Iterator[Served]:
    with serving(Home(engine)) as served:
        yield served


def test_models_are_listed_with_the_length_of_their_context(served: Served) -> None:
    (model,) = served.get("/v1/models").json()["data"]
    assert model["id"] == "builtin" and model["object"] == "model"
    assert model["meta"]["n_ctx_train"] == model["context_length"] == model["max_model_len"] == 1024
    written = os.path.getmtime(BUILTIN_FOLDER / "config.json")
    assert model["created"] == int(written) == datetime.fromisoformat(model["created_at"]).timestamp()
    assert served.get("/v1/models/builtin").json() == model


def test_the_model_for_requests_that_name_none_is_listed_first(tmp_path: Path, checkpoint: MakeCheckpoint) -> None:
    Store(tmp_path / "home" / "models").get(str(checkpoint("tiny")))
    with serving(Workspace(tmp_path / "home"), models=("tiny",)) as served:
        assert [one["id"] for one in served.get("/v1/models").json()["data"]] == ["tiny", "builtin"]
        assert [one["name"] for one in served.get("/api/tags").json()["models"]] == ["tiny", "builtin"]


def test_replies_that_are_written_together_take_no_longer_than_the_clock_says(tmp_path: Path) -> None:
    with serving(Workspace(tmp_path / "home")) as served:
        served.post(COMPLETIONS, prompt="def add", max_tokens=1)
        began = time.perf_counter()
        answer = served.post(COMPLETIONS, prompt="def add", max_tokens=60, n=6, temperature=1.0, seed=1).json()
        spent, timings = 1000 * (time.perf_counter() - began), answer["timings"]
    assert 0 < timings["predicted_ms"] < spent
    written = timings["predicted_n"] - 6
    assert timings["predicted_per_second"] == pytest.approx(1000 * written / timings["predicted_ms"])


def test_a_conversation_is_answered(served: Served, engine: ScriptedEngine) -> None:
    answer = served.post(CHAT, model="builtin", messages=[{"role": "developer", "content": "Be brief."}, *HELLO]).json()
    assert answer["object"] == "chat.completion" and answer["model"] == "builtin"
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "One two three.", "refusal": None}
    assert choice["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens"] == 5 and answer["usage"]["completion_tokens"] == 4
    assert [(one.role, one.text) for one in engine.chats[-1]] == [("system", "Be brief."), ("user", "Hello")]


def test_an_answer_is_sent_back_as_it_came(served: Served, engine: ScriptedEngine) -> None:
    nothing = {"refusal": None, "annotations": None, "audio": None, "function_call": None, "tool_calls": None}
    said = {"role": "assistant", "content": "One two three.", **nothing}
    assert served.post(CHAT, messages=[*HELLO, said, *HELLO]).status_code == 200
    assert [one.text for one in engine.chats[-1]] == ["Hello", "One two three.", "Hello"]


def test_what_changes_no_answer_is_taken(served: Served, engine: ScriptedEngine) -> None:
    more = {"verbosity": "medium", "top_logprobs": 0, "store": True, "metadata": {"turn": 1}, "prediction": None}
    more |= {"prompt_cache_retention": "24h", "prompt_cache_options": {"mode": "implicit"}}
    part = {"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}
    said = [{"role": "user", "content": [part]}, {"role": "assistant", "content": "Yes.", "reasoning": "Hm."}, *HELLO]
    for name in ("schema", "value"):
        form = {"type": "json_object", name: {"type": "object"}}
        assert served.post(CHAT, messages=said, **more, response_format=form).status_code == 200
        assert engine.options[-1].json_schema and not engine.options[-1].json_object
    assert [one.text for one in engine.chats[-1]] == ["Hello", "<think>\nHm.\n</think>\n\nYes.", "Hello"]


def test_a_stream_says_the_same_in_parts(served: Served) -> None:
    first, *parts, last, usage = served.chunks(CHAT, messages=HELLO, stream_options={"include_usage": True})
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(part["choices"][0]["delta"].get("content", "") for part in [*parts, last]) == "One two three."
    assert last["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 4
    assert {part["id"] for part in (first, *parts, last, usage)} == {usage["id"]}


def test_a_body_may_begin_with_a_mark_of_its_encoding(served: Served) -> None:
    body = b'\xef\xbb\xbf{"messages": [{"role": "user", "content": "Hello"}]}'
    assert served.client.post(CHAT, content=body).status_code == 200


def test_without_being_asked_a_stream_has_no_usage(served: Served) -> None:
    assert all(chunk["choices"] for chunk in served.chunks(CHAT, messages=HELLO))


def test_several_answers_keep_their_index(served: Served, engine: ScriptedEngine) -> None:
    engine.texts = ("One.", "Two two.")
    try:
        whole = served.post(CHAT, messages=HELLO, n=2).json()["choices"]
        said = {0: "", 1: ""}
        for chunk in served.chunks(CHAT, messages=HELLO, n=2):
            for choice in chunk["choices"]:
                said[choice["index"]] += choice["delta"].get("content", "")
    finally:
        engine.texts = ()
    assert [one["message"]["content"] for one in whole] == ["One.", "Two two."]
    assert said == {0: "One.", 1: "Two two."}


def test_options_arrive(served: Served, engine: ScriptedEngine) -> None:
    served.post(
        CHAT, messages=HELLO, temperature=0, top_p=0.5, top_k=7, max_completion_tokens=3, stop=["x", "y"], seed=11,
        presence_penalty=0.5, logit_bias={"5": -100}, min_p=0.1, reasoning_effort="none", user="me",
    )  # fmt: skip
    options = engine.options[-1]
    assert (options.temperature, options.top_p, options.top_k, options.min_p) == (0, 0.5, 7, 0.1)
    assert (options.max_tokens, options.stop, options.seed, options.think) == (3, ("x", "y"), 11, False)
    assert options.presence_penalty == 0.5 and options.logit_bias == {5: -100}
    served.post(CHAT, messages=HELLO, max_tokens=-1, cache_prompt=True)
    assert engine.options[-1].max_tokens == engine.defaults.max_tokens


@pytest.mark.parametrize(
    ("asked", "think"),
    [
        (dict(reasoning_effort="low"), "low"),
        (dict(reasoning_effort="minimal"), True),
        (dict(chat_template_kwargs={"reasoning_effort": "high"}), "high"),
        (dict(chat_template_kwargs={"enable_thinking": False}, reasoning_effort="high"), False),
        (dict(chat_template_kwargs={}, reasoning_effort="medium"), "medium"),
    ],
)
def test_how_much_to_think_arrives(
    served: Served, engine: ScriptedEngine, asked: dict[str, object], think: object
) -> None:
    served.post(CHAT, messages=HELLO, **asked)
    assert engine.options[-1].think == think


def test_what_is_not_asked_for_is_as_the_model_recommends(served: Served, engine: ScriptedEngine) -> None:
    served.post(CHAT, messages=HELLO)
    assert engine.options[-1] == engine.defaults


def test_log_probabilities_of_a_chat(served: Served) -> None:
    answer = served.post(CHAT, messages=HELLO, logprobs=True, top_logprobs=2).json()
    content = answer["choices"][0]["logprobs"]["content"]
    assert "".join(bytes(one["bytes"]).decode() for one in content) == "One two three."
    assert content[0]["logprob"] == pytest.approx(math.log(0.5)) and len(content[0]["top_logprobs"]) == 2
    streamed = served.chunks(CHAT, messages=HELLO, logprobs=True, top_logprobs=2)
    assert [
        token
        for chunk in streamed
        if chunk["choices"][0]["logprobs"]
        for token in chunk["choices"][0]["logprobs"]["content"]
    ] == content


def test_the_bytes_of_tokens_make_the_text_also_where_one_is_a_part_of_a_character(
    tmp_path: Path, checkpoint: MakeCheckpoint
) -> None:
    Store(tmp_path / "home" / "models").get(str(checkpoint("tiny", chats=True)))
    schema = {"enum": ["größer 🙂"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with serving(Workspace(tmp_path / "home"), models=("tiny",)) as served:
        said = served.post(CHAT, messages=HELLO, response_format=form, logprobs=True, top_logprobs=1)
        line = served.post("/api/generate", prompt="x", format=schema, logprobs=True, stream=False).json()
        told = served.post("/completion", prompt="x", json_schema=schema, n_probs=1).json()
    (choice,) = said.json()["choices"]
    for tokens, text in (
        (choice["logprobs"]["content"], choice["message"]["content"]),
        (line["logprobs"], line["response"]),
        (told["completion_probabilities"], told["content"]),
    ):
        assert "🙂" in text and b"".join(bytes(one["bytes"]) for one in tokens) == text.encode()
        assert any(len(one["bytes"]) == 1 and one["bytes"][0] > 127 for one in tokens)


def test_thinking_has_a_field_of_its_own(served: Served, engine: ScriptedEngine) -> None:
    for _ in range(2):
        engine.turns.append("<think>\nSome thought.\n</think>\n\nThe answer.")
    message = served.post(CHAT, messages=HELLO).json()["choices"][0]["message"]
    assert message["reasoning_content"] == "\nSome thought." and message["content"] == "The answer."
    deltas = [chunk["choices"][0]["delta"] for chunk in served.chunks(CHAT, messages=HELLO)]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "\nSome thought."
    assert "".join(delta.get("content", "") for delta in deltas) == "The answer."


def test_a_text_is_gone_on_with(served: Served, engine: ScriptedEngine) -> None:
    answer = served.post(COMPLETIONS, model="builtin", prompt="Say", max_tokens=2, echo=True).json()
    assert answer["choices"][0] == {"index": 0, "text": "SayOne two", "logprobs": None, "finish_reason": "length"}
    assert engine.asked[-1] == "Say"
    said = served.chunks(COMPLETIONS, prompt="Say", max_tokens=2, echo=True, stream_options={"include_usage": True})
    assert "".join(chunk["choices"][0]["text"] for chunk in said[:-1]) == "SayOne two"
    assert said[-1]["usage"]["total_tokens"] == 3


def test_prompts_are_told_with_their_log_probabilities(tmp_path: Path) -> None:
    with serving(Workspace(tmp_path / "home")) as served:
        asked = {"prompt": "def add(a, b):\n    return", "echo": True, "logprobs": 2, "temperature": 0}
        alone = served.post(COMPLETIONS, **asked, max_tokens=0).json()
        assert "first_token_seconds_count" not in served.get("/metrics").text
        both = served.post(COMPLETIONS, **asked, max_tokens=1, n=2).json()
        whole, counts = both["choices"], both["usage"]["prompt_tokens_details"]
        more = served.post(COMPLETIONS, **asked | {"prompt": whole[0]["text"]}, max_tokens=0).json()["choices"][0]
        tokens = {"prompt": [[5, 16], [17]], "max_tokens": 0, "echo": True, "logprobs": 0}
        choices = served.post(COMPLETIONS, **tokens).json()["choices"]
        chunks = [chunk["choices"][0] for chunk in served.chunks(COMPLETIONS, **tokens)]
        assert served.post(COMPLETIONS, **asked, max_tokens=0, suffix="x").json()["error"]["param"] == "suffix"
        assert served.post(COMPLETIONS, prompt="x", max_tokens=0).json()["error"]["param"] == "max_tokens"
    (choice,), usage = alone["choices"], alone["usage"]
    told = choice["logprobs"]
    assert choice["text"] == asked["prompt"] == "".join(told["tokens"]) and choice["finish_reason"] == "length"
    assert told["token_logprobs"][0] is told["top_logprobs"][0] is None and told["text_offset"][:3] == [0, 3, 7]
    assert all(
        max(one.values()) >= own for one, own in zip(told["top_logprobs"][1:], told["token_logprobs"][1:], strict=True)
    )
    assert counts == {"cached_tokens": 0} and usage["completion_tokens"] == 0
    assert usage["prompt_tokens"] == len(told["tokens"]) + 1  # a file's start
    assert (
        whole[0]["text"] == whole[1]["text"] and whole[0]["logprobs"]["text_offset"] == more["logprobs"]["text_offset"]
    )
    assert whole[0]["logprobs"]["token_logprobs"][:-1] == told["token_logprobs"]
    assert more["logprobs"]["token_logprobs"][1:] == pytest.approx(whole[1]["logprobs"]["token_logprobs"][1:], abs=0.01)
    assert [one["logprobs"]["tokens"] for one in choices] == [["<file_sep>", "+"], [","]]
    assert [one["text"] for one in chunks] == ["<file_sep>+", "", ",", ""]
    assert [one["index"] for one in chunks if one["finish_reason"]] == [0, 1]


def test_a_prompt_that_was_told_is_not_read_once_more_before_the_likeliest_token(tmp_path: Path) -> None:
    engine, session = make_engine(Tokenizer(write_tokenizer(tmp_path)), hashed)
    options = {"seed": 7, "temperature": 0.0, "max_tokens": 1, "logprobs": 1}  # as lm-evaluation-harness asks
    *_, last = Texts([[5, 16, 17] * 20], options, scored=True).draw(engine, None)
    assert last.finish_reason and sum(count for _, count in session.calls) == 61


def test_only_a_model_that_is_here_tells_what_its_prompts_cost(served: Served) -> None:
    answer = served.post(COMPLETIONS, prompt="Say", max_tokens=2, echo=True, logprobs=1)
    assert answer.status_code == 400 and "this model is on another server" in answer.text


def test_several_prompts_are_answered_in_their_order(served: Served, engine: ScriptedEngine) -> None:
    engine.turns += ["One.", "Two."]
    answer = served.post(COMPLETIONS, prompt=["first", "other"], n=1).json()
    assert [(one["index"], one["text"]) for one in answer["choices"]] == [(0, "One."), (1, "Two.")]
    assert engine.asked[-2:] == ["first", "other"]
    assert answer["usage"]["completion_tokens"] == 2


def test_a_suffix_makes_a_gap(served: Served, engine: ScriptedEngine) -> None:
    filled = served.post("/v1/fim/completions", prompt="def f(", suffix="): pass", random_seed=7).json()
    assert filled["choices"][0]["message"]["content"] and engine.options[-1].seed == 7
    served.post(COMPLETIONS, prompt="def f(", suffix="): pass")
    assert engine.asked[-1] == "def f(<gap>): pass"
    engine.can_infill = False
    try:
        answer = served.post(COMPLETIONS, prompt="def f(", suffix="): pass")
    finally:
        engine.can_infill = True
    assert answer.status_code == 400 and "does not support insert" in answer.json()["error"]["message"]


def test_log_probabilities_of_a_completion(served: Served) -> None:
    logprobs = served.post(COMPLETIONS, prompt="Say", logprobs=2).json()["choices"][0]["logprobs"]
    assert "".join(logprobs["tokens"]) == "One two three."
    assert logprobs["text_offset"] == [0, 3, 7, 12]
    assert all(len(one) == 2 for one in logprobs["top_logprobs"])


def test_where_a_token_begins_is_told_alike_in_a_stream_that_holds_text_back(
    served: Served, engine: ScriptedEngine
) -> None:
    engine.turns += ["<this is it"] * 2
    whole = served.post(COMPLETIONS, prompt="Say", logprobs=0).json()["choices"][0]["logprobs"]
    chunks = served.chunks(COMPLETIONS, prompt="Say", logprobs=0)
    assert [one for chunk in chunks for one in chunk["choices"][0]["logprobs"]["text_offset"]] == whole["text_offset"]


@pytest.mark.parametrize(
    ("path", "body", "param", "status"),
    [
        (CHAT, {"messages": HELLO, "temprature": 1}, "temprature", 400),
        (CHAT, {"messages": HELLO, "temperature": "hot"}, "temperature", 400),
        (CHAT, {"messages": HELLO, "temperature": -1}, "temperature", 400),
        (CHAT, {"messages": HELLO, "max_tokens": 2.5}, "max_tokens", 400),
        (CHAT, {"messages": HELLO, "top_logprobs": 21, "logprobs": True}, "top_logprobs", 400),
        (CHAT, {"messages": HELLO, "top_logprobs": 2}, "top_logprobs", 400),
        (CHAT, {"messages": HELLO, "logit_bias": {"a": 1}}, "logit_bias", 400),
        (CHAT, {"messages": HELLO, "verbosity": "low"}, "verbosity", 400),
        (CHAT, {"messages": []}, "messages", 400),
        (CHAT, {"messages": [{"role": "king", "content": "x"}]}, "messages.0.role", 400),
        (CHAT, {}, "messages", 400),
        (CHAT, {"messages": HELLO, "max_completion_tokens": 0}, "max_completion_tokens", 400),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "mood": 1}]}]},
         "messages.0.content.0.mood", 400),
        (CHAT, {"messages": HELLO, "tool_choice": {"type": "function", "function": {"nam": "x"}}},
         "tool_choice.function.name", 400),
        (CHAT, {"messages": HELLO, "stop": [1]}, "stop.0", 400),
        (CHAT, {"messages": HELLO, "Mood": 1}, "Mood", 400),
        (CHAT, {"messages": HELLO, "model": "nobody"}, "model", 404),
        (CHAT, {"messages": HELLO, "model": "../../etc/passwd"}, "model", 404),
        (CHAT, {"messages": [{"role": "user", "content": "word " * 2000}]}, "prompt", 400),
        (COMPLETIONS, {"prompt": "x", "best_of": 3}, "best_of", 400),
        (COMPLETIONS, {"prompt": ""}, "prompt", 400),
        (COMPLETIONS, {"prompt": ["a", "b"], "suffix": "c"}, "suffix", 400),
        (COMPLETIONS, {"prompt": ["a", "word " * 2000], "stream": True}, "prompt", 400),
        ("/v1/embeddings", {"input": "x"}, "model", 400),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(
    served: Served, path: str, body: dict[str, object], param: str, status: int
) -> None:
    answer = served.post(path, **body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_what_is_not_known_within_an_option_is_likened_to_what_is(served: Served) -> None:
    answer = served.post(CHAT, messages=HELLO, stream_options={"include_usag": True})
    assert answer.json()["error"]["message"].endswith("'stream_options.include_usag'; did you mean include_usage?")


def test_an_engine_that_breaks_ends_the_stream_without_its_mark(served: Served, engine: ScriptedEngine) -> None:
    engine.fail_after = 2
    try:
        *told, last = served.events(CHAT, messages=HELLO)
    finally:
        engine.fail_after = None
    assert "RuntimeError" in last and '"type":"api_error"' in last and "the runtime broke" not in last
    assert any("One" in event for event in told)
    assert served.post(CHAT, messages=HELLO).status_code == 200
