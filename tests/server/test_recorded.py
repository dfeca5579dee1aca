"""Bodies as editors and Open WebUI send them, with all the fields that they have."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.scripted_engine import ScriptedEngine
from support.served import Served, serving
from support.stand_in_home import Home

HEAD, TAIL = "def f(", "): pass"
STARCODER = f"<fim_prefix>{HEAD}<fim_suffix>{TAIL}<fim_middle>"
GAP = f"{HEAD}<gap>{TAIL}"
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine(text="One two three.", can_chat=True)


@pytest.fixture(scope="module")
def served(engine: ScriptedEngine) -> Iterator[Served]:
    with serving(Home(engine)) as served:
        yield served


@pytest.mark.parametrize(
    ("path", "body", "asked"),
    [
        ("/v1/completions", {"model": "builtin", "stream": True, "prompt": HEAD, "suffix": TAIL, "max_tokens": 256,
                             "stop": ["\n\n"], "top_p": 0.9}, GAP),
        ("/v1/completions", {"model": "builtin", "prompt": HEAD, "suffix": TAIL, "max_tokens": 64, "temperature": 0.1,
                             "stream": True, "presence_penalty": 0.0}, GAP),
        ("/v1/fim/completions", {"model": "builtin", "prompt": HEAD, "suffix": TAIL, "max_tokens": 256,
                                 "stop": ["\n\n"], "temperature": 0.01, "top_p": 0.9, "random_seed": 7,
                                 "stream": True}, GAP),
        ("/api/generate", {"model": "builtin", "prompt": STARCODER, "template": "{{ .Prompt }}", "stream": True,
                           "options": {"num_predict": 64, "temperature": 0.1, "stop": ["\n\n"], "seed": 7,
                                       "presence_penalty": 0.0}}, GAP),
        ("/api/generate", {"model": "builtin", "raw": True, "prompt": STARCODER, "keep_alive": 1800,
                           "options": {"temperature": 0.01, "num_predict": 2048, "num_ctx": 8192, "mirostat": 0,
                                       "stop": ["<fim_prefix>", "\n\n"], "num_thread": 4}}, GAP),
        ("/api/generate", {"model": "builtin", "prompt": HEAD, "suffix": TAIL, "raw": False, "keep_alive": 1800,
                           "options": {"num_predict": 64}}, GAP),
        ("/api/generate", {"model": "builtin", "prompt": STARCODER, "stream": True, "keep_alive": "5m",
                           "options": {"temperature": 0.2, "num_predict": 512}}, GAP),
        ("/completion", {"prompt": STARCODER, "n_predict": 64, "temperature": 0.1, "stream": True, "seed": 7,
                         "stop": ["\n\n"], "cache_prompt": True}, GAP),
        ("/completion", {"prompt": HEAD, "stream": True, "n_predict": 64, "temperature": 0.2, "top_p": 0.9, "top_k": 40,
                         "min_p": 0.05, "repeat_penalty": 1.1, "repeat_last_n": -1, "frequency_penalty": 0.0}, HEAD),
        ("/v1/chat/completions", {"model": "builtin", "messages": HELLO, "stream": True, "max_tokens": 99, "n": 1,
                                  "temperature": 0.1, "top_p": 1, "stream_options": {"include_usage": True},
                                  "parallel_tool_calls": False, "user": "me"}, "Be brief.\nHello"),
        ("/v1/chat/completions", {"model": "builtin", "messages": HELLO, "stream": True,
                                  "stream_options": {"include_usage": True}, "temperature": 0.7, "top_k": 20, "seed": 3,
                                  "max_tokens": 20, "stop": ["xyz"], "top_p": 0.9, "min_p": 0.05,
                                  "frequency_penalty": 0.1, "presence_penalty": 0.2, "repeat_penalty": 1.1,
                                  "num_ctx": 2048, "keep_alive": "5m", "think": False}, "Be brief.\nHello"),
        ("/v1/chat/completions", {"model": "builtin", "stream": True, "random_seed": 3, "safe_prompt": False,
                                  "messages": [*HELLO, {"role": "assistant", "content": "A", "prefix": False}]},
         "Be brief.\nHello\nA"),
        ("/api/chat", {"model": "builtin", "messages": HELLO, "stream": True, "keep_alive": "5m", "think": False,
                       "options": {"temperature": 0.7, "top_k": 20, "seed": 3, "stop": ["xyz"], "top_p": 0.9,
                                   "min_p": 0.05, "frequency_penalty": 0.1, "presence_penalty": 0.2,
                                   "repeat_penalty": 1.1, "num_ctx": 2048, "num_predict": 20}}, "Be brief.\nHello"),
        ("/api/chat", {"model": "builtin", "messages": HELLO, "temperature": 0.3, "top_p": 0.9,
                       "max_output_tokens": 200, "tool_choice": "auto"}, "Be brief.\nHello"),
        ("/api/chat", {"model": "builtin", "messages": [*HELLO, {"role": "assistant", "content": "One.",
                                                                 "reasoning_content": "Hm."}], "stream": True,
                       "keep_alive": "5m", "options": {"temperature": 0.75, "num_ctx": 20480, "keep_alive": "5m"}},
         "Be brief.\nHello\n<think>\nHm.\n</think>\n\nOne."),
    ],
    ids=["minuet", "Tabby by OpenAI", "Continue by Mistral", "Tabby by Ollama", "Continue's first", "Continue",
         "twinny by Ollama", "Tabby by llama.cpp", "twinny by llama.cpp", "a chat",
         "Open WebUI by OpenAI", "Mistral's own", "Open WebUI by Ollama", "the AI SDK by Ollama", "avante by Ollama"],
)  # fmt: skip
def test_what_a_client_sends_is_answered(
    served: Served, engine: ScriptedEngine, path: str, body: dict[str, Any], asked: str
) -> None:
    answer = served.post(path, **body)
    said = "".join(re.findall(r'"(?:text|response|content)":"([^"]*)"', answer.text))
    assert answer.status_code == 200 and said == "One two three."
    assert answer.text.endswith("\n") and engine.asked[-1] == asked


def test_the_same_request_three_times_at_once_is_answered_three_times(served: Served) -> None:
    body = {"model": "builtin", "prompt": [HEAD, HEAD, HEAD], "max_tokens": 8}
    assert len(served.post("/v1/completions", **body).json()["choices"]) == 3


def test_a_penalty_counts_by_either_name_and_a_count_takes_what_a_request_has(
    served: Served, engine: ScriptedEngine
) -> None:
    served.post("/v1/chat/completions", model="builtin", messages=HELLO, repeat_penalty=1.25, think=True)
    assert (engine.options[-1].repetition_penalty, engine.options[-1].think) == (1.25, True)
    served.post("/v1/completions", model="builtin", prompt="x", repeat_penalty=1.25, repetition_penalty=1.5)
    assert engine.options[-1].repetition_penalty == 1.5
    body = {"model": "builtin", "max_tokens": 20, "messages": [{"role": "user", "content": "x"}]}
    assert served.post("/v1/messages/count_tokens", **body).json()["input_tokens"] > 0
