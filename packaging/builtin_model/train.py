"""Trains the built-in model; call it again with the same folder to go on where it stopped.

The rates are constant in the trunk (`--run`); a branch (`--cool-down`, `--into`) takes them to zero and leaves the
trunk as it is. Training draws no chance: the samples' parts are read in order, so a resumed run repeats itself.
"""

# torch has no types as this project checks it.
# mypy: disallow-untyped-decorators=False

import argparse
import copy
import json
import math
import os
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import heldout
import numpy as np
import torch
from grow import grown
from model import SIZES, Model, read_model
from optimiser import Optimiser
from samples import part_file
from tokenizers import Tokenizer
from torch import Tensor, distributed, multiprocessing

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Recipe:
    """All that training depends on beside the corpus and the seed."""

    step_tokens: int
    """Tokens of a step."""
    micro_tokens: int
    """Tokens whose gradients are made at once."""
    context: int
    long_context: int
    long_share: float
    """Share of all tokens, at the end of a branch, that is read in the long context."""
    rate: float
    embedding_rate: float
    weight_decay: float
    warmup: int
    """Steps."""


ON_PROCESSORS = Recipe(
    step_tokens=8192,
    micro_tokens=4096,
    context=512,
    long_context=1024,
    long_share=0.15,
    rate=0.004,
    embedding_rate=0.004,
    weight_decay=0.05,
    warmup=60,
)
ON_GPU = Recipe(
    step_tokens=65_536,
    micro_tokens=65_536,
    context=1024,
    long_context=1024,
    long_share=0.0,
    rate=0.007,
    embedding_rate=0.004,
    weight_decay=0.1,
    warmup=200,
)
TINY = replace(ON_PROCESSORS, step_tokens=4096, micro_tokens=2048, context=128, long_context=256, warmup=2)
RECIPES = {"tiny": TINY, "small": ON_PROCESSORS, "cpu11": ON_PROCESSORS, "grown": ON_PROCESSORS}
RECIPES["large"] = ON_GPU


@dataclass
class Run:
    """What is kept between calls, beside weights and optimiser."""

    size: str
    begun_from: str = ""
    """Name of the model that it began from, if any."""
    device: str = "cpu"
    rates: float = 1.0
    """Factor on the recipe's rates."""
    calls: int = 0
    steps: int = 0
    tokens: int = 0
    wall_seconds: float = 0.0
    processor_seconds: float = 0.0
    cooled_from: int = 0
    """Tokens at which the branch left the trunk; 0 in the trunk."""
    end: int = 0
    """Tokens at which the branch ends."""
    clock: float = 0.0
    """Seconds over which the clock takes the rates to zero, where a machine is lent for so long; else 0."""
    positions: dict[str, list[int]] = field(default_factory=dict)
    """By context, the part being read and its next row."""
    history: list[dict[str, float]] = field(default_factory=list)
    """What checkpoints measured on the held-out files."""


def scale(recipe: Recipe, run: Run) -> float:
    """Gives the factor on the learning rates: warm-up by steps, then flat, or down to zero by tokens or the clock."""
    warm = min(1.0, (run.steps + 1) / recipe.warmup)
    if run.clock:
        return warm * max(0.0, 1 - run.wall_seconds / run.clock)
    return warm * (max(0.0, (run.end - run.tokens) / (run.end - run.cooled_from)) if run.end else 1.0)


def context_of(recipe: Recipe, run: Run) -> int:
    """Gives the context of the next step."""
    return recipe.long_context if run.end and run.tokens >= (1 - recipe.long_share) * run.end else recipe.context


class Rows:
    """Reads the samples' parts in order, one context at a time, each part once on the device."""

    def __init__(self, work: Path, device: str, positions: dict[str, list[int]], patience: float) -> None:
        """`patience`: seconds to wait for a part that is still being made."""
        self.work, self.device, self.positions, self.patience = work, device, positions, patience
        self.loaded: tuple[Path, Tensor] | None = None

    def part(self, file: Path) -> Tensor:
        """Loads a part, (n, context + 1), int32."""
        if self.loaded is None or self.loaded[0] != file:
            until = time.monotonic() + self.patience
            while not file.exists():
                if time.monotonic() > until:
                    raise FileNotFoundError(file)
                time.sleep(0.1)
            self.loaded = file, torch.from_numpy(np.load(file).astype(np.int32)).to(self.device)
        return self.loaded[1]

    def next(self, context: int, count: int) -> Tensor:
        """Takes the next rows, (count, context + 1); what a part has too few of for a step is left out."""
        number, row = self.positions.setdefault(str(context), [0, 0])
        part = self.part(part_file(self.work, context, number))
        if row + count > len(part):
            if len(part) < count:
                raise SystemExit(f"part {number} has {len(part)} rows, a step needs {count}: make larger parts")
            number, row = number + 1, 0
            part = self.part(part_file(self.work, context, number))
        self.positions[str(context)] = [number, row + count]
        return part[row : row + count].long()


