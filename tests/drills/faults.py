"""Pull under random faults: after each the model is whole or absent, and an undisturbed pull brings what is published.

PYTHONPATH=tests:tests/offline python -m drills.faults [COUNT] [--seed SEED]
"""

import faulthandler
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from chatapp.generation.memory import peak_memory
from chatapp.text.errors import one_line
from drills.pull import NAME, REPOSITORY, arguments, check, make_checkpoint
from model_store import Store
from model_store.hub import pull
from model_store.hub.transfer import Transfer
from model_store.hub.web import Patience, Site
from model_store.location import Location
from support.checkpoints import random_llama, write_safetensors
from support.hub_facts import Listing
from support.loopback_hub import LoopbackHub

QUICK = Patience(stall=0.3, tries=3, pause=0.01)
LONGEST = 40.0
"""Seconds beyond which a pull counts as hanging; a loaded machine takes a few."""
MEMORY = 1 << 30
"""Bytes beyond those of a pull that nobody disturbs."""
PLACES = ("", "/api/models", "/resolve/", "/storage/", "config", "tokenizer", "safetensors")
LENGTHS = ("-1", "0", "1", "abc", "1, 2", "9" * 30, "")
RANGES = ("bytes 0-0/1", "bytes 5-9/3", "bytes */*", "items 0-1/2", "x" * 5000, "")
WAITS = (
    "0",
    "-1",
    "0.1",
    "abc",
    "\u00b2",
    "9" * 400,
    "4000",
    "",
    "Wed, 99 Foo 2003 00:00:00",
    "Wed, 01 Jan 9999 00:00:00 GMT",
)
TARGETS = (
    "", "/", "//", "?", "#", "http://", "http://[", "http://127.0.0.1:1/x", "http://127.0.0.1:99999/", "file:///etc/passwd",
    "ftp://127.0.0.1/x", "javascript:alert(1)", "http://user:secret@127.0.0.1:1/", "../" * 50, "/" * 5000, "\xff\x00",
    f"/{REPOSITORY}/resolve/main/config.json", f"/{REPOSITORY}/resolve/main/nothing",
)  # fmt: skip
STATUSES = (200, 204, 206, 304, 400, 401, 403, 404, 408, 410, 416, 418, 425, 429, 451, 500, 502, 503, 504, 507, 599)
BODIES = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b"[" * 50_000,
    b"<html>log in</html>",
    b"\xff\xfe",
    b'{"siblings": [{}]}',
    bytes(9999),
)
RAW = (
    b"", b"\0" * 1000, b"HTTP/1.1 200", b"HTTP/9.9 xyz\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000 + b"\r\n\r\n", b"HTTP/1.1 -1 \r\n\r\n", b"SSH-2.0-x\r\n" * 100,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\nx", b"HTTP/1.1 101 \r\n\r\n" * 50,
)  # fmt: skip
SIZES: list[Any] = [None, -1, 0, 1, 2**63, 2**70, 1.5, "7", [], True]  # Any: JSON
NAMES: list[Any] = [
    "../evil",
    "a/../../evil",
    "/etc/evil",
    "",
    ".",
    "CON",
    "model.safetensors ",
    "\0",
    "a" * 5000,
    None,
    7,
    [],
]


def main() -> None:
    """Drill as often and with the seed that the arguments say."""
    count, seed = arguments(sys.argv[1:], 300)
    with tempfile.TemporaryDirectory() as temporary:
        print(drill(Path(temporary), count, seed=seed))


def drill(folder: Path, count: int, *, seed: int) -> str:
    """Disturb `count` pulls at random; what was found, in a line."""
    chance, store, slowest = random.Random(seed), Store(folder / "models"), 0.0
    make_checkpoint(folder / "first")
    second = shutil.copytree(folder / "first", folder / "second")
    write_safetensors(second / "model.safetensors", {name: -weights for name, weights in random_llama().items()})
    seen: Counter[str] = Counter()
    with LoopbackHub() as hub:
        hub.publish(REPOSITORY, folder / "first")
        disturbed(store, hub)
        usual = peak_memory()
        for turn in range(count):
            source = folder / chance.choice(["first", "second"])
            hub.publish(REPOSITORY, source)
            if chance.random() < 0.7 and Location(store.root, NAME).checkpoint.exists():
                store.remove(NAME)
            misbehave(hub, chance)
            faults = [str(fault) for fault in hub.faults]
            begun = time.monotonic()
            faulthandler.dump_traceback_later(LONGEST, exit=True)
            try:
                told = disturbed(store, hub)
                seen[told and "refused" or "overcome"] += 1
                whole = check(store)
                assert told or whole, "it is not there, and nothing was said"
                slowest = max(slowest, time.monotonic() - begun)
                hub.faults.clear()
                hub.redirecting, hub.edit_listing = False, lambda listing: listing
                assert not (told := disturbed(store, hub)), f"a pull that nobody disturbs must succeed: {told}"
                assert check(store) and same(Location(store.root, NAME).checkpoint, source)
            except BaseException:
                print(f"seed {seed}, turn {turn}:", *faults, sep="\n", file=sys.stderr)
                raise
            finally:
                faulthandler.cancel_dump_traceback_later()
        assert peak_memory() - usual < MEMORY
    kinds = ", ".join(f"{number} {what}" for what, number in sorted(seen.items()))
    memory = (peak_memory() - usual) >> 20
    return f"{count} pulls under faults (seed {seed}): {kinds}; slowest {slowest:.1f} s; {memory} MB more than usual"


