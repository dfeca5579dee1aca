"""Kill replicas while they answer, update a model while it is asked, and measure what a deployment takes.

`PYTHONPATH=tests python -m drills.deployed here`, with a Python that has `chatapp[ray]`: 100 answers, and
replicas that are killed at random; then an update while requests come. `... hosts`, as root: the same on three hosts
made of network namespaces, of which one is killed whole and comes again, and the speed of one host and of two.
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
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROMPTS = ("def add(a, b):\n    return", "import os\n\ndef read(path):\n", "class Point:\n", "for i in range(10):\n")
STREAMS, AT_ONCE, TOKENS = 100, 8, 160
BRIDGE, SPACE = "dbr0", "dh"
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


@dataclass
class Host:
    """A machine: this one, or a network namespace, with a home and a processor of its own."""

    home: Path
    space: str = ""
    processor: str = ""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str, log: str) -> subprocess.Popen[bytes]:
        """Start a program there, in a session of its own."""
        before = ["ip", "netns", "exec", self.space] if self.space else []
        before += ["taskset", "-c", self.processor] if self.processor else []
        more = {"CHATAPP_HOME": str(self.home), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
        more |= {"RAY_AUTH_TOKEN_PATH": str(self.home.parent / "token"), "RAY_TMPDIR": str(self.home)}
        more |= {"OMP_NUM_THREADS": "1"} if self.processor else {}
        more["PYTHONPATH"] = ""  # what refuses the network would refuse Ray's
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / log).open("ab") as output:
            process = subprocess.Popen(
                [*before, *command],
                stdout=output,
                stderr=output,
                env=os.environ | more,
                start_new_session=True,
                cwd=ROOT,
            )
        self.started.append(process)
        return process

    def deploy(self, *arguments: str, log: str = "gateway.log") -> subprocess.Popen[bytes]:
        """Start `chatapp deploy ray` there."""
        return self.start(sys.executable, "-m", "chatapp", "deploy", "ray", *arguments, log=log)

    def join(self, *arguments: str, cpus: int) -> None:
        """Start Ray there."""
        ray = str(Path(sys.executable).parent / "ray")
        usual = ["--disable-usage-stats", f"--num-cpus={cpus}", "--object-store-memory=80000000", "--block"]
        self.start(ray, "start", *arguments, *usual, log="ray.log")

    def processes(self) -> list[int]:
        """Everything that runs there, by its home."""
        mark = f"CHATAPP_HOME={self.home}\0".encode()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if mark in read(pid, "environ")]

    def replicas(self) -> list[int]:
        """The replicas that run there."""
        return [pid for pid in self.processes() if b"ray::ServeReplica" in read(pid, "cmdline")]

    def memory(self) -> dict[str, int]:
        """Megabytes by what the processes are, each page shared out among those that have it."""
        found = dict[str, int]()
        for pid in self.processes():
            words = read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").split()
            name = next((word.split("/")[-1] for word in words if "ray::" in word or word in ("deploy",)), "")
            name = (name or (words[0].split("/")[-1] if words else "?"))[:28]
            sums = [
                int(line.split()[1])
                for line in read(pid, "smaps_rollup").decode().splitlines()
                if line.startswith("Pss:")
            ]
            found[name] = found.get(name, 0) + sum(sums) // 1024
        return found

    def kill(self) -> None:
        """End everything there at once."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.wait()
        self.started.clear()

    def wait_for(self, text: str, log: str = "gateway.log", seconds: float = 120) -> str:
        """Wait until a log says something; the line."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            said = (self.home / log).read_text(errors="replace") if (self.home / log).exists() else ""
            if line := next((line for line in said.splitlines() if text in line), ""):
                return line
            assert "Error:" not in said and "Traceback" not in said, said
            time.sleep(0.2)
        raise AssertionError(f"{self.home / log} does not say {text!r}: {said[-2000:]}")


def read(pid: int, name: str) -> bytes:
    """A file of a process, while it runs."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def spent(pid: int) -> float:
    """Seconds of a processor that a process has taken."""
    words = read(pid, "stat").rpartition(b")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


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


@contextmanager
def network(count: int) -> Iterator[None]:
    """So many namespaces on one bridge, from which nothing leads outside."""

    def ip(*words: str, ok: bool = True) -> None:
        subprocess.run(["ip", *words], check=ok, capture_output=not ok)

    def clean() -> None:
        for place in range(count):
            ip("netns", "del", f"{SPACE}{place}", ok=False)
            ip("link", "del", f"dv{place}", ok=False)
        ip("link", "del", BRIDGE, ok=False)

    clean()
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("addr", "add", "10.9.0.254/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    try:
        for place in range(count):
            space, cable = f"{SPACE}{place}", f"dv{place}"
            ip("netns", "add", space)
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", cable, "master", BRIDGE, "up")
            ip("-n", space, "addr", "add", f"10.9.0.1{place}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")
        yield
    finally:
        clean()


def measure_speed(client: Client, what: str) -> float:
    """Tokens a second of 24 answers, 8 at once."""
    start = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda place: client.ask(body(place)), range(24)))
    speed = sum(one.whole for one in answers) * TOKENS / (time.perf_counter() - start)
    say(f"{what}: {speed:.0f} tokens a second")
    return speed