def save(path: Path, content: dict[str, Any]) -> None:
    """Writes a checkpoint whole (Any: whatever torch.save takes)."""
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    os.replace(partial, path)


def load(path: Path) -> dict[str, Any]:
    """Reads a checkpoint (Any: as it was saved)."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


@dataclass(frozen=True)
class Crew:
    """The processes that share each step: every one reads its own rows, and all take the same step."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process measures, reports and saves."""
        return self.rank == 0

    def own(self, rows: Tensor) -> Tensor:
        """Takes this process's share of a step's rows, (n, context + 1)."""
        if len(rows) % self.size:
            raise SystemExit(f"{self.size} processes cannot share the {len(rows)} rows of a step: take another number")
        return rows.chunk(self.size)[self.rank]

    def mean(self, values: list[Tensor]) -> None:
        """Replaces each tensor by its mean over the processes."""
        if self.size > 1:
            flat = torch.cat([value.flatten() for value in values])
            distributed.all_reduce(flat)
            for value, mean in zip(values, (flat / self.size).split([v.numel() for v in values]), strict=True):
                value.copy_(mean.view_as(value))

    def processor_seconds(self) -> float:
        """What all processes have taken, as each does the same work as the leader."""
        return self.size * time.process_time()

    def clock(self) -> float:
        """Reads the leader's clock, so that all processes end a call at the same step."""
        now = torch.tensor(time.monotonic(), dtype=torch.float64)
        if self.size > 1:
            distributed.broadcast(now, 0)
        return float(now)


class Report:
    """Writes a line for each step, and says now and then how it goes.

    A loss is read when the next step is under way, so that a device never waits for us.
    """

    def __init__(self, file: Path, tokens: int) -> None:
        """`tokens`: what the run had read before this call."""
        self.file, self.first, self.began = file, tokens, time.monotonic()
        self.pending: list[tuple[dict[str, Any], Tensor]] = []
        self.smooth, self.next = math.nan, self.began

    def add(self, place: dict[str, Any], loss: Tensor) -> None:
        """Keeps a step's place and loss, and writes what was kept (Any: numbers, and the positions by context)."""
        self.close()
        self.pending = [(place, loss)]

    def close(self) -> None:
        """Writes what is kept."""
        for place, loss in self.pending:
            value = float(loss)
            self.smooth = value if math.isnan(self.smooth) else self.smooth + 0.03 * (value - self.smooth)
            with open(self.file, "a", encoding="utf-8") as log:
                print(json.dumps(place | {"loss": value}), file=log)
            now = time.monotonic()
            if now >= self.next:
                self.next = now + 15
                rate = (place["tokens"] - self.first) / max(now - self.began, 1e-9)
                print(
                    f"step {place['step']} {place['tokens'] / 1e6:.2f}M tokens {rate:.0f}/s"
                    f" loss {value:.3f} smooth {self.smooth:.3f}",
                    flush=True,
                )
        self.pending = []