def disturbed(store: Store, hub: LoopbackHub) -> str:
    """Pull; what is said where that fails."""
    try:
        planned = pull.plan(store.roots, REPOSITORY, site=Site(hub.url), patience=QUICK)
        planned.fetch(on_transfer=quiet, patience=QUICK)
    except Exception as error:
        told = one_line(error)
        if not told:
            raise
        return told
    return ""


def quiet(now: Transfer) -> None:
    """Hear of progress, and say nothing."""


def same(folder: Path, source: Path) -> bool:
    """Whether a checkpoint has the bytes that are published."""
    return all((folder / path.name).read_bytes() == path.read_bytes() for path in source.iterdir())


def misbehave(hub: LoopbackHub, chance: random.Random) -> None:
    """Let the next requests go wrong in one to five ways, and sometimes the list of files."""
    hub.redirecting = chance.random() < 0.3
    for _ in range(chance.randint(1, 5)):
        often = {"times": chance.choice([1, 1, 2, 5, 100]), "after": chance.choice([0, 0, 1, 2])}
        hub.fault(chance.choice(PLACES), **often | fault(chance, hub))
    if chance.random() < 0.15:
        hub.edit_listing = edited(random.Random(chance.random()))


def fault(chance: random.Random, hub: LoopbackHub) -> dict[str, Any]:  # Any: fields of Fault
    """One way in which a request goes wrong."""
    place = chance.randrange(chance.choice([10, 1000, 100_000, 330_000]))
    ways: list[dict[str, Any]] = [
        {"cut": place},
        {"cut": place, "no_range": True},
        {"stall": place, "delay": 0.5},
        {"delay": chance.uniform(0, 0.6)},
        {"rate": 500, "times": 2},
        {"rate": chance.choice([100_000, 1_000_000])},
        {"shorten": place + 1},
        {"flip": place},
        {"no_range": True},
        {"reset": True},
        {"raw": chance.choice(RAW)},
        {"before": b"HTTP/1.1 103 Early Hints\r\n\r\n" * chance.choice([1, 5, 50])},
        {"status": chance.choice(STATUSES), "body": chance.choice(BODIES)},
        {"status": chance.choice((429, 500, 503)), "headers": {"Retry-After": chance.choice(WAITS)}},
        {"status": chance.choice((301, 302, 303, 307, 308)), "headers": {"Location": chance.choice(TARGETS)}},
        {"status": 302, "headers": {"Location": f"{hub.storage_url}/{chance.choice(['storage/', ''])}nothing"}},
        {"status": 416, "headers": {"Content-Range": chance.choice(RANGES)}},
        {"headers": {"Content-Range": chance.choice(RANGES)}},
        {"headers": {"Content-Length": chance.choice(LENGTHS)}},
        {"headers": {"ETag": '"other"', "X-Repo-Commit": "0" * 40}},
        {
            "headers": {
                chance.choice(("Content-Encoding", "Transfer-Encoding")): chance.choice(("gzip", "chunked", "x"))
            }
        },
    ]
    return chance.choice(ways)


def edited(chance: random.Random) -> Any:  # Any: what edits a listing
    """What changes the list of files; the same for each request."""
    number, value = chance.randrange(9), chance.choice([*SIZES, *NAMES])
    field = chance.choice(["size", "blobId", "rfilename", "lfs", "none", "twice"])

    def edit(listing: Listing) -> Listing:
        one = listing[number % len(listing)]
        if field == "none":
            listing.remove(one)
        elif field == "twice":
            listing.append({**one, "size": 1})
        else:
            one[field] = value
        return listing

    return edit


if __name__ == "__main__":
    main()
