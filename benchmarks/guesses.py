"""What prompt lookup gains on code that repeats itself, and what a JSON schema costs a token.

Plain and speculated answers take turns in one process with one loaded model, greedily; their tokens are compared.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from chatapp.generation import Options, Reply
from chatapp.generation.engine import Engine
from chatapp.workspace import Workspace

ROOT = Path(__file__).parents[1]
TOKENS = 160
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


def prompts(engine: Engine, tokens: int) -> dict[str, str]:
    """Code-editing prompts: a test file to go on with, and files to write once more, as much of them as fits."""
    cases = [
        f"    ({number}, {number + 1}, {2 * number + 1}),  # {number} and {number + 1} make {2 * number + 1}"
        for number in range(1, 12)
    ]
    table = "CASES = [\n    # first, second, sum\n" + "\n".join(cases) + "\n    (12,"
    found = {"go on with a table": table}
    for name in ("constraint", "stop"):
        text = (ROOT / f"chatapp/generation/decoding/{name}.py").read_text()[:2400]
        while engine.count_tokens(2 * text) + tokens > engine.context_length:
            text = text[: len(text) * 4 // 5]
        found[f"write {name}.py again"] = f"{text}\n\n\n# The same file once more:\n{text[: len(text) // 6]}"
    return found


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


def compare(engine: Engine, prompt: str, rounds: int, tokens: int) -> list[Pair]:
    """Answers in turns, the first round left out: it learns what steps cost."""
    plain = Options(temperature=0.0, seed=0, max_tokens=tokens, speculate=False)
    pairs = [
        Pair(answer(engine, prompt, plain), answer(engine, prompt, replace(plain, speculate=True)))
        for _ in range(rounds + 1)
    ]
    return pairs[1:]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="builtin")
    parser.add_argument("--backend", default="onnx")
    parser.add_argument("--precisions", nargs="+", default=["f32", "int8", "int4"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    given = parser.parse_args()
    workspace = Workspace()
    for precision in given.precisions:
        placement = workspace.choose_placement(given.backend, precision=precision)
        engine = workspace.open_model(given.model, placement).engine
        assert isinstance(engine, Engine)
        for name, prompt in prompts(engine, given.tokens).items():
            pairs = compare(engine, prompt, given.rounds, given.tokens)
            usage, tokens = pairs[-1].quick.usage, len(pairs[-1].plain.tokens)
            assert usage
            same = min(pair.same for pair in pairs)
            equal = "identical" if same == tokens else f"the same for {same} tokens"
            ratios = [pair.ratio for pair in pairs]
            verdict = "" if statistics.median(ratios) >= GOAL else f"; misses {GOAL}"
            print(
                f"{given.model} {precision:5} {name:24} {spread(ratios)} times as quick, {equal} of {tokens}, "
                f"{usage.accepted} of {usage.drafted} guesses right{verdict}",
                flush=True,
            )
        costs, asked = map(list, zip(*measure_schema(engine, given.rounds, given.tokens), strict=True))
        print(
            f"{given.model} {precision:5} {'a schema':24} adds {spread(costs)} percent to a token of an answer, "
            f"{spread(asked)} to one that the model is asked for"
            f"{'' if statistics.median(costs) <= COST else f'; misses {COST:.0f}'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
