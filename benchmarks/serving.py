"""What HTTP adds to a token of `chatapp serve`, and the tokens a second of eight clients beside those of one.

Clients are bare sockets, which take next to nothing of the processor, and all that is compared takes turns. Another
server that speaks OpenAI's completions, and has the same model, takes turns too where its address is given.
"""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models import END_OF_TEXT
from tokenizers import Tokenizer

CLIENTS = 8


@contextmanager
def serving(model: str, *options: str) -> Iterator[tuple[str, int]]:
    """A server in a process of its own: its address and its number."""
    command = [sys.executable, "-m", "chatapp", "serve", model, "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        lines = iter(process.stderr.readline, "")
        found = next((found for line in lines if (found := re.search(r"http://([\d.:]+)", line))), None)
        if not found or not any(" opened " in line for line in lines):
            raise SystemExit(f"the server of {model} did not start: exit code {process.wait()}")
        threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop it
        try:
            yield found[1], process.pid
        finally:
            process.terminate()


def ask(address: str, body: dict[str, Any]) -> bytes:
    """All that comes back for a body, after the head."""
    content = json.dumps(body).encode()
    host, _, port = address.rpartition(":")
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    )
    with socket.create_connection((host, int(port)), 600) as connection:
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    if b" 200 " not in answer.split(b"\r\n")[0]:
        raise SystemExit(f"{address} refused: {answer.decode(errors='replace')}")
    return answer.partition(b"\r\n\r\n")[2]


def prompt(place: int) -> str:
    """A text that begins unlike every other."""
    return f"{place} def add(first, second):\n    return "


def rate(address: str, body: dict[str, Any], clients: int) -> float:
    """Tokens a second of so many clients at once, each of which has its answer streamed."""
    written: list[int] = []
    streamed = {"stream": True, "stream_options": {"include_usage": True}}

    def count(place: int) -> None:
        usage = ask(address, {**body, "prompt": prompt(place), **streamed}).split(b"data: ")[-2].partition(b"\r\n")[0]
        written.append(json.loads(usage)["usage"]["completion_tokens"])

    threads = [threading.Thread(target=count, args=(place,)) for place in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(written) < clients:
        raise SystemExit(f"{clients - len(written)} of {clients} clients of {address} had no answer")
    return sum(written) / (time.perf_counter() - start)


def spent(process: int) -> float:
    """Milliseconds of the processor that the thread of a server's connections took so far; Linux tells."""
    return int(Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()[0]) / 1e6


def overhead(address: str, process: int, body: dict[str, Any]) -> dict[str, float]:
    """What a stream costs besides the engine, in percent of the engine's own time for it."""
    before, start = spent(process), time.perf_counter()
    answer = ask(address, {**body, "prompt": prompt(0), "stream": True, "stream_options": {"include_usage": True}})
    waited = 1e3 * (time.perf_counter() - start)
    time.sleep(0.05)  # what follows the answer, too
    timings = json.loads(answer.split(b"data: ")[-2].partition(b"\r\n")[0])["timings"]
    engine, took = timings["prompt_ms"] + timings["predicted_ms"], spent(process) - before
    return {
        "ms of a token": timings["predicted_per_token_ms"],
        "processor for HTTP, ms a token": took / timings["predicted_n"],
        "processor for HTTP, % of a token": 100 * took / engine,
        "longer than the engine, %": 100 * (waited / engine - 1),
    }


def measure(address: str, process: int, body: dict[str, Any], peer: str) -> dict[str, float]:
    """One turn of each figure."""
    figures = overhead(address, process, body) if sys.platform == "linux" else {}
    one, many = rate(address, body, 1), rate(address, body, CLIENTS)
    figures |= {"tokens/s of 1": one, f"tokens/s of {CLIENTS}": many, "times as many": many / one}
    if peer:
        other, others = rate(peer, body, 1), rate(peer, body, CLIENTS)
        figures |= {"peer, tokens/s of 1": other, f"peer, tokens/s of {CLIENTS}": others}
        figures |= {"times the peer, 1": one / other, f"times the peer, {CLIENTS}": many / others}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a folder made by checkpoints.py, or builtin")
    parser.add_argument("--backend", default="onnx")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--peer", default="", metavar="HOST:PORT", help="another server with the same model")
    arguments = parser.parse_args()
    from model_store.store import BUILTIN_FOLDER

    folder = BUILTIN_FOLDER
    if arguments.model != "builtin":
        folder = Path(arguments.model).absolute()
        os.environ.setdefault("CHATAPP_HOME", str(folder.parent / "chatapp"))
    end = Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id(END_OF_TEXT)
    body = {"max_tokens": arguments.tokens, "temperature": 1.0, "logit_bias": {str(end): -100}}
    model = arguments.model if arguments.model == "builtin" else str(folder)
    where = "--backend", arguments.backend, "--precision", arguments.precision
    with serving(model, *where) as (address, process):
        measure(address, process, body, arguments.peer)
        turns = [measure(address, process, body, arguments.peer) for _ in range(arguments.turns)]
    for name in turns[0]:
        figures = [turn[name] for turn in turns]
        print(f"{name:34} {statistics.median(figures):9.2f}  ({min(figures):.2f} to {max(figures):.2f})")


if __name__ == "__main__":
    main()