def hosts(folder: Path) -> None:
    """Three hosts: a head with the gateway, and two nodes with a processor each."""
    (folder / "token").write_text("0" * 64)
    head, *nodes = [
        Host(folder / f"h{place}", f"{SPACE}{place}", "" if not place else str(place - 1)) for place in range(3)
    ]

    def join(place: int) -> None:
        nodes[place].join("--address", HEAD, f"--node-ip-address=10.9.0.1{place + 1}", cpus=2)
        nodes[place].wait_for("Ray runtime started", log="ray.log")

    placed = ("builtin", "--precision", "int8", "--backend", "onnx", "--address", HEAD)
    with network(3):
        try:
            head.join("--head", "--node-ip-address=10.9.0.10", "--port=6379", "--include-dashboard=false", cpus=0)
            head.wait_for("Ray runtime started", log="ray.log")
            join(0)
            say("two of three hosts are up")
            head.deploy(*placed, "--replicas", "1", "--host", "10.9.0.10", "--port", "8200")
            client = open_client(head)
            measure_speed(client, "warm up")
            one = measure_speed(client, "one node")
            join(1)
            more = head.deploy(*placed, "--cpus", "1.5", "--replicas", "2", "--no-gateway", log="more.log")
            say(f"a second replica: exit {more.wait()}; nodes with replicas {[len(node.replicas()) for node in nodes]}")
            two = measure_speed(client, "two nodes")
            again = measure_speed(client, "two nodes, again")
            less = head.deploy(*placed, "--cpus", "1.5", "--replicas", "1", "--no-gateway", log="less.log")
            say(f"one replica again: exit {less.wait()}")
            while len([pid for node in nodes for pid in node.replicas()]) > 1:
                time.sleep(0.5)
            alone = measure_speed(client, "one node, again")
            say(f"two nodes: {(two + again) / (one + alone):.2f} times one")
            more = head.deploy(*placed, "--cpus", "1.5", "--replicas", "2", "--no-gateway", log="last.log")
            say(f"two replicas again: exit {more.wait()}")
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
                join(1)
                say("  it joined again")

            with beside(lose, lambda: 8.0):
                compare(client, expected, "a host is killed")
            update(client, head, HEAD)
        finally:
            for host in (*nodes, head):
                host.kill()


def main() -> None:
    """Run one drill."""
    with tempfile.TemporaryDirectory(prefix="drill") as folder:
        {"here": here, "hosts": hosts}[sys.argv[1]](Path(folder))


if __name__ == "__main__":
    main()
