"""Serving under load and attack: places, limits, clients that leave, bytes that are no requests, the end."""

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chatapp.generation import PromptTooLong
from chatapp.generation.engine import Engine
from chatapp.server import connections
from chatapp.server.bodies import parse
from chatapp.server.openai_chat import ChatRequest
from chatapp.server.queue import FairQueue
from chatapp.server.refusals import Refusal, explain
from chatapp.server.settings import ServerSettings
from chatapp.text.errors import UsageError
from chatapp.workspace import Opened, Workspace
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.patience import PATIENCE, until
from support.scripted_engine import ScriptedEngine
from support.served import Served, running, serving
from support.stand_in_home import Home

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Hello"}]
LINES = b"Host: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(Home(ScriptedEngine(text="One two three.", can_chat=True)), max_body=10_000, max_tokens=50) as served:
        yield served


def post(body: bytes, *, path: str = CHAT, more: bytes = b"") -> bytes:
    """A request as bytes."""
    return b"POST %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s" % (path.encode(), LINES, more, len(body), body)


# Places


async def test_the_client_that_has_the_fewest_places_is_next() -> None:
    queue, order = FairQueue(2, 10, 5), list[str]()

    async def ask(client: str, name: str) -> None:
        await queue.enter(client)
        order.append(name)

    await ask("greedy", "g1")
    await ask("greedy", "g2")
    tasks = [asyncio.create_task(ask("greedy", f"g{number}")) for number in (3, 4)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(ask(client, client)) for client in ("b", "c")]
    await asyncio.sleep(0)
    for client in ("greedy", "greedy", "b", "c"):
        queue.leave(client)
        for _ in range(5):
            await asyncio.sleep(0)
    assert order == ["g1", "g2", "b", "g3", "c", "g4"]
    assert queue.answering == 2 and queue.waiting == 0
    await asyncio.wait(tasks)


async def test_who_gives_up_waiting_leaves_no_trace() -> None:
    queue = FairQueue(1, 1, 5)
    await queue.enter("a")
    waiting = asyncio.create_task(queue.enter("b"))
    await asyncio.sleep(0)
    with pytest.raises(Refusal) as caught:
        await queue.enter("c")
    assert caught.value.status == 429 and caught.value.retry_after
    waiting.cancel()
    await asyncio.wait({waiting})
    assert queue.waiting == 0
    queue.leave("a")
    assert queue.answering == 0
    await queue.enter("c")


async def test_a_place_that_does_not_come_is_not_waited_for_for_ever() -> None:
    queue = FairQueue(1, 1, 0.0)
    await queue.enter("a")
    with pytest.raises(Refusal) as caught:
        await queue.enter("b")
    assert caught.value.status == 503 and queue.waiting == 0


async def test_nobody_is_let_in_at_the_end() -> None:
    queue = FairQueue(1, 1, 5)
    queue.draining = True
    with pytest.raises(Refusal) as caught:
        await queue.enter("a")
    assert caught.value.status == 503 and caught.value.retry_after


# Limits


def test_a_body_that_is_too_long_is_refused_unread(served: Served) -> None:
    head = b"POST %s HTTP/1.1\r\n%sContent-Length: 99999999\r\n\r\n" % (CHAT.encode(), LINES)
    assert served.exchange(head).startswith(b"HTTP/1.1 413")
    chunked = b"POST %s HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n" % (CHAT.encode(), LINES)
    assert served.exchange(chunked + b"2711\r\n" + b" " * 10_001 + b"\r\n").startswith(b"HTTP/1.1 413")