class Trainer:
    """One call's worth of training."""

    def __init__(self, arguments: argparse.Namespace, crew: Crew) -> None:
        self.arguments, self.crew = arguments, crew
        self.work: Path = arguments.work
        self.folder: Path = arguments.into or arguments.run
        self.precision = PRECISIONS[arguments.precision]
        state = self.starting_state()
        self.run = self.starting_run(state)
        self.device = self.run.device
        self.recipe, self.config = RECIPES[self.run.size], SIZES[self.run.size]
        self.model = self.starting_model(state).to(self.device).train()
        """The weights in float32; what computes may be a copy of lower precision."""
        self.computing = self.rounded() if arguments.precision != "fp32" else self.model
        self.optimiser = Optimiser(
            self.model,
            rate=self.run.rates * self.recipe.rate,
            embedding_rate=self.run.rates * self.recipe.embedding_rate,
            decay=self.recipe.weight_decay,
            precision=self.precision,
        )
        if state:
            self.optimiser.restore(state["optimiser"])
        if self.run.clock and (arguments.clock or arguments.cool_down):
            raise SystemExit("the clock takes this run's rates to 0 already: leave --clock and --cool-down out")
        if arguments.clock:
            self.run.clock = self.run.wall_seconds + 60 * arguments.clock
        if arguments.cool_down and not self.run.end:
            self.run.cooled_from, self.run.end = self.run.tokens, round(self.run.tokens / (1 - arguments.cool_down))
        self.run.calls += 1
        self.rows = Rows(self.work, self.device, self.run.positions, 60 * arguments.wait_minutes)
        self.checks = heldout.checks(self.work, Tokenizer.from_file(str(self.work / "tokenizer.json")))
        compiled = arguments.compile
        self.hidden = torch.compile(self.computing.hidden, dynamic=False) if compiled else self.computing.hidden
        # On a processor the loss is one of our own, which a compiler does not make faster.
        compiled_loss = compiled and self.device != "cpu"
        self.loss = torch.compile(self.computing.loss, dynamic=False) if compiled_loss else self.computing.loss
        self.log = self.folder / "steps.jsonl"
        if crew.leads:
            self.forget_later_steps()

    def rounded(self) -> Model:
        """Copies the weights in the precision that computes; the rotations of positions stay as they are."""
        copied: Model = copy.deepcopy(self.model).to(self.precision)
        copied.cos, copied.sin = self.model.cos, self.model.sin
        return copied

    def starting_state(self) -> dict[str, Any] | None:
        """Reads the checkpoint to go on from: this folder's, or for a new branch the trunk's."""
        for folder in (self.folder, self.arguments.run):
            if (folder / "state.pt").exists():
                return load(folder / "state.pt")
        if self.arguments.into:
            raise SystemExit(f"nothing to cool down: {self.arguments.run} has no state.pt")
        return None

    def starting_run(self, state: dict[str, Any] | None) -> Run:
        """Goes on with a run, refusing what would make another of it, or begins one."""
        given = {
            "size": self.arguments.size,
            "device": self.arguments.device,
            "begun_from": self.arguments.model and self.arguments.model.resolve().name,
            "rates": self.arguments.rates,
        }
        asked = {name: value for name, value in given.items() if value is not None}
        if not state:
            return Run(**{"size": "cpu11"} | asked)
        run = Run(**state["run"])
        for name, value in asked.items():
            if value != (kept := getattr(run, name)):
                raise SystemExit(f"this run has {name} {kept!r}, not {value!r}: leave it out, or begin another folder")
        return run

    def starting_model(self, state: dict[str, Any] | None) -> Model:
        """Gives the weights of the checkpoint, of the model to begin from, or new ones."""
        if state is None and self.arguments.model:
            model = read_model(self.arguments.model)
            return model if model.config == self.config else grown(model, self.config)
        model = Model(self.config)
        if state:
            model.load_state_dict(state["weights"])
        return model

    def forget_later_steps(self) -> None:
        """Drops from the log what came after the checkpoint and is now done again."""
        lines = self.log.read_text().splitlines(keepends=True) if self.log.exists() else []
        self.log.write_text("".join(line for line in lines if json.loads(line)["step"] <= self.run.steps))

    def checkpoint(self) -> None:
        """Measures the held-out loss and saves all state; only the process that leads does."""
        if not self.crew.leads:
            return
        with torch.no_grad():
            measured = heldout.measure(self.computing.eval(), self.checks, self.device)
        self.computing.train()
        self.run.history.append({"tokens": self.run.tokens, **measured})
        print(f"heldout {json.dumps(self.run.history[-1])}", flush=True)
        weights = {"config": asdict(self.config), "weights": self.model.state_dict(), "run": asdict(self.run)}
        save(self.folder / "state.pt", {**weights, "optimiser": self.optimiser.state()})

    def step(self) -> Tensor:
        """Takes one step and returns its mean loss, which a device may still be computing."""
        context, step_tokens = context_of(self.recipe, self.run), self.recipe.step_tokens
        factor = scale(self.recipe, self.run)
        rows = self.crew.own(self.rows.next(context, step_tokens // context))
        micros = rows.split(self.recipe.micro_tokens // context)
        total = torch.zeros((), device=self.device)
        for micro in micros:
            target = heldout.targets(micro)
            loss = self.loss(self.hidden(micro[:, :-1]), target) / len(micros)
            loss.backward()
            total += loss.detach().float()
            self.hand_over_gradients()
        self.crew.mean([total, *(weight.grad for weight in self.model.parameters() if weight.grad is not None)])
        self.optimiser.step(factor)
        self.hand_over_weights()
        self.run.steps += 1
        self.run.tokens += step_tokens
        return total

    def hand_over_gradients(self) -> None:
        """Adds the gradients of the copy that computes to those of the weights in float32."""
        if self.computing is self.model:
            return
        for weight, used in zip(self.model.parameters(), self.computing.parameters(), strict=True):
            if used.grad is not None:
                weight.grad = used.grad.float() if weight.grad is None else weight.grad + used.grad
            used.grad = None

    @torch.no_grad()
    def hand_over_weights(self) -> None:
        """Rounds the new weights into the copy that computes."""
        if self.computing is not self.model:
            for weight, used in zip(self.model.parameters(), self.computing.parameters(), strict=True):
                used.copy_(weight)

    def place(self) -> dict[str, Any]:
        """Says how far the run has come (Any: numbers, and the positions by context)."""
        return {"step": self.run.steps, "tokens": self.run.tokens, "positions": dict(self.run.positions)}

    def finished(self) -> bool:
        """Whether the rates are down to zero, or the trunk has seen the tokens asked for."""
        if self.run.clock:
            return self.run.wall_seconds >= self.run.clock
        return self.run.tokens >= (self.run.end or self.arguments.tokens)

    def train(self) -> None:
        """Trains to the end, or until this call's minutes are over; a part that is missing ends the call too."""
        began = now = self.crew.clock()
        wall, processor = self.run.wall_seconds, self.run.processor_seconds - self.crew.processor_seconds()
        next_checkpoint = now + 60 * self.arguments.checkpoint_minutes
        report, missing = Report(self.log, self.run.tokens) if self.crew.leads else None, ""
        while not self.finished() and now < began + 60 * self.arguments.call_minutes and not missing:
            try:
                loss = self.step()
            except FileNotFoundError as error:
                missing = f"; {error} is missing: make more samples"
                continue
            now = self.crew.clock()
            self.run.wall_seconds = wall + now - began
            self.run.processor_seconds = processor + self.crew.processor_seconds()
            if report:
                report.add(self.place(), loss)
            if now >= next_checkpoint:
                if report:
                    report.close()
                self.checkpoint()
                next_checkpoint = self.crew.clock() + 60 * self.arguments.checkpoint_minutes
        if report:
            report.close()
        self.checkpoint()
        if report:
            print("finished" if self.finished() else f"call over, to be continued{missing}", flush=True)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder with the samples")
    parser.add_argument("--run", type=Path, required=True, help="folder of the trunk; resumed if not empty")
    parser.add_argument("--from", dest="model", type=Path, help="begin with the weights of this model, grown to --size")
    parser.add_argument("--cool-down", type=float, help="share of all tokens over which a branch takes the rates to 0")
    parser.add_argument("--into", type=Path, help="folder of that branch; resumed if not empty")
    parser.add_argument("--size", choices=SIZES, help="of a new run; cpu11 unless another is named")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="of a new run; cpu unless named")
    parser.add_argument("--precision", choices=PRECISIONS, default="bf16", help="fp32 on a CPU without bfloat16")
    parser.add_argument("--rates", type=float, help="factor on the recipe's rates, of a new run; 1 unless given")
    parser.add_argument("--clock", type=float, help="minutes over which the rates fall to 0, on a machine that is lent")
    parser.add_argument("--wait-minutes", type=float, default=0, help="for samples that are still being made")
    parser.add_argument("--tokens", type=float, default=math.inf, help="end of the trunk, all calls together")
    parser.add_argument("--call-minutes", type=float, default=math.inf, help="this call")
    parser.add_argument("--checkpoint-minutes", type=float, default=10)
    parser.add_argument("--threads", type=int, default=1, help="of each process; more only on a machine of one's own")
    parser.add_argument("--processes", type=int, default=1, help="that share each step; quicker than threads")
    parser.add_argument("--seed", type=int, default=0, help="of the first weights")
    parser.add_argument("--compile", action="store_true", help="needs a C++ compiler")
    parsed = parser.parse_args(arguments)
    if bool(parsed.cool_down) != bool(parsed.into):
        parser.error("--cool-down and --into belong together")
    if parsed.clock and (parsed.cool_down or parsed.tokens < math.inf):
        parser.error("--clock takes the rates to 0 and ends the run: leave --cool-down and --tokens out")
    if parsed.cool_down and not 0 < parsed.cool_down < 1:
        parser.error("--cool-down is a share between 0 and 1")
    return parsed


def end_with(parent: int) -> None:
    """Ends this process as soon as the one that started it has ended, also by `kill -9`."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def work(rank: int, arguments: argparse.Namespace, meeting: str) -> None:
    """Trains as one of the processes."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    size = arguments.processes
    if size > 1:
        threading.Thread(target=end_with, args=[os.getppid()], daemon=True).start()
        distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    Trainer(arguments, Crew(rank, size)).train()
    if size > 1:
        distributed.destroy_process_group()


def main() -> None:
    """Trains as the command line says."""
    arguments = parse()
    for folder in (arguments.run, arguments.into):
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
    if arguments.processes == 1:
        work(0, arguments, "")
        return
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (arguments, f"{folder}/meeting"), nprocs=arguments.processes)


if __name__ == "__main__":
    main()
