"""Kill what changes the store at random moments: after each kill every model is whole or absent, and no blob is lost.

PYTHONPATH=tests:tests/offline python -m drills.store [COUNT] [--seed SEED]
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from drills.pull import NAME, REPOSITORY, arguments, make_checkpoint
from model_store import Store, StoreError, imports
from model_store.hub import blobs, manifest, pull
from model_store.hub.partial import Wanted
from model_store.hub.web import Site
from model_store.upkeep import copies, garbage
from support.loopback_hub import LoopbackHub

WORK = ("pull", "lower", "import", "copy", "remove", "collect")
NAMES = (NAME, NAME, "copied", "imported")
BEYOND = 1.2
"""Processes are killed within as many times of what their work takes undisturbed."""


def main() -> None:
    """Drill as often and with the seed that the arguments say."""
    count, seed = arguments(sys.argv[1:], 200)
    with tempfile.TemporaryDirectory() as temporary:
        print(drill(Path(temporary), count, seed=seed))


def drill(folder: Path, count: int, *, seed: int) -> str:
    """Kill `count` processes at random moments; what was found, in a line."""
    make_checkpoint(folder / "tiny")
    store, moments = Store(folder / "models"), random.Random(seed)
    killed, ended, seen = dict.fromkeys(WORK, 0), 0, 0
    with LoopbackHub() as hub:
        hub.publish(REPOSITORY, folder / "tiny")
        longest = measure(store, Site(hub.url), folder / "tiny")
        for turn in range(count):
            what = WORK[turn % len(WORK)] if turn < 2 * len(WORK) else moments.choice(WORK)
            some = moments.choice(NAMES)
            pid = os.fork()
            if pid == 0:
                try:
                    work(what, store, Site(hub.url), folder / "tiny", some)
                except StoreError:
                    os._exit(1)  # the model is not there, or its name is taken
                except BaseException:
                    traceback.print_exc()
                    os._exit(2)
                os._exit(0)
            time.sleep(moments.uniform(0, BEYOND * longest[what]))
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            assert status in (0, 256, signal.SIGKILL), f"{what} failed by itself (seed {seed}, turn {turn})"
            killed[what] += status == signal.SIGKILL
            ended += status != signal.SIGKILL
            seen += check(store)
        for model in store.list()[1:]:
            assert store.lowered(model, "onnx", "int8").folder.is_dir()
            store.remove(model.name)
        for name in [path.name for path in (store.root / "checkpoints").glob(".*.partial")]:
            store.remove(name[1:].removesuffix(".partial"))
        garbage.collect(store)
        left = {path.name for path in store.root.iterdir()} - {
            ".locks",
            ".bandwidth.json",
            "blobs",
            "checkpoints",
            "builtin",
        }
        assert not left and not [*(store.root / "blobs").iterdir(), *(store.root / "checkpoints").iterdir()]
    kinds = ", ".join(f"{number} {what}" for what, number in killed.items())
    return f"{count} processes (seed {seed}): killed in {kinds}; {ended} ended before; {seen} times a model was whole"


def measure(store: Store, site: Site, source: Path) -> dict[str, float]:
    """Seconds that each kind of work takes undisturbed, with its modules loaded, as they then are in every fork."""
    longest = {}
    for _ in range(2):
        for model in store.list()[1:]:
            store.remove(model.name)
        for what in WORK:
            begun = time.monotonic()
            work(what, store, site, source, NAME)
            longest[what] = time.monotonic() - begun
    return longest


def work(what: str, store: Store, site: Site, source: Path, some: str) -> None:
    """Change the store; what is not pulled or imported is about `some` model."""
    if what == "pull":
        planned = pull.plan(store.roots, REPOSITORY, site=site)
        planned.fetch(on_transfer=lambda now: None)
    elif what == "lower":
        store.lowered(store.get(some), "onnx", "int8")
    elif what == "import":
        imports.carry_out(store, imports.plan(store, str(source), name="imported", copy=True))
    elif what == "copy":
        copies.copy(store, some, "copied")
    elif what == "remove":
        store.remove(some)
    else:
        garbage.collect(store)


def check(store: Store) -> int:
    """How many models are whole; raises if one is neither whole nor absent, or if a blob is missing."""
    models = store.list()[1:]
    for model in models:
        assert {path.name for path in model.folder.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}
        for variant in store.get(model.name).variants:
            assert json.loads((variant.folder / "variant.json").read_text())["made"]["digest"].startswith("sha256-")
    for folder in manifest.folders(store.root):
        for file in manifest.read_files(folder):
            for path in (folder / file.name, blobs.blob(store.root, file.digest)):
                assert blobs.is_whole(path, Wanted(file.name, file.size, file.digest)), path
    return len(models)


if __name__ == "__main__":
    main()