def test_more_tokens_than_the_server_gives_are_refused_by_name(served: Served) -> None:
    answer = served.post(CHAT, messages=HELLO, max_tokens=51)
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "max_tokens")
    served.post(CHAT, messages=HELLO)
    engine = served.service.models.open["builtin"].engine
    assert isinstance(engine, ScriptedEngine) and engine.options[-1].max_tokens == 50


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/v1/responses", {"input": "x", "max_output_tokens": 51}, "max_output_tokens"),
        (CHAT, {"messages": HELLO, "max_completion_tokens": 51}, "max_completion_tokens"),
        ("/api/chat", {"messages": HELLO, "options": {"num_predict": 51}}, "num_predict"),
        ("/completion", {"prompt": "x", "typ_p": 2}, "typ_p"),
        ("/v1/messages", {"messages": HELLO, "max_tokens": 5, "stop_sequences": [""]}, "stop_sequences"),
        (CHAT, {"messages": HELLO, "stop": [""]}, "stop"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_option_is_called_as_it_was_sent(served: Served, path: str, body: dict[str, object], name: str) -> None:
    answer = served.post(path, model="builtin", **body)
    assert answer.status_code in (400, 422) and re.search(rf"\b{name} (is|must be) ", answer.text), answer.text


def test_a_long_prompt_is_refused_where_the_server_reads_less() -> None:
    with serving(Home(ScriptedEngine(can_chat=True)), max_prompt=3) as served:
        assert served.post(CHAT, messages=HELLO).status_code == 200
        answer = served.post(CHAT, messages=[{"role": "user", "content": "a b c d e f"}])
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "context_length_exceeded"
    assert explain(PromptTooLong(12, 9)).message.endswith("This model's maximum context length is 9 tokens.")


def test_what_stands_before_a_text_counts_as_part_of_the_prompt(tmp_path: Path) -> None:
    with serving(Workspace(tmp_path / "home"), max_prompt=20) as served:
        short, long = (served.post("/v1/completions", prompt="import os" * n, max_tokens=1) for n in (9, 10))
        assert short.json()["usage"]["prompt_tokens"] == 19
        assert long.status_code == 400 and "has 21 tokens" in long.json()["error"]["message"]


def test_around_a_gap_no_more_is_read_than_the_server_reads(tmp_path: Path) -> None:
    before, behind = "x = 1\n" * 200, "y = 2\n" * 200
    with serving(Workspace(tmp_path / "home"), max_prompt=40) as served:
        drawn = served.post("/v1/completions", prompt=before, suffix=behind, max_tokens=1).json()
        assert 20 < drawn["usage"]["prompt_tokens"] <= 40
        offered = served.post("/infill", input_prefix=before, input_suffix=behind, prompt="z", stop=["\n"])
        assert offered.status_code == 200
        (loaded,) = served.service.models.open.values()
        assert isinstance(loaded.engine, Engine) and 20 < loaded.engine.session.length <= 40


def test_a_full_queue_says_when_to_come_again() -> None:
    engine = ScriptedEngine(text="One two three.", can_chat=True, pause_after=1)
    with serving(Home(engine), places=1, queue=1) as served:
        threads = [threading.Thread(target=served.post, args=(CHAT,), kwargs={"messages": HELLO}) for _ in range(2)]
        for number, thread in enumerate(threads, 1):
            thread.start()
            until(lambda: served.service.queue.answering + served.service.queue.waiting >= number)  # noqa: B023
        answer = served.post(CHAT, messages=HELLO)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0
        assert answer.json()["error"]["type"] == "rate_limit_error"
        engine.go.set()
        for thread in threads:
            thread.join()


def test_an_answer_that_takes_too_long_ends() -> None:
    engine = ScriptedEngine(text="word " * 200, can_chat=True, delay=0.01)
    with serving(Home(engine), timeout=1.0) as served:  # long enough for a first word
        *_, last = served.events(CHAT, messages=HELLO)
        assert json.loads(last)["error"]["code"] == "timeout"
        assert engine.closed == 1 and not engine.busy
        served.service.settings = replace(served.service.settings, timeout=0.01)
        whole = served.post(CHAT, messages=HELLO)
        assert (whole.status_code, whole.headers["x-should-retry"], "retry-after" in whole.headers) == (
            504,
            "false",
            False,
        )
    with pytest.raises(UsageError, match="--timeout 0"):
        ServerSettings(timeout=0)
    with pytest.raises(UsageError, match="--memory 0"):
        ServerSettings(memory=0)


def test_an_open_model_answers_while_another_is_opened(tmp_path: Path, checkpoint: MakeCheckpoint) -> None:
    go = threading.Event()

    class Slow(Home):
        def open_model(self, name: str, *given: Any, **more: Any) -> Opened:  # Any: passed on
            if name == "tiny":
                go.wait(PATIENCE)
            return super().open_model(name, *given, **more)

    home = Slow(ScriptedEngine(text="One two three.", can_chat=True))
    home.home = tmp_path / "home"
    Store(home.home / "models").get(str(checkpoint("tiny")))
    with running(home, ServerSettings(port=0)) as served:
        served.post(CHAT, model="builtin", messages=HELLO)
        asking = threading.Thread(target=served.post, args=(CHAT,), kwargs={"model": "tiny", "messages": HELLO})
        asking.start()
        until(served.service.models.opening.locked)
        assert served.post(CHAT, model="builtin", messages=HELLO).status_code == 200
        assert served.service.models.opening.locked() and "tiny" not in served.service.models.open
        go.set()
        asking.join()
        assert [*served.service.models.open] == ["builtin", "tiny"]


# Clients that leave


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_place(stream: bool) -> None:
    engine = ScriptedEngine(text="word " * 5000, can_chat=True, context_length=100_000, delay=0.001)
    with serving(Home(engine), places=1) as served:
        body = json.dumps({"messages": HELLO, "stream": stream}).encode()
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(post(body))
            until(lambda: engine.busy)
        engine.delay = 0.0
        assert served.post(CHAT, messages=HELLO, max_tokens=3).status_code == 200
        until(lambda: any(" 499 " in line for line in served.said) and not served.service.queue.answering)


# Bytes that are no requests


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"messages": "\xff\xfe"}', b"[" * 5000, b'{"a":' * 2000, b"null", b"[]", b'"x"', b"NaN", b"\x00" * 100],
    ids=["cut", "not UTF-8", "deep list", "deep object", "null", "list", "text", "NaN", "zeros"],
)
def test_what_is_no_body_is_refused(served: Served, body: bytes) -> None:
    answer = served.client.post(CHAT, content=body)
    assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"
    packed = served.client.post(CHAT, content=body, headers={"content-encoding": "gzip"})
    assert packed.status_code == 415 and "gzip" in packed.text


