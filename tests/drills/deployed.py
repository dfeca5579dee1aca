"""Kill replicas while they answer, update a model while it is asked, and measure what a deployment takes.

`PYTHONPATH=tests python -m drills.deployed here`, with a Python that has `chatapp[ray]`: 100 answers, and
replicas that are killed at random; then an update while requests come. `... hosts`, as root: the same on three hosts
made of network namespaces, of which one is killed whole and comes again. `... speed [SHARE]`, as root: the tokens of
one node and of two, each with a share of a processor, so that what they all have here is not what is measured.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from drills.machines import ROOT, SPACE, Host, network, spent, spent_by

PROMPTS = ("def add(a, b):\n    return", "import os\n\ndef read(path):\n", "class Point:\n", "for i in range(10):\n")
STREAMS, AT_ONCE, TOKENS = 100, 8, 160
HEAD = "10.9.0.10:6379"


@dataclass
class Answer:
    """What came of a request."""

    text: str = ""
    whole: bool = False
    """Its end mark came."""
    longest: float = 0.0
    """Seconds between two parts of it, the first one included."""
    error: str = ""


def body(place: int, *, seeded: bool = True) -> dict[str, Any]:
    """A request: of every three one that is greedy, one that draws, and one that draws with more options."""
    daring = {"temperature": 1.1, "repetition_penalty": 1.1}
    more = ({"temperature": 0}, {}, daring)[place % 3] | ({"seed": place} if seeded else {"temperature": 0})
    prompt = PROMPTS[place % len(PROMPTS)]
    return {"prompt": prompt, "max_tokens": TOKENS, "stream": True, "logit_bias": {"0": -100}, **more}


@dataclass
class Client:
    """A program that asks a gateway."""

    host: str
    port: int
    key: str

    def ask(self, asked: dict[str, Any]) -> Answer:
        """The answer to a request, as it comes."""
        found, headers = Answer(), {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        last = time.perf_counter()
        try:
            connection = HTTPConnection(self.host, self.port, timeout=300)
            connection.request("POST", "/v1/completions", json.dumps(asked), headers)
            response = connection.getresponse()
            if response.status != 200:
                return Answer(error=f"{response.status} {response.read().decode()[:300]}")
            for line in response:
                if not line.startswith(b"data: "):
                    continue
                now = time.perf_counter()
                found.longest, last = max(found.longest, now - last), now
                data = line[6:].strip().decode()
                if data == "[DONE]":
                    found.whole = True
                    break
                said = json.loads(data)
                if "error" in said:
                    found.error = str(said["error"])
                    break
                found.text += "".join(choice["text"] for choice in said["choices"])
        except Exception as error:
            found.error = f"{type(error).__name__}: {error}"
        return found

    def metric(self, name: str) -> float:
        """A figure of the gateway's."""
        connection = HTTPConnection(self.host, self.port, timeout=30)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {self.key}"})
        text = connection.getresponse().read().decode()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} "))


