"""How fast `pull` transfers, hashing included, beside curl: python benchmarks/transfer.py [--size MB] [--files N].

The hub is a process of its own on this machine, so nothing but the two clients differs.
"""

import argparse
import hashlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPOSITORY = "org/large"


def main() -> None:
    """Let curl and our transfer take turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2000, help="megabytes in all (default: 2000)")
    parser.add_argument("--files", type=int, default=1, help="in so many files (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each takes its turn (default: 5)")
    parser.add_argument("--fetch", nargs=2, metavar=("ENDPOINT", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fetch:
        return fetch(*given.fetch)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = write_files(folder / "hub" / REPOSITORY, given.size, given.files)
        hub = subprocess.Popen(
            [sys.executable, "-m", "support.loopback_hub", folder / "hub"],
            cwd=ROOT / "tests",
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert hub.stdout
            compare(hub.stdout.readline().strip().partition("=")[2], folder, names, given)
        finally:
            hub.kill()
            hub.wait()


def write_files(folder: Path, size: int, count: int) -> list[str]:
    """Random files of `size` megabytes in all; their names."""
    folder.mkdir(parents=True)
    names = [f"model-{place}.safetensors" for place in range(count)]
    for name in names:
        with (folder / name).open("wb") as file:
            for _ in range(size // count):
                file.write(os.urandom(1_000_000))
    return names


def compare(endpoint: str, folder: Path, names: list[str], given: argparse.Namespace) -> None:
    """Print the rates of both, and the peak memory of ours."""
    urls = [f"{endpoint}/{REPOSITORY}/resolve/main/{name}" for name in names]
    curl = ["curl", "--silent", "--fail"] + (["--parallel"] if len(urls) > 1 else [])
    for place, url in enumerate(urls):
        curl += ["--output", str(folder / f"curl-{place}"), url]
    ours = [sys.executable, __file__, "--fetch", endpoint, str(folder / "ours")]
    seconds: dict[str, list[float]] = {"curl": [], "ours": []}
    memory = ""
    for _ in range(given.rounds):
        for name, command in (("curl", curl), ("ours", ours)):
            os.sync()
            start = time.perf_counter()
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            taken = time.perf_counter() - start
            if name == "ours":
                taken, memory = float(done.stdout.split()[0]), done.stdout.split()[1]
            seconds[name].append(taken)
            print(f"{name}: {given.size / taken:,.0f} MB/s", flush=True)
            for path in [*folder.glob("curl-*"), *folder.glob("ours/*")]:
                path.unlink()
    ratios = [theirs / mine for theirs, mine in zip(seconds["curl"], seconds["ours"], strict=True)]
    print(
        f"ours / curl: {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}); peak memory {memory} MB"
    )


def fetch(endpoint: str, folder: str) -> None:
    """Fetch the repository as `pull` does, and print the seconds and the peak memory in megabytes."""
    from model_store.hub import hub, transfer
    from model_store.hub.web import Patience, Site

    Path(folder).mkdir(exist_ok=True)
    source = hub.repository(Site(endpoint), REPOSITORY, None, patience=Patience(), on_wait=lambda reason, pause: None)
    start = time.perf_counter()
    transfer.fetch(list(source.files.values()), Path(folder), source.open, on_transfer=lambda now: None)
    seconds = time.perf_counter() - start
    for file in source.files.values():
        with (Path(folder) / file.digest).open("rb") as whole:
            assert hashlib.file_digest(whole, "sha256").hexdigest() == file.digest
    print(f"{seconds:.3f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f}")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