def test_a_body_of_too_many_values_is_refused_before_each_is_looked_at() -> None:
    for body, status in ((b"0," * 250_000, 413), (b'"%s"' % (b',\\"' * 250_000), 400)):
        with pytest.raises(Refusal) as caught:
            parse(ChatRequest, b'{"messages": [%s]}' % body)
        assert caught.value.status == status


@pytest.mark.parametrize(
    "sent",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n Folded: x\r\nA : b\r\n\r\n",
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["HTTP/2", "TLS", "two hosts", "no host", "two lengths", "negative", "encodings", "space", "long"],
)
def test_what_is_no_request_is_refused(served: Served, sent: bytes) -> None:
    answer = served.exchange(sent)
    assert answer[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 501 ") or (not answer and len(sent) > 100_000)
    assert served.get("/v1/models").status_code == 200


def test_what_looks_whether_it_is_there_needs_no_host_in_http_1_0(served: Served) -> None:
    assert served.exchange(b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert served.exchange(b"GET /health HTTP/1.0\r\nOrigin: http://a.example\r\n\r\n").startswith(b"HTTP/1.1 403")


def test_a_head_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SLOW_HEAD", 0.2)
    with serving(Home(ScriptedEngine())) as served:
        for before in b"", b"GET /health HTTP/1.1\r\n" + LINES + b"\r\n":
            began = time.monotonic()
            served.exchange(before + b"GET /health HT")
            assert time.monotonic() - began < 50  # what is kept alive without a head is, for a longer time


def test_a_smuggled_request_is_not_answered(served: Served) -> None:
    inner = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    both = LINES + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(inner))
    answer = served.exchange(b"POST /v1/completions HTTP/1.1\r\n" + both + inner)
    assert answer.startswith(b"HTTP/1.1 400") and b'"object":"list"' not in answer


def test_an_upgrade_is_answered_as_if_it_had_not_been_asked_for(served: Served) -> None:
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    answer = served.exchange(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + upgrade)
    assert answer.startswith(b"HTTP/1.1 200") and b"101" not in answer.split(b"\r\n")[0]


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "~", "a\u0000b", "C:\\x", "%2e%2e/x", "x" * 5000, "\u202e", "."]
)
def test_a_path_is_no_name_of_a_model(served: Served, name: str) -> None:
    answer = served.post(CHAT, model=name, messages=HELLO)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_a_refusal_is_logged_once_and_without_the_prompt(served: Served) -> None:
    served.post(CHAT, messages=[{"role": "user", "content": "a secret"}], tempature=1)
    served.get("/marks/the/end")  # on the same connection, which is answered in order; a line comes after its answer
    until(lambda: any("/marks/the/end" in line for line in served.said))
    (line,) = (line for line in served.said if "tempature" in line)
    assert line.startswith(f"POST {CHAT} 400") and not any("secret" in line for line in served.said)