def say(text: str) -> None:
    """Tell a figure."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def run_here(host: Host, count: int, *, seeded: bool = True) -> list[str]:
    """The texts of an uninterrupted run, by the model opened in a process of this host."""
    lines = "\n".join(json.dumps(body(place, seeded=seeded)) for place in range(count))
    code = (
        "import json,sys\n"
        "from dataclasses import replace\n"
        "from chatapp.workspace import Workspace\n"
        "from chatapp.placement.selection import PlacementOptions\n"
        "engine = Workspace().open_model('builtin', PlacementOptions('onnx', 'cpu', 'int8')).engine\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    names = ('temperature', 'seed', 'repetition_penalty', 'max_tokens')\n"
        "    given = {name: asked[name] for name in names if name in asked} | {'logit_bias': {0: -100.0}}\n"
        "    deltas = engine.complete(asked['prompt'], replace(engine.defaults, **given))\n"
        "    print(json.dumps(''.join(delta.text for delta in deltas)))\n"
    )
    before = ["taskset", "-c", host.processor] if host.processor else []
    done = subprocess.run(
        [*before, sys.executable, "-c", code],
        input=lines,
        capture_output=True,
        text=True,
        env=os.environ | {"CHATAPP_HOME": str(host.home)} | ({"OMP_NUM_THREADS": "1"} if host.processor else {}),
        cwd=ROOT,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def beside(act: Callable[[], None], pause: Callable[[], float]) -> Iterator[list[int]]:
    """Do something again and again while the block lasts; how often."""
    ended, times = threading.Event(), [0]

    def work() -> None:
        while not ended.wait(pause()):
            act()
            times[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield times
    finally:
        ended.set()
        thread.join()


def compare(client: Client, expected: Sequence[str], what: str, *, seeded: bool = True) -> None:
    """Ask for all texts, and tell how they came."""
    start, before = time.perf_counter(), client.metric("chatapp_failover_seconds_count")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda place: client.ask(body(place, seeded=seeded)), range(len(expected))))
    seconds = time.perf_counter() - start
    equal = [one.whole and one.text == text for one, text in zip(answers, expected, strict=True)]
    gaps = sorted(one.longest for one in answers)
    kind = "with seeds" if seeded else "greedy, without seeds"
    say(f"{what}, {kind}: {sum(one.whole for one in answers)} of {len(answers)} whole, {sum(equal)} equal")
    failovers = client.metric("chatapp_failover_seconds_count") - before
    say(
        f"  failovers {failovers:.0f}, longest gap {gaps[-1]:.1f} s, median of the longest {gaps[len(gaps) // 2]:.2f} s"
    )
    say(f"  {seconds:.0f} s in all")
    for one in [one for one in answers if one.error][:3]:
        say(f"  error: {one.error}")


def kill_one(hosts: Sequence[Host]) -> None:
    """End a replica at once, wherever it is, unless it is the only one."""
    if len(found := [pid for host in hosts for pid in host.replicas()]) > 1:
        with suppress(ProcessLookupError):
            os.kill(random.choice(found), signal.SIGKILL)


def open_client(host: Host) -> Client:
    """A client of the gateway of a host."""
    address = host.wait_for("listening on").partition("http://")[2].partition(";")[0]
    name, _, port = address.partition(":")
    return Client(name, int(port), (host.home / "deploy" / "keys").read_text().strip())


def update(client: Client, host: Host, address: str) -> None:
    """Update the model while it is asked; nothing may be lost."""
    answers, ended = list[Answer](), threading.Event()

    def ask(place: int) -> None:
        while not ended.is_set():
            answers.append(client.ask({**body(place), "max_tokens": 60}))

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    other = ("builtin", "--cpus", "0.2", "--precision", "f32", "--address", address, "--no-gateway")
    process = host.deploy(*other, log="update.log")
    code = process.wait()
    seconds = time.perf_counter() - start
    time.sleep(2)
    ended.set()
    for thread in threads:
        thread.join()
    lost = [one for one in answers if not one.whole]
    say(f"update: exit {code}, {seconds:.0f} s, {len(answers)} requests meanwhile, {len(lost)} lost")
    say(
        f"  longest gap {max(one.longest for one in answers):.1f} s;"
        f" updates {client.metric('chatapp_updates_total'):.0f}"
    )
    for one in lost[:3]:
        say(f"  lost: {one.error}")


def tell_memory(host: Host, what: str) -> None:
    """Tell what a host's processes take."""
    found = host.memory()
    parts = ", ".join(f"{name} {size}" for name, size in sorted(found.items(), key=lambda one: -one[1])[:9])
    say(f"memory of {what}: {sum(found.values())} MB in {len(host.processes())} processes: {parts}")


def here(folder: Path) -> None:
    """Everything on this machine."""
    host = Host(folder / "home")
    (folder / "token").write_text("0" * 64)
    gateway = host.deploy(
        "builtin", "--replicas", "3", "--cpus", "0.5", "--precision", "int8", "--backend", "onnx", "--port", "0"
    )
    try:
        client = open_client(host)
        address = host.wait_for("Ray is at").rpartition(" ")[2]
        time.sleep(3)
        tell_memory(host, "the idle deployment of three replicas")
        before = spent(gateway.pid)
        measure_speed(client, "three replicas on one machine")
        used = spent(gateway.pid) - before
        say(f"  of the gateway's processor: {1000 * used / (24 * TOKENS):.2f} ms for a token")
        for seeded in (True, False):
            expected = run_here(Host(folder / "other"), STREAMS, seeded=seeded)
            compare(client, expected, "nothing is killed", seeded=seeded)
            with beside(lambda: kill_one([host]), lambda: random.uniform(1.5, 4.0)) as kills:
                compare(client, expected, "replicas are killed", seeded=seeded)
            say(f"  {kills[0]} killed")
        update(client, host, address)
        start = time.perf_counter()
        with ThreadPoolExecutor(1) as pool:
            last = pool.submit(client.ask, body(1))
            time.sleep(0.5)
            gateway.send_signal(signal.SIGTERM)
            say(f"SIGTERM in the middle of an answer: whole {last.result().whole}")
        code = gateway.wait(120)
        left = len(host.processes())
        say(f"ended with {code} after {time.perf_counter() - start:.1f} s; {left} processes left")
    finally:
        host.kill()


