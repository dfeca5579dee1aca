"""Trains the built-in model; call it again with the same folder to go on where it stopped.

Progress is the share of wall-clock time used. A file `deadline` in the run's folder ("14:10") moves the end.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import heldout
import torch
from model import SIZES, Config, Model
from optimiser import Optimiser
from samples import Samples
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import DataLoader


@dataclass(frozen=True)
class Recipe:
    """All that training depends on beside the corpus, the time and the seed."""

    step_tokens: int
    micro_tokens: int
    contexts: dict[float, int]
    """Context length from each share of the progress on."""
    rate: float
    embedding_rate: float
    weight_decay: float
    falling: float
    """Share of the time, at the end, in which the rates fall to zero."""
    package_tokens: int | None
    repeats: dict[float, float]
    """Share of samples that repeat a passage, from each share of the progress on."""
    workers: int
    warmup: int = 60


RECIPES = {
    "small": Recipe(
        step_tokens=4096,
        micro_tokens=4096,
        contexts={0.0: 512, 0.86: 1024},
        rate=0.004,
        embedding_rate=0.004,
        weight_decay=0.05,
        falling=0.6,
        package_tokens=4_000_000,
        repeats={0.0: 0.15, 0.12: 0.0},
        workers=0,
    ),
    "large": Recipe(
        step_tokens=131_072,
        micro_tokens=65_536,
        contexts={0.0: 1024},
        rate=0.01,
        embedding_rate=0.003,
        weight_decay=0.1,
        falling=0.5,
        package_tokens=None,
        repeats={0.0: 0.1, 0.05: 0.0},
        workers=12,
        warmup=200,
    ),
}
RECIPES["medium"] = RECIPES["small"]


@dataclass
class Run:
    """What is kept between calls, beside weights and optimiser."""

    seed: int
    calls: int = 0
    elapsed: float = 0.0
    steps: int = 0
    tokens: int = 0
    best: float = math.inf
    history: list[dict[str, float]] = field(default_factory=list)


def at(table: dict[float, Any], progress: float) -> Any:  # Any: one function for both tables
    """Looks up the entry in force at this progress."""
    return table[max(share for share in table if share <= progress)]


def scale(recipe: Recipe, progress: float, steps: int) -> float:
    """Gives the factor on the learning rates: warm-up by steps, then flat, then down to zero by time."""
    return min(1.0, (steps + 1) / recipe.warmup) * min(1.0, max(0.01, (1 - progress) / recipe.falling))


def remaining(folder: Path, minutes: float, elapsed: float) -> float:
    """Gives the seconds left, from the deadline file if there is one."""
    file = folder / "deadline"
    if file.exists():
        clock = datetime.strptime(file.read_text().strip(), "%H:%M")
        return (datetime.now().replace(hour=clock.hour, minute=clock.minute, second=0) - datetime.now()).total_seconds()
    return minutes * 60 - elapsed


def batches(samples: Samples, recipe: Recipe, device: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields micro-batches on the device."""
    loader = DataLoader(
        samples,
        batch_size=recipe.micro_tokens // samples.context,
        num_workers=recipe.workers,
        pin_memory=device == "cuda",
        prefetch_factor=4 if recipe.workers else None,
    )
    for ids, target in loader:
        yield ids.to(device, non_blocking=True), target.to(device, non_blocking=True)


def save(path: Path, content: dict[str, Any]) -> None:
    """Writes a checkpoint whole (Any: whatever torch.save takes)."""
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    os.replace(partial, path)