def test_what_is_asked_is_logged_where_that_is_wanted_and_nothing_where_nothing_is() -> None:
    with serving(Home(ScriptedEngine()), log_requests=True) as logging:
        logging.get("/health")
        logging.post("/v1/completions", prompt="import os")
        until(lambda: any("POST" in line for line in logging.said))
        assert any('"prompt":"import os"' in line for line in logging.said) and all(logging.said)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("TRACE", "/v1/models", "GET, HEAD"), ("GET", CHAT, "POST"), ("OPTIONS", "/api/delete", "DELETE")],
)
def test_a_method_that_a_path_lacks_is_refused_with_those_that_it_has(
    served: Served, method: str, path: str, allowed: str
) -> None:
    answer = served.client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed) and allowed in answer.text


# Figures


def test_figures_for_prometheus(served: Served) -> None:
    served.post(CHAT, messages=HELLO)
    until(lambda: 'route="/v1/chat/completions",status="200"' in served.get("/metrics").text)
    text = served.get("/metrics").text
    assert 'chatapp_requests_total{method="POST",route="/v1/chat/completions",status="200"}' in text
    assert 'chatapp_time_to_first_token_seconds_count{model="builtin"}' in text
    assert 'chatapp_token_seconds_bucket{le="0.02",model="builtin"}' in text
    assert "_created" not in text and "chatapp_requests_waiting 0.0" in text and "chatapp_model_memory_bytes{" in text


def test_every_endpoint_is_described(served: Served) -> None:
    described = served.get("/openapi.json").json()
    body = described["paths"][CHAT]["post"]["requestBody"]["content"]["application/json"]["schema"]
    schema = described["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    assert schema["required"] == ["messages"] and schema["additionalProperties"] is False
    assert {"temperature", "xtc_probability", "max_completion_tokens"} <= set(schema["properties"])
    references = re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(described))
    assert set(references) == set(described["components"]["schemas"])
    ollama, triton = (
        described["paths"][path]["post"]["requestBody"] for path in ("/api/generate", "/v2/models/{model}/generate")
    )
    assert ollama["content"] != triton["content"] and (ollama["required"], triton["required"]) == (False, True)


# The end


def test_at_the_end_what_is_being_answered_ends_and_nobody_is_let_in() -> None:
    engine = ScriptedEngine(text="One two three.", can_chat=True, pause_after=1)
    with serving(Home(engine)) as served:
        answers = list[int]()
        asking = threading.Thread(target=lambda: answers.append(served.post(CHAT, messages=HELLO).status_code))
        asking.start()
        until(lambda: engine.busy)
        served.server.handle_exit(15, None)
        engine.go.set()
        asking.join()
    assert answers == [200]


def test_an_answer_that_does_not_end_in_time_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    engine = ScriptedEngine(text="word " * 200, can_chat=True, delay=0.05)
    with serving(Home(engine), drain=0) as served:
        answers = list[Any]()
        asking = threading.Thread(target=lambda: answers.append(served.post(CHAT, messages=HELLO)))
        asking.start()
        until(lambda: engine.busy)
        served.server.handle_exit(15, None)
        asking.join()
    (answer,) = answers
    assert answer.status_code == 503 and "the server stopped" in answer.json()["error"]["message"]
    assert " 503 " in served.said[-1] and "ASGI" not in caplog.text
