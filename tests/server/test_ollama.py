"""Ollama's protocol, against a real port."""

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from chatapp.server.ollama import read_keep_alive
from chatapp.server.ollama_models import read_reference
from chatapp.workspace import Workspace
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.scripted_engine import ScriptedEngine
from support.served import Served, serving
from support.stand_in_home import Home

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine(text="One two three.", can_chat=True, thinking_choices=(False, True))


@pytest.fixture(scope="module")
def served(engine: ScriptedEngine) -> Iterator[Served]:
    with serving(Home(engine)) as served:
        yield served


def lines(served: Served, path: str, **body: Any) -> list[Any]:
    """The lines of a stream, each of which has its end."""
    text = served.post(path, **body).text
    assert text.endswith("\n") and "\n\n" not in text
    return [json.loads(line) for line in text.splitlines()]


def test_clients_find_out_that_it_runs(served: Served) -> None:
    assert served.get("/").text == "Ollama is running"
    assert served.client.head("/").status_code == 200
    assert [int(part) for part in served.get("/api/version").json()["version"].split(".")] >= [0, 6, 4]


def test_a_chat_streams_lines_unless_told_otherwise(served: Served) -> None:
    *parts, last = lines(served, "/api/chat", model="builtin:latest", messages=HELLO)
    assert "".join(part["message"]["content"] for part in parts) == "One two three."
    assert not any(part["done"] for part in parts) and last["done"] and last["done_reason"] == "stop"
    assert last["eval_count"] == 4 and last["prompt_eval_count"] == 2 and last["eval_duration"] > 0
    whole = served.post("/api/chat", model="builtin:latest", messages=HELLO, stream=False).json()
    assert whole["message"] == {"role": "assistant", "content": "One two three."} and whole["model"] == "builtin:latest"


def test_options_arrive_by_their_names_here(served: Served, engine: ScriptedEngine) -> None:
    chosen = {"num_predict": 3, "repeat_penalty": 1.5, "seed": -1, "stop": ["x"], "num_ctx": 4096, "top_k": 5}
    served.post("/api/chat", messages=HELLO, options=chosen, think=False)
    options = engine.options[-1]
    assert (options.max_tokens, options.repetition_penalty, options.seed) == (3, 1.5, None)
    assert (options.stop, options.top_k, options.think) == (("x",), 5, False)
    served.post("/api/generate", prompt="x", options={"top_k": 40.0, "mirostat_tau": 5.0, "dry_multiplier": 0.5})
    assert (engine.options[-1].top_k, engine.options[-1].dry_multiplier, engine.options[-1].mirostat_tau) == (
        40,
        0.5,
        0,
    )
    served.post("/api/chat", messages=[*HELLO, {"role": "assistant", "content": None}], think="high")
    assert engine.options[-1].think == "high"
    served.post("/api/chat", messages=HELLO, top_k=7, min_p=0.25, max_output_tokens=2, options={"top_k": 5})
    assert (engine.options[-1].top_k, engine.options[-1].min_p, engine.options[-1].max_tokens) == (5, 0.25, 2)


def test_thinking_has_a_field_of_its_own(served: Served, engine: ScriptedEngine) -> None:
    engine.turns.append("<think>\nHm.\n</think>\n\nYes.")
    message = served.post("/api/chat", messages=HELLO, stream=False).json()["message"]
    assert message["content"] == "Yes." and message["thinking"].strip() == "Hm."


def test_a_base_model_goes_on_with_a_prompt_as_it_is(served: Served, engine: ScriptedEngine) -> None:
    *parts, last = lines(served, "/api/generate", prompt="Say")
    assert "".join(part["response"] for part in parts) == "One two three." and last["done"]
    assert engine.asked[-1] == "Say"


def test_a_suffix_makes_a_gap(served: Served, engine: ScriptedEngine) -> None:
    served.post("/api/generate", prompt="def f(", suffix="): pass", stream=False)
    assert engine.asked[-1] == "def f(<gap>): pass"


@pytest.mark.parametrize(
    "prompt",
    [
        "<fim_prefix>def f(<fim_suffix>): pass<fim_middle>",
        "<|fim_prefix|>def f(<|fim_suffix|>): pass<|fim_middle|>",
        "<PRE> def f( <SUF>): pass <MID>",
        "[SUFFIX]): pass[PREFIX]def f(",
    ],
)
def test_a_gap_that_a_client_spells_as_another_model_has_it_is_filled(
    served: Served, engine: ScriptedEngine, prompt: str
) -> None:
    served.post("/api/generate", prompt=prompt, raw=True, stream=False)
    assert engine.asked[-1] == "def f(<gap>): pass"


def test_control_tokens_of_a_raw_prompt_count(served: Served, engine: ScriptedEngine) -> None:
    served.post("/api/generate", prompt="<|user|>Hello<|assistant|>", raw=True, stream=False)
    assert engine.asked[-1] == "<|user|>Hello<|assistant|>"  # as it came back from tokens


def test_nothing_to_say_opens_a_model_and_closes_it(served: Served) -> None:
    (opened,) = lines(served, "/api/generate", model="builtin", keep_alive="5m")
    assert opened["done_reason"] == "load"
    (model,) = served.get("/api/ps").json()["models"]
    assert model["name"] == "builtin" and model["context_length"] == 1024 and model["expires_at"]
    assert served.post("/api/chat", messages=[], keep_alive=0, stream=False).json()["done_reason"] == "unload"
    assert served.get("/api/ps").json()["models"] == []


