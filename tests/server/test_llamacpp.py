"""llama.cpp's protocol, against a real port, with the built-in model where offers count."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import tokenizers
from tokenizers import processors

from chatapp.cli.main import main
from chatapp.generation import Options
from chatapp.generation.engine import Engine
from chatapp.workspace import Workspace
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.patience import PATIENCE
from support.scripted_engine import ScriptedEngine
from support.served import Served, serving
from support.stand_in_home import HALF, REST, Home

FIELDS = [
    *("content", "truncated", "tokens_cached"),
    *(f"timings/{name}" for name in ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "predicted_per_second")),
]
VIM: dict[str, Any] = {
    "id_slot": 0, "input_extra": [], "prompt": "", "n_predict": 128, "stop": [], "n_indent": 4, "top_k": 40,
    "samplers": ["top_k", "top_p", "infill"], "stream": False, "cache_prompt": True, "t_max_prompt_ms": 500,
    "t_max_predict_ms": 1000, "top_p": 0.9, "response_fields": FIELDS, "model": "",
}  # fmt: skip
"""What llama.vim sends with every request."""
CODE = "def add(first, second):\n    return \n\n\nprint(add(1, 2))\n"
HEAD, TAIL = CODE[: CODE.index("return ") + 7], CODE[CODE.index("return ") + 7 :]


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine(text="One two three.", can_chat=True)


@pytest.fixture(scope="module")
def served(engine: ScriptedEngine) -> Iterator[Served]:
    with serving(Home(engine)) as served:
        yield served


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Workspace(tmp_path_factory.mktemp("home"))) as served:
        yield served


def test_infill_offers_what_complete_offers(real: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, path = HEAD.splitlines(), tmp_path / "a.py"
    path.write_text(CODE)
    prefix, prompt = HEAD[: HEAD.rindex("\n") + 1], lines[-1]
    for stop, option in (([], ["--multiline"]), (["\n"], [])):
        body = {**VIM, "input_prefix": prefix, "prompt": prompt, "input_suffix": TAIL, "stop": stop}
        text = real.post("/infill", **body).text
        assert (
            re.match(r"\s*\{", text) and re.search(r'"content"\s*:"', text) and "\n" not in text
        )  # as llama.vim looks
        assert main(["complete", "builtin", str(path), "--at", f"{len(lines)}:{len(prompt) + 1}", *option]) == 0
        assert json.loads(text)["content"] == capsys.readouterr().out.removesuffix("\n") != ""


def test_infill_has_just_the_fields_that_are_asked_for(real: Served) -> None:
    body = {**VIM, "input_prefix": HEAD, "input_suffix": TAIL}
    assert set(real.post("/infill", **body).json()) == set(FIELDS)
    del body["response_fields"]
    whole = real.post("/infill", **body).json()
    assert whole["timings"]["predicted_n"] and whole["generation_settings"]["n_ctx"] == 1024
    assert isinstance(real.post("/infill", **body | {"n_cmpl": 2}).json(), list)


def test_a_warm_up_reads_and_says_nothing(real: Served) -> None:
    extra = [{"filename": "other.py", "text": "def other(): pass", "time": [1, 2]}]
    body = {**VIM, "n_predict": 0, "samplers": [], "input_extra": extra, "response_fields": [""]}
    assert real.post("/infill", **body | {"input_prefix": HEAD, "input_suffix": ""}).json() == {}


def test_other_files_have_offers(served: Served, engine: ScriptedEngine) -> None:
    engine.turns.append("")
    extra = [{"filename": "other.py", "text": HALF[: HALF.index("\n") + 1]}]
    begun = HALF[HALF.index("\n") + 1 :]
    body = {**VIM, "input_extra": extra, "prompt": begun, "input_prefix": "", "input_suffix": "", "stop": ["\n"]}
    assert served.post("/infill", **body).json()["content"] == REST


def test_infill_draws_where_a_temperature_is_given(served: Served, engine: ScriptedEngine) -> None:
    body = {"input_prefix": "def f(", "input_suffix": "): pass", "temperature": 0.5, "n_predict": 9}
    assert served.post("/infill", **body).json()["content"] == "One two three."
    assert engine.asked[-1] == "def f(<gap>): pass" and engine.options[-1].temperature == 0.5
    events = [json.loads(event) for event in served.events("/infill", **body)]
    assert "".join(event["content"] for event in events) == "One two three." and events[-1]["stop"]


def test_a_model_without_gaps_says_so(served: Served, engine: ScriptedEngine) -> None:
    engine.can_infill = False
    try:
        answer = served.post("/infill", **VIM)
    finally:
        engine.can_infill = True
    error = answer.json()["error"]
    assert answer.status_code == error["code"] == 501 and error["type"] == "not_supported_error"


def test_a_completion_in_events_and_as_a_whole(served: Served, engine: ScriptedEngine) -> None:
    events = [json.loads(event) for event in served.events("/completion", prompt="Say", n_predict=3)]
    assert all({"content", "stop"} <= set(event) for event in events)
    assert "".join(event["content"] for event in events) == "One two thre" and events[-1]["stop_type"] == "limit"
    whole = served.post("/completion", prompt="Say", n_predict=-1, n_probs=2, logit_bias=[[5, False], [6, 1]]).json()
    assert whole["content"] == "One two three." and whole["stop_type"] == "eos"
    assert len(whole["completion_probabilities"]) == len(whole["tokens"]) == whole["tokens_predicted"] == 4
    assert engine.options[-1].logit_bias == {5: float("-inf"), 6: 1}
    served.post("/completion", prompt="Say", json_schema={}, mirostat=2)
    assert (engine.options[-1].json_schema, engine.options[-1].mirostat_tau) == ("{}", 5.0)
    served.post("/completion", prompt="Say", mirostat=0, mirostat_tau=5.0, mirostat_eta=0.1)
    assert engine.options[-1].mirostat_tau == Options().mirostat_tau
    both = served.post("/completion", prompt=["a", "b"]).json()
    assert [one["index"] for one in both] == [0, 1]


def test_no_event_has_what_only_whole_answers_are_made_of(served: Served) -> None:
    last = json.loads(served.events("/completion", prompt="Say", n_predict=3)[-1])
    whole = served.post("/completion", prompt="Say", n_predict=3).json()
    assert set(last) | {"index", "tokens"} == set(whole)


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
def test_others_are_answered_while_a_long_text_is_cut_and_joined(
    real: Served, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert real.post("/tokenize", content="a").status_code == 200  # the model is open
    engine = real.service.models.open["builtin"].engine
    assert isinstance(engine, Engine)
    begun, go = threading.Event(), threading.Event()

    def wait(*given: object) -> str:
        begun.set()
        assert go.wait(PATIENCE)
        return ""

    monkeypatch.setattr(engine, "text_of", wait)
    body = {"content": "a", "with_pieces": True} if path == "/tokenize" else {"tokens": [5]}
    asking = threading.Thread(target=real.post, args=(path,), kwargs=body)
    asking.start()
    assert begun.wait(PATIENCE)
    try:
        assert httpx2.get(f"http://127.0.0.1:{real.port}/health", timeout=PATIENCE, trust_env=False).status_code == 200
    finally:
        go.set()
        asking.join()


def test_tokens_there_and_back(real: Served) -> None:
    text = "def größer(a):\n    return '🙂'"
    tokens = real.post("/tokenize", content=text).json()["tokens"]
    assert real.post("/detokenize", tokens=tokens).json()["content"] == text
    pieces = real.post("/tokenize", content="def add", with_pieces=True).json()["tokens"]
    assert [one["piece"] for one in pieces] == ["def", " add"]
    plain = real.post("/tokenize", content="<fim_prefix>").json()["tokens"]
    assert len(plain) > 1 == len(real.post("/tokenize", content="<fim_prefix>", parse_special=True).json()["tokens"])


def test_what_a_tokenizer_puts_before_a_text_is_told_where_it_is_wanted(
    tmp_path: Path, checkpoint: MakeCheckpoint
) -> None:
    path = checkpoint("tiny") / "tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.post_processor = processors.TemplateProcessing("! $A", special_tokens=[("!", 7)])
    tokenizer.save(str(path))
    Store(tmp_path / "home" / "models").get(str(path.parent))
    with serving(Workspace(tmp_path / "home"), models=("tiny",)) as served:
        told = [
            served.post("/tokenize", content="def<|endoftext|>", add_special=special, parse_special=parse).json()
            for parse in (False, True)
            for special in (False, True)
        ]
    letters, framed, marked, both = (one["tokens"] for one in told)
    assert len(letters) > len(marked) > 1
    assert framed == [7, *letters] and both == [7, *marked]


@pytest.mark.parametrize("token", [8192, -1, 2**40])
def test_a_number_that_is_no_token_is_refused(real: Served, token: int) -> None:
    for path, name in (("/detokenize", "tokens"), ("/completion", "prompt")):
        error = real.post(path, **{name: [5, token]}).json()["error"]
        assert error["param"] == name and f"{name} has {token}; this model's tokens are 0 to 8,191" in error["message"]


def test_the_template_is_applied(served: Served) -> None:
    prompt = served.post("/apply-template", messages=[{"role": "user", "content": "Hi"}]).json()["prompt"]
    assert prompt == "<|user|>Hi\n<|assistant|>"


def test_clients_find_the_length_of_the_context(served: Served) -> None:
    assert served.get("/health").json() == {"status": "ok"}
    properties = served.get("/props?model=builtin&autoload=false").json()
    assert properties["default_generation_settings"]["n_ctx"] == 1024 and properties["total_slots"] == 8
    assert properties["model_path"] == "builtin"
    assert len(served.get("/slots").json()) == 8


def test_what_llama_server_answers_without_a_version_is_answered(served: Served) -> None:
    said = served.post("/chat/completions", messages=[{"role": "user", "content": "Hi"}]).json()
    assert said["choices"][0]["message"]["content"]
    assert served.get("/models").json() == served.get("/v1/models").json()


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/completion", {"prompt": "x", "grammar": "root ::= x"}, "grammar"),
        ("/completion", {"prompt": "x", "ignore_eos": True}, "ignore_eos"),
        ("/completion", {"prompt": ""}, "prompt"),
        ("/completion", {"prompt": "x", "logit_bias": [["a", 1]]}, "logit_bias"),
        ("/completion", {"prompt": "x", "mirostat": 1}, "mirostat"),
        (
            "/apply-template",
            {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": False},
            "add_generation_prompt",
        ),
        ("/infill", {"input_prefx": "x"}, "input_prefx"),
    ],
)
def test_what_cannot_be_is_refused_by_name(served: Served, path: str, body: dict[str, object], param: str) -> None:
    answer = served.post(path, **body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
