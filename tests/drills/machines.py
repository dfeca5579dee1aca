"""Hosts made of network namespaces of this machine, with a home, a processor and a share of it each."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
BRIDGE, SPACE = "dbr0", "dh"
GROUPS = Path("/sys/fs/cgroup")
PERIOD = 10_000
"""Microseconds in which a host may use its share: short, so that answers do not stand still."""


@dataclass
class Host:
    """A machine: this one, or a network namespace, with a home and a processor of its own."""

    home: Path
    space: str = ""
    processor: str = ""
    share: float = 0.0
    """Of one processor, all that runs there together; 0 for as much as there is."""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str, log: str) -> subprocess.Popen[bytes]:
        """Start a program there, in a session of its own."""
        before = ["sh", "-c", f'echo $$ > {self.group()}/cgroup.procs && exec "$@"', "sh"] if self.share else []
        before += ["ip", "netns", "exec", self.space] if self.space else []
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

    def group(self) -> Path:
        """The control group that holds this host to its share, by the first or the second kind of them."""
        first = (GROUPS / "cpu").is_dir()
        folder = (GROUPS / "cpu" if first else GROUPS) / f"drill-{self.space}"
        folder.mkdir(exist_ok=True)
        limit = int(self.share * PERIOD)
        for name, value in (("cpu.cfs_period_us", PERIOD), ("cpu.cfs_quota_us", limit)) if first else ():
            (folder / name).write_text(str(value))
        if not first:
            (folder / "cpu.max").write_text(f"{limit} {PERIOD}")
        return folder

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
        if self.share:
            with suppress(OSError):  # something in it has not quite ended: the next run takes it as it is
                self.group().rmdir()

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


def spent_by(host: Host) -> float:
    """Seconds of a processor that all processes of a host have taken."""
    return sum(spent(pid) for pid in host.processes() if read(pid, "stat"))


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