def test_a_model_that_the_command_line_names_stays_whatever_a_client_says(engine: ScriptedEngine) -> None:
    with serving(Home(engine), models=("builtin",)) as served:
        assert served.post("/api/chat", messages=HELLO, keep_alive=0).status_code == 200
        refused = served.post("/api/generate", keep_alive=0)
        assert refused.json()["param"] == "keep_alive" and served.get("/api/ps").json()["models"]


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("5m", 300),
        ("5m0s", 300),
        ("1h30m0s", 5400),
        ("1.5h", 5400),
        ("90", 90),
        (7, 7),
        ("0s", 0),
        ("-1s", inf),
        (-1, inf),
    ],
)
def test_durations_are_read_as_go_writes_them(told: str | int, seconds: float) -> None:
    assert read_keep_alive(told) == pytest.approx(seconds)


def test_a_model_is_shown_as_clients_look_for_it(served: Served) -> None:
    shown = served.post("/api/show", name="builtin").json()
    assert ".Suffix" in shown["template"] and "insert" in shown["capabilities"]
    info = shown["model_info"]
    assert info[f"{info['general.architecture']}.context_length"] == 1024
    (tag,) = served.get("/api/tags").json()["models"]
    assert tag["name"] == tag["model"] == "builtin" and tag["details"]["family"] == info["general.architecture"]


@pytest.mark.parametrize(
    ("path", "body", "param", "status"),
    [
        ("/api/chat", {"messages": HELLO, "options": {"temprature": 1}}, "options.temprature", 400),
        ("/api/chat", {"messages": HELLO, "options": {"repeat_last_n": 64, "repeat_penalty": 2}}, "repeat_last_n", 400),
        ("/api/chat", {"messages": HELLO, "format": "xml"}, "format", 400),
        ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, "images", 400),
        ("/api/chat", {"messages": HELLO, "model": "nobody"}, "model", 404),
        ("/api/chat", {"messages": HELLO, "keep_alive": "soon"}, "keep_alive", 400),
        ("/api/chat", {"messages": HELLO, "keep_alive": "5m0"}, "keep_alive", 400),
        ("/api/chat", {"messages": HELLO, "options": {"num_predict": 0}}, "num_predict", 400),
        ("/api/pull", {"model": "org/x", "username": "me", "password": "secret"}, "username", 400),
        ("/api/pull", {"model": "../x", "username": "", "password": ""}, "model", 400),
        ("/api/generate", {"prompt": "x", "context": [1, 2]}, "context", 400),
        ("/api/generate", {"prompt": "x", "template": "{{ .System }}"}, "template", 400),
        ("/api/embed", {"model": "builtin", "input": "x"}, "model", 400),
        ("/api/create", {"model": "x", "from": "y"}, None, 400),
        ("/api/pull", {"model": "http://evil.example/x"}, "model", 400),
        ("/api/pull", {"model": "../x"}, "model", 400),
        ("/api/pull", {"model": "nosuchmodel"}, "model", 404),
        ("/api/pull", {"model": "registry.example/a/b/c"}, "model", 400),
        ("/api/copy", {"source": "builtin", "destination": "../x"}, "destination", 400),
    ],
)
def test_what_cannot_be_is_refused(
    served: Served, path: str, body: dict[str, object], param: str | None, status: int
) -> None:
    answer = served.post(path, **body)
    assert (answer.status_code, answer.json().get("param")) == (status, param)
    assert isinstance(answer.json()["error"], str)


def test_a_tag_is_a_size_of_the_catalogue_or_a_quantisation() -> None:
    assert read_reference("smollm2:360m-instruct") == "smollm2-360m-instruct"
    assert read_reference("hf.co/org/x-GGUF:Q4_K_M") == "org/x-GGUF:Q4_K_M"
    assert read_reference("huggingface.co/org/x-GGUF:latest") == "org/x-GGUF"


def test_models_are_copied_and_deleted(tmp_path: Path, checkpoint: MakeCheckpoint) -> None:
    Store(tmp_path / "home" / "models").get(str(checkpoint("tiny")))
    with serving(Workspace(tmp_path / "home")) as served:
        assert served.post("/api/copy", source="tiny", destination="other").status_code == 200
        assert served.post("/api/generate", model="other", prompt="x", options={"num_predict": 2}).status_code == 200
        assert {one["name"] for one in served.get("/api/tags").json()["models"]} == {"builtin", "tiny", "other"}
        for nothing in ({}, {"model": " "}):
            assert served.client.request("DELETE", "/api/delete", json=nothing).status_code == 400
        assert served.post("/api/copy", source="", destination="third").status_code == 400
        assert served.post("/api/copy", source="tiny", destination="org--x--Q8_0").status_code == 200
        assert served.post("/api/show", model="hf.co/org/x:q8_0").status_code == 200
        assert served.client.request("DELETE", "/api/delete", json={"model": "builtin"}).status_code == 400
        assert served.post("/api/generate", model="other", prompt="x", think=True).json()["param"] == "think"
        assert served.client.request("DELETE", "/api/delete", json={"name": "other"}).status_code == 200
        assert served.client.request("DELETE", "/api/delete", json={"name": "other"}).status_code == 404
        assert served.get("/api/ps").json()["models"] == []
