"""What a deployment of many nodes would do, computed: files that spread, requests that wait, nodes that are lost.

`python -m benchmarks.scale` prints the tables of docs/scale.md. The ledger is the real one, with a clock that is moved;
figures marked as measured are of the machine that docs/deploy/ray.md tells of, all others are assumptions, named here.
"""

import heapq
import math
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from chatapp.deploy.ray.fetching import PAUSE
from chatapp.deploy.ray.ledger import FAN, LONGEST, Ledger

GIGABYTE = 1 << 30


@dataclass(frozen=True)
class Assumed:
    """What one node, one gateway and the network can do."""

    uplink: float = 10e9 / 8
    """Bytes a second of a node: 10 Gbit/s."""
    shared: float = 40e9 / 8
    """Bytes a second of the machine that has a shared folder."""
    model: int = 4 * GIGABYTE
    """Bytes of the checkpoint."""
    parallel: int = 8
    """Answers that a replica writes at once."""
    step: float = 0.040
    """Seconds of a step of the model for one answer: 7 billion weights at 4 bits, 100 GB/s of memory."""
    more: float = 0.004
    """Seconds more for each other answer in its batch."""
    tokens: int = 300
    """Of an answer, on average."""
    gateway: float = 900.0
    """Tokens a second that one gateway passes on, a Python process: measured, 1.1 ms of a processor for each."""
    failing: float = 30 * 86400.0
    """Seconds between two failures of one node."""


def spread(nodes: int, assumed: Assumed) -> float:
    """Seconds until all nodes have the files, which one has at first and all fetch from each other."""
    now = [0.0]
    ledger = Ledger(lambda: now[0])
    ledger.have("d", "node 0", "/")
    seconds = assumed.model / (assumed.uplink / FAN)
    assert seconds < LONGEST
    random.seed(0)
    events: list[tuple[float, int, str]] = [(random.random(), place, "") for place in range(1, nodes)]
    heapq.heapify(events)
    while events:
        now[0], place, source = heapq.heappop(events)
        name = f"node {place}"
        if source:
            ledger.release("d", source, name, True)
            ledger.have("d", name, "/")
        elif claimed := ledger.claim("d", name):
            heapq.heappush(events, (now[0] + seconds, place, claimed[0]))
        else:
            heapq.heappush(events, (now[0] + PAUSE, place, ""))
    return now[0]


@dataclass
class Load:
    """How requests fared."""

    waited: float
    """Seconds, the 95th percentile."""
    speed: float
    """Tokens a second of one answer, the median."""
    passed: float
    """Tokens a second of all."""


def serve(replicas: int, requests: float, assumed: Assumed, seconds: float = 300.0) -> Load:
    """So many requests a second to so many replicas, each given to the idler one of two."""
    draw = random.Random(1)
    ends: list[tuple[float, int]] = []
    busy, queue = [0] * replicas, list[tuple[float, int]]()
    waits, speeds, tokens, now = list[float](), list[float](), 0, 0.0

    def begin(when: float, asked: float) -> None:
        nonlocal tokens
        one, other = draw.randrange(replicas), draw.randrange(replicas)
        chosen = min((one, other), key=lambda place: busy[place])
        if busy[chosen] >= assumed.parallel:
            chosen = min(range(replicas), key=lambda place: busy[place])
        busy[chosen] += 1
        step = assumed.step + assumed.more * (busy[chosen] - 1)
        length = max(1, round(draw.expovariate(1 / assumed.tokens)))
        tokens += length
        waits.append(when - asked)
        speeds.append(1 / step)
        heapq.heappush(ends, (when + length * step, chosen))

    place = 0
    while now < seconds:
        now += draw.expovariate(requests)
        while ends and ends[0][0] <= now:
            when, chosen = heapq.heappop(ends)
            busy[chosen] -= 1
            if queue:
                begin(when, heapq.heappop(queue)[0])
        if len(ends) < replicas * assumed.parallel:
            begin(now, now)
        else:
            heapq.heappush(queue, (now, place))
            place += 1
    waits += [now - asked for asked, _ in queue]
    return Load(statistics.quantiles(waits, n=20)[18], statistics.median(speeds), tokens / seconds)


def lose(nodes: int, assumed: Assumed) -> tuple[float, float, float]:
    """Nodes lost in a day; seconds of silence of an answer whose node is lost, without a seed and with one."""
    half = assumed.tokens / 2
    step = assumed.step + assumed.more * (assumed.parallel - 1)
    return 86400 * nodes / assumed.failing, half * assumed.more + step, half * step


def write_tables(assumed: Assumed) -> Iterator[str]:
    """The tables, in Markdown."""
    yield f"Time to bring {assumed.model / GIGABYTE:.0f} GB to every node:\n"
    yield "| nodes | from each other | from one node | from a shared folder |"
    yield "|---|---|---|---|"
    for nodes in (2, 10, 100, 1000, 4000):
        one, shared = assumed.model * (nodes - 1) / assumed.uplink, assumed.model * nodes / assumed.shared
        alone = max(shared, assumed.model / assumed.uplink)
        yield f"| {nodes:,} | {spread(nodes, assumed):,.0f} s | {one:,.0f} s | {alone:,.0f} s |"
    yield "\nRequests, at three loads:\n"
    yield "| replicas | requests a second | waited (95 %) | tokens a second of an answer | of all | gateways |"
    yield "|---|---|---|---|---|---|"
    full = assumed.parallel / (assumed.tokens * (assumed.step + assumed.more * (assumed.parallel - 1)))
    for replicas in (1, 10, 100, 1000):
        for share in (0.5, 0.8, 0.95):
            load = serve(replicas, requests := share * full * replicas, assumed)
            gateways = math.ceil(load.passed / assumed.gateway)
            yield (
                f"| {replicas:,} | {requests:,.1f} ({share:.0%}) | {load.waited:.1f} s | {load.speed:.0f} "
                f"| {load.passed:,.0f} | {gateways} |"
            )
    yield "\nLost nodes:\n"
    yield "| nodes | lost per day | answers that continue elsewhere | silence without a seed | silence with a seed |"
    yield "|---|---|---|---|---|"
    for nodes in (10, 100, 1000, 4000):
        lost, quick, exact = lose(nodes, assumed)
        yield f"| {nodes:,} | {lost:,.1f} | {lost * assumed.parallel:,.0f} | {quick:.1f} s | {exact:.1f} s |"


if __name__ == "__main__":
    print("\n".join(write_tables(Assumed())))
