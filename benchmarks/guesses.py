"""What prompt lookup gains on code that repeats itself, and what a JSON schema costs a token.

Plain and speculated answers take turns in one process with one loaded model, greedily; their tokens are compared.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from chatapp.generation import Options, Reply
from chatapp.generation.engine import Engine
from chatapp.workspace import Workspace

ROOT = Path(__file__).parents[1]
TOKENS = 160
PAUSE = 0.3
"""Seconds after which the threads of a runtime that has computed no longer wait actively for more."""
PEERS = {"f32": "f32", "int8": "q8_0"}
"""The precisions of llama.cpp that `chatapp export gguf` writes, by ours."""
GOAL, COST = 1.8, 10.0
"""Times as quick as plain steps; percent that a schema may add."""
SCHEMA = json.dumps({
    "type": "array", "minItems": 20,
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array",
            "items": {"enum": ["red", "green", "blue"]}}},
        "required": ["name", "age", "tags"],
    },
})  # fmt: skip


def prompts(engine: Engine, tokens: int) -> Iterator[tuple[str, str, str]]:
    """Code to go on with, and files to write once more, as much as fits: the kind, what it is, and the prompt."""
    cases = [
        f"    ({number}, {number + 1}, {2 * number + 1}),  # {number} and {number + 1} make {2 * number + 1}"
        for number in range(1, 12)
    ]
    yield "go on", "a table of sums", "CASES = [\n    # first, second, sum\n" + "\n".join(cases) + "\n    (12,"
    for path in sorted((ROOT / "tests/server").glob("test_*.py"))[::3]:
        yield "go on", path.name, shorten(engine, path, 1, tokens)
    for path in sorted((ROOT / "chatapp/generation/decoding").glob("[a-z]*.py"))[1::4]:
        text = shorten(engine, path, 2, tokens)
        begun = text[: text.index("\n", len(text) // 6) + 1]
        yield "again", path.name, f"{text}\n\n\n# The same file once more:\n{begun}"


def shorten(engine: Engine, path: Path, times: int, tokens: int) -> str:
    """The first lines of a file, which so many times and with so many tokens after them fit the context."""
    text = path.read_text()[:2400]
    while engine.count_tokens(times * text) + tokens > engine.context_length:
        text = text[: len(text) * 4 // 5]
    return text[: text.rindex("\n") + 1]


@dataclass
class Pair:
    """A plain and a speculated answer, one after the other."""

    plain: Reply
    quick: Reply

    @property
    def ratio(self) -> float:
        """How many times quicker the tokens after the first came."""
        return (self.quick.tokens_per_second or 0.0) / (self.plain.tokens_per_second or 1.0)

    @property
    def same(self) -> int:
        """Tokens until the first that differs; all of them where none does."""
        pairs = zip_longest(self.plain.tokens, self.quick.tokens)
        return next((place for place, (one, other) in enumerate(pairs) if not one or not other or one.id != other.id),
                    len(self.plain.tokens))  # fmt: skip


def answer(engine: Engine, prompt: str, options: Options) -> Reply:
    """A whole answer."""
    reply = Reply()
    for delta in engine.complete(prompt, options):
        reply.add(delta)
    return reply


def compare(
    engine: Engine, prompt: str, rounds: int, tokens: int, llama: "LlamaCpp | None" = None
) -> tuple[list[Pair], list[float]]:
    """Answers in turns, and llama.cpp's speed after each; the first round is left out: it learns what steps cost."""
    going_on = dict.fromkeys(engine.tokenizer.eos, -1000.0)
    plain = Options(temperature=0.0, seed=0, max_tokens=tokens, speculate=False, logit_bias=going_on)
    pairs, speeds = list[Pair](), list[float]()
    for _ in range(rounds + 1):
        pairs.append(Pair(answer(engine, prompt, plain), answer(engine, prompt, replace(plain, speculate=True))))
        speeds += [llama.measure()] if llama else []
    return pairs[1:], speeds[1:]


def measure_schema(engine: Engine, rounds: int, tokens: int) -> Iterator[tuple[float, float]]:
    """Percent that a schema adds to a token of an answer, and to one that the model is asked for.

    What must follow is not asked for, unless log-probabilities are wanted.
    """
    usual = Options(temperature=0.8, seed=0, max_tokens=tokens, speculate=False, logit_bias={})
    for place in range(rounds + 1):
        whole, asked = list[float](), list[float]()
        for options in (usual, replace(usual, json_schema=SCHEMA)):
            reply = answer(engine, "people = ", options)
            whole.append(sum(reply.latencies[1:]) / len(reply.latencies[1:]))
            asked.append(statistics.median(answer(engine, "people = ", replace(options, logprobs=0)).latencies))
        if place:
            yield 100 * (whole[1] / whole[0] - 1), 100 * (asked[1] / asked[0] - 1)


