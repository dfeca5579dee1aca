"""Wear the server: python -m drills.serving soak|flood [--minutes M] [--model NAME] [--seed S] [--count N]

`soak` lets eight clients stream, and leave at random; memory, shares and what is left over are told.
`flood` opens thousands of connections that say nothing, or half a head, beside a client that asks.
"""

import argparse
import json
import random
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from chatapp.generation.memory import resident_memory
from chatapp.models.jobs import COMMAND
from chatapp.text.child import Child

CLIENTS = 8
PROMPT = "def add(first, second):\n    return "


@contextmanager
def serving(model: str, *options: str) -> Iterator[tuple[str, int]]:
    """A server in a process of its own: its address and its number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Child((*COMMAND, "serve", model, "--port", str(port), *options)) as child:
        url = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 60
        while True:
            try:
                if model in str(httpx2.get(f"{url}/api/ps", trust_env=False).json()):
                    break
            except httpx2.HTTPError:
                pass
            assert time.monotonic() < end and child.process.poll() is None, child.complaint()
            time.sleep(0.1)
        yield url, child.process.pid
        child.interrupt()
        child.wait(30)


def stream(url: str, body: dict[str, Any], leave_after: float = float("inf")) -> Iterator[str]:
    """The texts of a stream, up to the moment at which the client leaves."""
    end = time.monotonic() + leave_after
    with (
        httpx2.Client(trust_env=False, timeout=120) as client,
        client.stream("POST", f"{url}/v1/completions", json={**body, "stream": True}) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                yield json.loads(line[6:])["choices"][0]["text"]
            if time.monotonic() > end:
                return


def soak(model: str, minutes: float, seed: int) -> None:
    """Eight clients, each of which leaves in the middle as often as not."""
    with serving(model) as (url, process):
        over = time.monotonic() + 60 * minutes
        parts, asked, left = [0] * CLIENTS, [0] * CLIENTS, [0] * CLIENTS
        faults = list[str]()

        def ask(number: int) -> None:
            chance = random.Random(seed * 100 + number)
            while time.monotonic() < over:
                patience = chance.uniform(0.02, 2.0) if chance.random() < 0.5 else float("inf")
                body = {
                    "prompt": f"# client {number}\n{PROMPT}",
                    "max_tokens": chance.randint(20, 120),
                    "temperature": 1.0,
                }
                try:
                    for _ in stream(url, body, patience):
                        parts[number] += 1
                except Exception as error:
                    faults.append(repr(error))
                asked[number] += 1
                left[number] += patience < float("inf")

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        memories = list[int]()
        while any(thread.is_alive() for thread in threads):
            time.sleep(5)
            memories.append(resident_memory(process))
        time.sleep(1)
        figures = httpx2.get(f"{url}/metrics", trust_env=False).text
        stuck = [line for line in figures.splitlines() if line.startswith("chatapp_requests_answering ")]
        settled = [memory / 1e6 for memory in memories[len(memories) // 5 :]]  # what was kept of texts is as much now
        first, last = statistics.median(settled[:12]), statistics.median(settled[-12:])  # of a minute
        impatient = f"{sum(left)} of impatient clients"
        print(f"{minutes:g} minutes, {sum(asked)} requests, {impatient}, {len(faults)} faults {faults[:3]}")
        print(f"Jain's index of requests {jain(asked):.4f}, of parts {jain(parts):.4f}; {stuck}")
        print(
            f"memory in the first minute {first:.1f} MB, in the last {last:.1f}: {100 * (last / first - 1):+.1f} %",
            end="",
        )
        print(f" ({min(settled):.1f} to {max(settled):.1f})")


def jain(shares: list[int]) -> float:
    """Jain's index of fairness: 1 where all have the same."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


def flood(model: str, count: int) -> None:
    """Connections that ask nothing, beside a client that does."""
    with serving(model) as (url, process):
        port = int(url.rpartition(":")[2])
        before = resident_memory(process)
        times = [time_request(url) for _ in range(10)]
        idle = list[socket.socket]()
        refused = 0
        for number in range(count):
            try:
                one = socket.create_connection(("127.0.0.1", port), 5)
                if number % 2:
                    one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX: ")
                idle.append(one)
            except OSError:
                refused += 1
        during = [time_request(url) for _ in range(20)]
        time.sleep(12)
        closed = sum(is_closed(one) for one in idle)
        after = [time_request(url) for _ in range(10)]
        print(f"{count} connections, {refused} refused, {closed} closed by the server after 12 s")
        medians = (statistics.median(some) for some in (times, during, after))
        print("a request takes " + ", ".join(f"{1000 * median:.1f} ms" for median in medians))
        print(f"memory {before / 1e6:.0f} MB, then {resident_memory(process) / 1e6:.0f}")


def time_request(url: str) -> float:
    """Seconds that a request takes on a connection of its own."""
    start = time.perf_counter()
    assert httpx2.get(f"{url}/v1/models", trust_env=False, timeout=30).status_code == 200
    return time.perf_counter() - start


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("soak", "flood"))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5000)
    given = parser.parse_args()
    if given.what == "soak":
        soak(given.model, given.minutes, given.seed)
    else:
        flood(given.model, given.count)