class Trainer:
    """One call's worth of training."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.work: Path = arguments.work
        self.folder: Path = arguments.run
        self.device: str = arguments.device
        self.recipe = RECIPES[arguments.size]
        self.config: Config = SIZES[arguments.size]
        torch.manual_seed(arguments.seed)
        self.model = Model(self.config).to(self.device).train()
        self.optimiser = Optimiser(
            self.model,
            rate=self.recipe.rate,
            embedding_rate=self.recipe.embedding_rate,
            decay=self.recipe.weight_decay,
        )
        self.run = Run(arguments.seed)
        self.restore()
        self.run.calls += 1
        self.checks = heldout.checks(self.work, Tokenizer.from_file(str(self.work / "tokenizer.json")))
        self.hidden = torch.compile(self.model.hidden, dynamic=False) if arguments.compile else self.model.hidden
        self.started = time.monotonic() - self.run.elapsed

    def restore(self) -> None:
        """Takes up an earlier call's state."""
        path = self.folder / "state.pt"
        if path.exists():
            state = torch.load(path, map_location=self.device, weights_only=True)
            self.model.load_state_dict(state["weights"])
            self.optimiser.restore(state["optimiser"])
            self.run = Run(**state["run"])

    def checkpoint(self) -> None:
        """Measures the held-out loss, keeps the best weights and saves all state."""
        with torch.no_grad(), self.precision():
            measured = heldout.measure(self.model.eval(), self.checks, self.device)
        self.model.train()
        self.run.history.append({"tokens": self.run.tokens, "elapsed": round(self.run.elapsed), **measured})
        print(f"heldout {json.dumps(self.run.history[-1])}", flush=True)
        weights = {"config": asdict(self.config), "weights": self.model.state_dict(), "run": asdict(self.run)}
        if measured["loss"] < self.run.best:
            self.run.best = measured["loss"]
            save(self.folder / "best.pt", weights)
        save(self.folder / "state.pt", {**weights, "run": asdict(self.run), "optimiser": self.optimiser.state()})

    def precision(self) -> torch.autocast:
        """Computes in bfloat16 on a GPU, in float32 on a CPU."""
        return torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.device == "cuda")

    def step(self, data: Iterator[tuple[Tensor, Tensor]], factor: float) -> float:
        """Takes one step of the optimiser over several micro-batches and returns the loss."""
        total = 0.0
        micros = self.recipe.step_tokens // self.recipe.micro_tokens
        for _ in range(micros):
            ids, target = next(data)
            with self.precision():
                loss = self.model.loss(self.hidden(ids), target) / micros
            loss.backward()
            total += float(loss.detach())
            self.run.tokens += ids.numel()
        self.optimiser.step(factor)
        self.run.steps += 1
        return total

    def train(self) -> None:
        """Trains until the deadline, or until this call's minutes are over."""
        call_end = time.monotonic() + 60 * self.arguments.call_minutes
        next_report = next_checkpoint = time.monotonic()
        stage: tuple[int, float] | None = None
        smooth = math.nan
        while time.monotonic() < call_end:
            self.run.elapsed = time.monotonic() - self.started
            left = remaining(self.folder, self.arguments.minutes, self.run.elapsed)
            progress = self.run.elapsed / (self.run.elapsed + max(0.0, left))
            if left <= 0:
                break
            wanted = at(self.recipe.contexts, progress), at(self.recipe.repeats, progress)
            if wanted != stage:
                stage = wanted
                seed = f"{self.run.seed}/{self.run.calls}/{stage}"
                samples = Samples(
                    self.work,
                    context=stage[0],
                    seed=seed,
                    package_tokens=self.recipe.package_tokens,
                    repeats=stage[1],
                )
                data = batches(samples, self.recipe, self.device)
                print(f"context {stage[0]}, repeats {stage[1]}, {samples.size() / 1e6:.1f}M tokens", flush=True)
            loss = self.step(data, scale(self.recipe, progress, self.run.steps))
            smooth = loss if math.isnan(smooth) else smooth + 0.03 * (loss - smooth)
            now = time.monotonic()
            if now >= next_report:
                next_report = now + 15
                rate = self.run.tokens / (now - self.started)
                print(
                    f"step {self.run.steps} {progress:.1%} {self.run.tokens / 1e6:.2f}M tokens {rate:.0f}/s"
                    f" loss {loss:.3f} smooth {smooth:.3f}",
                    flush=True,
                )
            if now >= next_checkpoint:
                next_checkpoint = now + 60 * self.arguments.checkpoint_minutes
                self.checkpoint()
        self.checkpoint()
        print("finished" if left <= 0 else "call over, to be continued", flush=True)


def main() -> None:
    """Parses the command line and trains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder with the encoded corpus")
    parser.add_argument("--run", type=Path, required=True, help="folder for checkpoints; resumed if not empty")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--minutes", type=float, default=90, help="all calls together")
    parser.add_argument("--call-minutes", type=float, default=math.inf, help="this call")
    parser.add_argument("--checkpoint-minutes", type=float, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="needs a C++ compiler; about 15 %% faster on CPU")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.run.mkdir(parents=True, exist_ok=True)
    Trainer(arguments).train()


if __name__ == "__main__":
    main()