def spread(values: list[float]) -> str:
    """The median, and the least and the most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


class LlamaCpp:
    """llama.cpp's plain steps with the same weights, in a process of its own; see peers.py."""

    def __init__(self, python: str, folder: Path, checkpoint: Path, precision: str):
        name, copy = PEERS[precision], folder / "copy"
        shutil.copytree(checkpoint, copy)
        tokenizer = json.loads((copy / "tokenizer.json").read_text())
        tokenizer["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
        (copy / "tokenizer.json").write_text(json.dumps(tokenizer))  # llama.cpp may have no name for its own way
        export = [sys.executable, "-m", "chatapp", "export", "gguf", str(copy), f"{folder}/made", "--precision", name]
        subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
        (folder / "exports").mkdir()
        next((folder / "made").rglob("*.gguf")).replace(folder / "exports" / f"copy-{name}.gguf")
        command = [python, str(ROOT / "benchmarks/peers.py"), "llama.cpp", str(folder), "copy", name, "--serve"]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._read()

    def _read(self) -> dict[str, float]:
        assert self.process.stdout
        found: dict[str, float] = json.loads(self.process.stdout.readline())
        return found

    def measure(self) -> float:
        """Tokens per second after 64 tokens, while nothing else computes."""
        assert self.process.stdin
        time.sleep(PAUSE)
        print("decode", file=self.process.stdin, flush=True)
        speed = self._read()["value"]
        time.sleep(PAUSE)
        return speed


def report(label: str, pairs: list[Pair], plain: list[float]) -> float:
    """Print how a prompt fared, `plain` being llama.cpp's tokens per second beside it; the median ratio."""
    usage, tokens = pairs[-1].quick.usage, len(pairs[-1].plain.tokens)
    assert usage
    same = min(pair.same for pair in pairs)
    equal = "identical" if same == tokens else f"the same for {same} tokens"
    ratios = [pair.ratio for pair in pairs]
    beside = [(pair.quick.tokens_per_second or 0.0) / other for pair, other in zip(pairs, plain, strict=False)]
    print(
        f"{label} {spread(ratios)} times as quick, {equal} of {tokens}, "
        f"{usage.accepted} of {usage.drafted} guesses right"
        + (f"; {spread(beside)} times llama.cpp" if beside else ""),
        flush=True,
    )
    return statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="builtin")
    parser.add_argument("--backend", default="onnx")
    parser.add_argument("--precisions", nargs="+", default=["f32", "int8", "int4"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--llama", metavar="PYTHON", help="a Python with llama-cpp-python, to be measured beside")
    given = parser.parse_args()
    workspace = Workspace()
    for precision in given.precisions:
        placement = workspace.choose_placement(given.backend, precision=precision)
        engine = workspace.open_model(given.model, placement).engine
        assert isinstance(engine, Engine)
        with TemporaryDirectory() as folder:
            beside = given.llama and precision in PEERS
            checkpoint = workspace.open_store().get(given.model).folder
            llama = LlamaCpp(given.llama, Path(folder), checkpoint, precision) if beside else None
            medians = dict[str, list[float]]()
            for kind, name, prompt in prompts(engine, given.tokens):
                pairs, plain = compare(engine, prompt, given.rounds, given.tokens, llama)
                label = f"{given.model} {precision:5} {kind:6} {name:20}"
                medians.setdefault(kind, []).append(report(label, pairs, plain))
        for kind, ratios in medians.items():
            verdict = "" if statistics.median(ratios) >= GOAL else f"; misses {GOAL}"
            print(f"{given.model} {precision:5} {kind:6} {'median':20} {spread(ratios)}{verdict}")
        costs, asked = map(list, zip(*measure_schema(engine, given.rounds, given.tokens), strict=True))
        print(
            f"{given.model} {precision:5} {'a schema':27} adds {spread(costs)} percent to a token of an answer, "
            f"{spread(asked)} to one that the model is asked for"
            f"{'' if statistics.median(costs) <= COST else f'; misses {COST:.0f}'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