def measure_speed(client: Client, what: str, count: int = 24) -> float:
    """Tokens a second of so many answers, 8 at once."""
    start = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda place: client.ask(body(place)), range(count)))
    speed = sum(one.whole for one in answers) * TOKENS / (time.perf_counter() - start)
    say(f"{what}: {speed:.0f} tokens a second")
    return speed


@dataclass
class Cluster:
    """A head with the gateway, and two nodes with a processor each."""

    head: Host
    nodes: list[Host]
    placed = ("builtin", "--precision", "int8", "--backend", "onnx", "--address", HEAD)

    def join(self, place: int) -> None:
        """Let a node join."""
        self.nodes[place].join("--address", HEAD, f"--node-ip-address=10.9.0.1{place + 1}", cpus=2)
        self.nodes[place].wait_for("Ray runtime started", log="ray.log")

    def scale(self, client: Client, replicas: int) -> None:
        """Deploy so many replicas, and wait until these answer and there are no others."""
        count, cpus = ("--replicas", str(replicas)), ("--cpus", "1.5")
        process = self.head.deploy(*self.placed, *cpus, *count, "--no-gateway", log=f"{time.monotonic()}.log")
        code = process.wait()
        while client.metric('chatapp_replicas{state="running"}') != replicas:
            time.sleep(0.5)
        while sum(found := [len(node.replicas()) for node in self.nodes]) > replicas:
            time.sleep(0.5)
        say(f"{replicas} replicas: exit {code}; nodes have {found}")


@contextmanager
def clustered(folder: Path, share: float = 0.0) -> Iterator[tuple[Cluster, Client]]:
    """Three hosts, of which the head and a node with a replica are up, and a client of the gateway."""
    (folder / "token").write_text("0" * 64)
    nodes = [Host(folder / f"h{place}", f"{SPACE}{place}", str(place - 1), share) for place in (1, 2)]
    cluster = Cluster(head := Host(folder / "h0", f"{SPACE}0"), nodes)
    with network(3):
        try:
            head.join("--head", "--node-ip-address=10.9.0.10", "--port=6379", "--include-dashboard=false", cpus=0)
            head.wait_for("Ray runtime started", log="ray.log")
            cluster.join(0)
            say("two of three hosts are up")
            head.deploy(*cluster.placed, "--cpus", "1.5", "--replicas", "1", "--host", "10.9.0.10", "--port", "8200")
            yield cluster, open_client(head)
        finally:
            for host in (*nodes, head):
                host.kill()


def speed(folder: Path) -> None:
    """The tokens of one node and of two, in turns; each has a share of a processor, and the head has what is left."""
    with clustered(folder, float(sys.argv[2]) if len(sys.argv) > 2 else 0.25) as (cluster, client):
        measure_speed(client, "warm up")
        cluster.join(1)
        found = dict[int, list[float]]({1: [], 2: []})
        for replicas in (1, 2, 2, 1, 1, 2):
            cluster.scale(client, replicas)
            time.sleep(3)
            before = [spent_by(host) for host in (cluster.head, *cluster.nodes)]
            start = time.perf_counter()
            found[replicas].append(measure_speed(client, f"{replicas} nodes", 48))
            seconds = time.perf_counter() - start
            after = [spent_by(host) for host in (cluster.head, *cluster.nodes)]
            used = [f"{(new - old) / seconds:.2f}" for new, old in zip(after, before, strict=True)]
            say(f"  processors of the head and the nodes: {', '.join(used)}")
        say(f"two nodes: {sum(found[2]) / sum(found[1]):.2f} times one")


def hosts(folder: Path) -> None:
    """Three hosts, of which replicas are killed, and a host, and whose model is updated."""
    with clustered(folder) as (cluster, client):
        head, nodes = cluster.head, cluster.nodes
        cluster.join(1)
        cluster.scale(client, 2)
        for host, name in ((head, "the head with the gateway"), (nodes[0], "a node"), (nodes[1], "a node")):
            tell_memory(host, name)
        expected = run_here(Host(folder / "other", "", "0"), STREAMS)
        with beside(lambda: kill_one(nodes), lambda: random.uniform(3.0, 6.0)) as kills:
            compare(client, expected, "replicas are killed")
        say(f"  {kills[0]} killed")

        def lose() -> None:
            nodes[1].kill()
            say("  a host is gone")
            time.sleep(8)
            cluster.join(1)
            say("  it joined again")

        with beside(lose, lambda: 8.0):
            compare(client, expected, "a host is killed")
        update(client, head, HEAD)


def main() -> None:
    """Run one drill."""
    with tempfile.TemporaryDirectory(prefix="drill") as folder:
        {"here": here, "hosts": hosts, "speed": speed}[sys.argv[1]](Path(folder))


if __name__ == "__main__":
    main()
