"""How long it takes to list many models, each lowered once: python benchmarks/listing.py [MODELS]."""

import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from model_store import Store  # noqa: E402

MODELS, REPEATS = 1000, 7


def main() -> None:
    """Print the median and best of several times."""
    count = int(sys.argv[1]) if sys.argv[1:] else MODELS
    with tempfile.TemporaryDirectory() as folder:
        store = fill(Path(folder), count)
        times = sorted(measure(store) for _ in range(REPEATS))
    best, median = times[0] * 1000, times[REPEATS // 2] * 1000
    print(f"{count} models, each lowered once: {best:.0f} ms at best, {median:.0f} ms median")


def fill(root: Path, count: int) -> Store:
    """A store of copies of the built-in model's manifest, each with a variant."""
    store = Store(root)
    store.lowered(store.get("builtin"), "onnx", "int8")
    manifest = (root / "builtin" / "model.json").read_text()
    facts = json.loads((root / "builtin" / "onnx-int8" / "variant.json").read_text())
    for number in range(count):
        variant = root / f"model-{number:04}" / "onnx-int8"
        variant.mkdir(parents=True)
        (variant / "model.data").write_bytes(b"x")
        (variant / "model.onnx").write_bytes(b"x")
        (variant / "variant.json").write_text(json.dumps({**facts, "files": {"model.data": 1, "model.onnx": 1}}))
        (variant.parent / "model.json").write_text(manifest)
    return store


def measure(store: Store) -> float:
    """Seconds that one listing takes."""
    start = time.perf_counter()
    models = store.list()
    taken = time.perf_counter() - start
    assert all(len(model.variants) == 1 for model in models)
    return taken


if __name__ == "__main__":
    main()
