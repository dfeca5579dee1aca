"""Time a mixture of experts beside a dense model of as many weights: lowering's peak memory, and decoding in turns."""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from checkpoints import DTYPES, write_json, write_safetensors

STEPS = 16
"""Tokens that a model decodes in its turn."""
PROMPT = 32
"""Tokens that it reads before."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of both models; `dense` is the dense one's hidden size, its feed-forward and its layers."""

    hidden: int
    expert: int
    experts: int
    chosen: int
    layers: int
    dense: tuple[int, int, int]
    vocab: int = 50304


SIZES = {
    "7b": Sizes(2048, 1024, 64, 8, 16, (4096, 11008, 32)),
    "3b": Sizes(2048, 1024, 32, 4, 13, (2560, 6912, 36)),
    "tiny": Sizes(64, 64, 8, 2, 2, (64, 256, 2), 512),
}
"""What can be built: weights of 6.9 and 2.9 billion, of which a token's share is a sixth."""


class Repeated(np.random.Generator):
    """Random numbers that repeat after some millions, begun elsewhere each time: as good for timing, much quicker.

    Of equal tensors the runtime would keep one copy, and find it in the processor's cache.
    """

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))
        self.drawn = np.random.default_rng(0).standard_normal((1 << 22) + 7, np.float32)
        self.begun = 0

    def standard_normal(self, size, dtype=np.float32, out=None):  # type: ignore[no-untyped-def, override]
        self.begun = (self.begun + 1_000_003) % len(self.drawn)
        return np.resize(np.roll(self.drawn, self.begun), size)


def build(folder: Path, sizes: Sizes, *, mixed: bool) -> Path:
    """Write config.json and the weights of one of both models, unless they are there."""
    if (folder / "model.safetensors").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    hidden, ffn, layers = (sizes.hidden, sizes.expert, sizes.layers) if mixed else sizes.dense
    heads = max(2, hidden // 128)
    config = {
        "model_type": "mixtral" if mixed else "llama", "vocab_size": sizes.vocab, "hidden_size": hidden,
        "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": heads, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
        "num_local_experts": sizes.experts if mixed else 1, "num_experts_per_tok": sizes.chosen,
    }  # fmt: skip
    write_json(folder / "config.json", config)
    entries = list(tensors(hidden, ffn, layers, sizes, mixed=mixed))
    write_safetensors(folder / "model.safetensors", entries, DTYPES["BF16"], Repeated())
    return folder


def tensors(hidden: int, ffn: int, layers: int, sizes: Sizes, *, mixed: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes."""
    for name in "model.embed_tokens.weight", "lm_head.weight":
        yield name, (sizes.vocab, hidden)
    for i in range(layers):
        layer = f"model.layers.{i}."
        for name in "qkvo":
            yield f"{layer}self_attn.{name}_proj.weight", (hidden, hidden)
        for name in "input_layernorm", "post_attention_layernorm":
            yield f"{layer}{name}.weight", (hidden,)
        if mixed:
            yield f"{layer}block_sparse_moe.gate.weight", (sizes.experts, hidden)
        for expert in range(sizes.experts if mixed else 1):
            stem = f"{layer}block_sparse_moe.experts.{expert}.w" if mixed else f"{layer}mlp."
            names = ("1", "3", "2") if mixed else ("gate_proj", "up_proj", "down_proj")
            for name, shape in zip(names, ((ffn, hidden), (ffn, hidden), (hidden, ffn)), strict=True):
                yield f"{stem}{name}.weight", shape
    yield "model.norm.weight", (hidden,)


def lower(source: Path, target: Path, backend: str, precision: str) -> None:
    """Lower a checkpoint in this process, and print seconds and the megabytes that it held at most."""
    from model_store.convert import convert

    target.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    convert(source, target, backend=backend, precision=precision)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"seconds": round(time.monotonic() - start), "peak_megabytes": peak}))


def decode(folders: list[Path], backend: str, turns: int) -> list[list[float]]:
    """Seconds of each turn's token, one model after the other, turn by turn."""
    import backends

    sessions = [backends.get(backend).load(folder, device="cpu") for folder in folders]
    random, times = np.random.default_rng(0), [list[float]() for _ in folders]
    for session in sessions:
        session.forward(random.integers(0, session.vocab_size, (1, PROMPT)))
    for turn in range(turns + 1):
        for session, found in zip(sessions, times, strict=True):
            tokens = random.integers(0, session.vocab_size, (STEPS, 1, 1))
            start = time.monotonic()
            for token in tokens:
                session.forward(token)
            if turn:  # the first one warms up
                found.append((time.monotonic() - start) / STEPS)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where checkpoints and lowered models go: 42 GB for 7b at int4")
    parser.add_argument("--sizes", choices=SIZES, default="7b")
    parser.add_argument("--backend", default="onnx")
    parser.add_argument("--precision", default="int4")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--lower", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.lower:
        source, target = arguments.lower
        return lower(source, target, arguments.backend, arguments.precision)
    lowered = []
    for kind in "mixed", "dense":
        name = f"{arguments.sizes}-{kind}"
        source = build(arguments.folder / name, SIZES[arguments.sizes], mixed=kind == "mixed")
        target = arguments.folder / f"{name}-{arguments.backend}-{arguments.precision}"
        lowered.append(target)
        if not target.exists():
            call = [sys.executable, __file__, str(arguments.folder), "--lower", str(source), str(target)]
            call += ["--backend", arguments.backend, "--precision", arguments.precision]
            done = subprocess.run(call, env=os.environ, check=True, capture_output=True, text=True)
            print(f"lowering {name}: {done.stdout.strip()}", flush=True)
    mixed, dense = decode(lowered, arguments.backend, arguments.turns)
    ratios = [b / a for a, b in zip(mixed, dense, strict=True)]
    milliseconds = f"{1e3 * median(mixed):.1f} ms, dense {1e3 * median(dense):.1f} ms"
    print(f"decoding a token: mixture {milliseconds}, {median(ratios):.2f} times as fast ({min(ratios):.2f} at least)")


if __name__ == "__main__":
    main()
