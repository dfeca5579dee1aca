"""Kill pulls at random moments, and pull the whole catalogue, against a hub on this machine.

PYTHONPATH=tests:tests/offline python -m drills.pull kills [COUNT] [--seed SEED]
PYTHONPATH=tests:tests/offline python -m drills.pull catalog

After each kill the model is whole or absent, and the next pull goes on; of the catalogue each name is pulled, verified,
made to answer and removed.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from model_store import Store
from model_store.hub import blobs
from model_store.hub.catalog import Entry, catalog
from model_store.hub.partial import Wanted
from model_store.location import Location
from support.checkpoints import ROOT, random_llama, write_safetensors, write_tokenizer
from support.loopback_hub import LoopbackHub

REPOSITORY, NAME = "org/tiny", "org--tiny"
RATE = 500_000
"""Bytes per second at which the hub sends weights: slow enough to be killed in the middle."""


def main() -> None:
    """Do what the arguments say."""
    what, *rest = sys.argv[1:] or ["kills"]
    if what == "launch":
        return launch()
    with tempfile.TemporaryDirectory() as temporary:
        if what == "kills":
            count, seed = arguments(rest, 200)
            print(drill(Path(temporary), count, seed=seed))
        elif what == "catalog":
            pull_catalog(Path(temporary))


def arguments(given: list[str], count: int) -> tuple[int, int]:
    """How often to drill, `count` times if nothing is said, and with which seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=count)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    told = parser.parse_args(given)
    return told.count, told.seed


# Kills


def drill(folder: Path, count: int, *, seed: int) -> str:
    """Kill `count` pulls at random moments; what was found, in a line."""
    make_checkpoint(folder / "tiny")
    moments = random.Random(seed)
    home, absent, whole, went_on = folder / "home", 0, 0, 0
    store = Store(home / "models")
    with LoopbackHub() as hub, launcher(hub, home) as start:
        hub.publish(REPOSITORY, folder / "tiny")
        hub.fault("safetensors", rate=RATE, times=1 << 30)
        begun = time.monotonic()
        start("pull")
        assert start("wait") == 0, "a pull that nobody disturbs must succeed"
        longest = time.monotonic() - begun
        store.remove(NAME)
        for _ in range(count):
            kept, asked = saved(store.root), len(hub.requests)
            start("pull")
            time.sleep(moments.uniform(0, longest))
            start("kill")
            ranges = [one.range for one in hub.requests[asked:] if "safetensors" in one.path]
            rest = [one for one in ranges if one is None or one.endswith("-")]  # the others are for the header
            if rest and kept:
                assert int((rest[0] or "bytes=0-")[6:-1]) >= kept, f"{kept} bytes were there, and {rest[0]} was asked"
                went_on += 1
            if check(store):
                whole += 1
                store.remove(NAME)
            else:
                absent += 1
        start("pull")
        assert start("wait") == 0, "the last pull must go on and end"
        assert check(store)
    return f"{count} kills (seed {seed}): {absent} times absent, {whole} times whole, {went_on} times gone on with"


def saved(root: Path) -> int:
    """Bytes of the weights that the journal vouches for."""
    lengths = [0]
    for journal in Location(root, NAME).partial.glob("*.journal"):
        if len(journal.stem) == 64:
            lengths += [int(line.split()[0]) for line in journal.read_text().splitlines()]
    return max(lengths)


def check(store: Store) -> bool:
    """Whether the model is there; raises if it is neither whole nor absent."""
    names = [model.name for model in store.list()]
    folder = Location(store.root, NAME).checkpoint
    if not folder.exists():
        assert names == ["builtin"]
        return False
    assert names == ["builtin", NAME]
    facts = json.loads((folder / "pull.json").read_text())["files"]
    assert {path.name for path in folder.iterdir()} == {*facts, "pull.json"}
    for name, file in facts.items():
        assert blobs.is_whole(folder / name, Wanted(name, file["size"], file["digest"])), name
    for variant in store.get(NAME).variants:
        assert (variant.folder / "variant.json").exists()
    return True


def make_checkpoint(folder: Path) -> None:
    """The files of a tiny llama."""
    folder.mkdir()
    golden = ROOT / "tests" / "golden" / "llama"
    config = json.loads((golden / "config.json").read_text())
    config |= {"vocab_size": 320, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", random_llama())
    write_tokenizer(folder, 320)


@contextmanager
def launcher(hub: LoopbackHub, home: Path) -> Iterator[Callable[[str], int]]:
    """What tells a process to fork a pull, so that it begins at once, to wait for it or to kill it."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    settings = {"CHATAPP_HOME": str(home), "HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf"), "PYTHONPATH": path}
    command = [sys.executable, "-m", "drills.pull", "launch"]
    environment = {**os.environ, "CHATAPP_BACKEND": "onnx", **settings}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:

        def tell(what: str) -> int:
            assert process.stdin and process.stdout
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield tell
        process.kill()


def launch() -> None:
    """Obey standard input, and answer each line with a number; the process that forks is the one that kills."""
    import onnx  # noqa: F401  # so that no fork must

    from chatapp.cli import main as cli  # noqa: F401

    pid = 0
    for line in sys.stdin:
        if line == "pull\n":
            pid = os.fork()
            if pid == 0:
                silence = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silence, 1)
                os.dup2(silence, 2)
                os._exit(cli.main(["pull", REPOSITORY]))
            print(pid, flush=True)
            continue
        if line == "kill\n":
            os.kill(pid, signal.SIGKILL)
        print(os.waitpid(pid, 0)[1], flush=True)


# The catalogue


def pull_catalog(folder: Path) -> None:
    """Pull each name, with a tiny checkpoint of its family in place of the real one."""
    home = folder / "home"
    with LoopbackHub(token="secret") as hub:
        settings = {
            "CHATAPP_HOME": str(home),
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(folder / "hf"),
            "HF_TOKEN": "secret",
        }
        environment = {**os.environ, "CHATAPP_BACKEND": "onnx", **settings}

        def chatapp(*arguments: str) -> str:
            command = [sys.executable, "-m", "chatapp", *arguments]
            done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
            return done.stderr

        for entry in catalog().values():
            source = Path(shutil.copytree(golden(entry), folder / entry.name))
            write_tokenizer(source, 96)
            hub.publish(entry.repository, source, entry.revision or "main")
            if entry.gated:
                hub.gated.add(entry.repository)
                hub.members.add(entry.repository)
            chatapp("pull", entry.name)
            chatapp("verify", entry.name)
            told = chatapp("run", entry.name, "a b c", "--max-tokens", "4", "--stats", "json")
            assert json.loads(told)["completion_tokens"] > 0
            chatapp("rm", entry.name)
            assert not list((home / "models" / "checkpoints").iterdir())
            print(f"{entry.name}: pulled, verified, answered, removed", flush=True)


def golden(entry: Entry) -> Path:
    """The tiny checkpoint that stands for a model."""
    if entry.family == "t5":
        return ROOT / "tests" / "golden_answers" / ("t5-codet5" if "codet5" in entry.name else "t5-flan")
    return ROOT / "tests" / "golden" / entry.family


if __name__ == "__main__":
    main()
