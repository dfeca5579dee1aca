"""Measures completers on the held-out files: bits per byte and exact completions of 300 lines.

Without --model it measures the baselines and writes baselines.json; with one, evaluation.json.
"""

# torch has no types as this project checks it.
# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False, warn-return-any=False

import argparse
import difflib
import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from baselines import InFile, NextLine, NGram, ngram_bits
from model import Config, Model
from safetensors.torch import load_file
from samples import spm
from tokenizer import FILE_SEP, SPECIAL
from tokenizers import Tokenizer
from torch import Tensor

from chatapp.completion.request import LONG_MATCH, SURE
from chatapp.generation import Options
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from model_store import Store

Completer = Callable[[str, str], tuple[str, float]]
"""Takes the text before and after the cursor; returns the rest of the line and a confidence."""

SETS = ("heldout_package", "heldout_file")
SUFFIX_TOKENS, MIDDLE_TOKENS = 300, 48
SHOWN = 20
"""Unpicked examples in the report."""


@dataclass(frozen=True)
class Case:
    """A held-out line with what stands before and after it, and where it is cut."""

    source: str
    before: str
    line: str
    after: str
    cut: int

    def at(self, task: str) -> tuple[str, str, str]:
        """Returns prefix, suffix and the wanted text for `rest_of_line` or `whole_line`."""
        cut = self.cut if task == "rest_of_line" else len(self.line) - len(self.line.lstrip())
        return self.before + self.line[:cut], self.after, self.line[cut:].strip()


TASKS = ("rest_of_line", "whole_line")


def read_set(work: Path, name: str) -> list[dict[str, str]]:
    """Reads one of the held-out sets."""
    with open(work / f"{name}.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def is_code(text: str) -> bool:
    """Says whether a line is a statement worth completing: no import, comment, string or prose."""
    if not 12 <= len(text) <= 90 or not re.match(r"[\w(\[{@*-]", text) or not re.search(r"[=(.:]", text):
        return False
    prose = re.match(r"[A-Z][a-z]+ [a-z]+ |([a-z]+ ){3}[a-z]+", text) and "=" not in text
    return not prose and not re.match(r"(from|import) ", text)


def draw_cases(work: Path, count: int, seed: int) -> list[Case]:
    """Draws lines from held-out packages and held-out files in turn."""
    chance = random.Random(seed)
    sets = [read_set(work, name) for name in SETS]
    cases: list[Case] = []
    while len(cases) < count:
        document = chance.choice(sets[len(cases) % 2])
        lines = document["text"].split("\n")
        if len(lines) < 30:
            continue
        number = chance.randrange(8, len(lines) - 4)
        line = lines[number]
        if is_code(line.strip()):
            cut = len(line) - len(line.lstrip()) + chance.randrange(2, len(line.strip()) - 3)
            before, after = "\n".join(lines[:number]) + "\n", "\n" + "\n".join(lines[number + 1 :])
            cases.append(Case(f"{document['package']} {document['path']}", before, line, after, cut))
    return cases


class TorchModel:
    """Completes with the exported model in torch; confidence is the mean probability of its tokens."""

    def __init__(self, folder: Path, *, take_back: bool) -> None:
        """With `take_back`, the prefix's last token is chosen again among those that begin with its text."""
        self.model, self.tokenizer, self.take_back = read_model(folder), tokenizer_of(folder), take_back
        size = self.tokenizer.get_vocab_size()
        self.texts = [self.tokenizer.decode([i], skip_special_tokens=False) for i in range(size)]

    def __call__(self, prefix: str, suffix: str) -> tuple[str, float]:
        """Completes the line greedily."""
        suffix_ids = self.tokenizer.encode(suffix[:4000]).ids[:SUFFIX_TOKENS]
        room = self.model.config.context - len(suffix_ids) - MIDDLE_TOKENS - 8
        prefix_ids = self.tokenizer.encode(prefix[-8000:]).ids[-room:]
        part = self.tokenizer.decode(prefix_ids[-1:]) if self.take_back else ""
        if part:
            prefix_ids = prefix_ids[:-1]
        text, confidence = self.generate(spm(suffix_ids, prefix_ids, []), part)
        return text[len(part) :].split("\n")[0], confidence

    @torch.no_grad()
    def generate(self, ids: list[int], part: str) -> tuple[str, float]:
        """Generates to the end of the line; the first token begins with `part`."""
        caches: list[list[Tensor]] = [[] for _ in self.model.layers]
        hidden = self.model.hidden(torch.tensor([ids]), caches)
        made: list[int] = []
        chances: list[float] = []
        while len(made) < MIDDLE_TOKENS:
            scores = self.model.logits(hidden[0, -1]).log_softmax(-1)
            if part and not made:
                scores[torch.tensor([not text.startswith(part) for text in self.texts])] = -math.inf
                scores = scores.log_softmax(-1)
            best = int(scores.argmax())
            chances.append(float(scores[best]))
            if best < len(SPECIAL):
                break
            made.append(best)
            if "\n" in self.tokenizer.decode(made)[len(part) :]:
                break
            hidden = self.model.hidden(torch.tensor([[best]]), caches, len(ids) + len(made) - 1)
        return self.tokenizer.decode(made), math.exp(sum(chances) / len(chances))


class Product:
    """Completes as `chatapp complete` does, at the precision it chooses; confidence is the mean probability."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.engine = open_engine(Store(store), str(folder), PlacementOptions("onnx"))

    def __call__(self, prefix: str, suffix: str) -> tuple[str, float]:
        """Completes the line greedily."""
        options = Options(temperature=0.0, max_tokens=MIDDLE_TOKENS, stop=("\n",), logprobs=0)
        deltas = list(self.engine.infill(prefix, suffix, options))
        logprobs = [token.logprob or 0.0 for delta in deltas for token in delta.tokens]
        return "".join(delta.text for delta in deltas), math.exp(sum(logprobs) / max(1, len(logprobs)))


def together(model: Completer) -> Completer:
    """Takes the file's own text where the match is long or the model unsure, as `chatapp complete` does."""
    matcher = InFile()

    def complete(prefix: str, suffix: str) -> tuple[str, float]:
        matched, length = matcher(prefix, suffix)
        if length >= LONG_MATCH:
            return matched, 1.0
        made, confidence = model(prefix, suffix)
        return (made, confidence) if confidence >= SURE or not matched else (matched, 0.0)

    return complete


def read_model(folder: Path) -> Model:
    """Reads an exported model."""
    stated = json.loads((folder / "config.json").read_text())
    model = Model(
        Config(
            dim=stated["hidden_size"],
            layers=stated["num_hidden_layers"],
            heads=stated["num_attention_heads"],
            kv_heads=stated["num_key_value_heads"],
            ffn=stated["intermediate_size"],
            vocabulary=stated["vocab_size"],
            context=stated["max_position_embeddings"],
        )
    )
    weights = load_file(folder / "model.safetensors")
    model.load_state_dict({name.removeprefix("model."): weight.float() for name, weight in weights.items()})
    return model.eval()


def tokenizer_of(folder: Path) -> Tokenizer:
    """Reads the tokenizer beside a model or a corpus."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@dataclass(frozen=True)
class Result:
    """What a completer made of a case."""

    case: Case
    wanted: str
    text: str
    confidence: float

    @property
    def exact(self) -> bool:
        """Says whether nothing but outer spaces differs."""
        return self.text.strip() == self.wanted


def run(completer: Completer, cases: list[Case], task: str) -> list[Result]:
    """Lets a completer work on all cases."""
    results = []
    for case in cases:
        prefix, suffix, wanted = case.at(task)
        text, confidence = completer(prefix, suffix)
        results.append(Result(case, wanted, text, round(confidence, 3)))
    return results


def figures(results: list[Result]) -> dict[str, float]:
    """Sums results up, in per cent; cases of held-out packages and held-out files stand in turn."""
    surest = sorted(results, key=lambda r: -r.confidence)[: len(results) // 4]
    groups = {"exact": results, "packages": results[0::2], "files": results[1::2], "surest_quarter": surest}
    shares = {name: round(100 * sum(r.exact for r in group) / len(group), 1) for name, group in groups.items()}
    likeness = [difflib.SequenceMatcher(None, r.text.strip(), r.wanted).ratio() for r in results]
    return {**shares, "likeness": round(sum(likeness) / len(likeness), 3)}


def offered(results: list[Result]) -> dict[str, float]:
    """Says in per cent how often a completion would be shown at the confidence asked for, and is then exact."""
    shown = [r for r in results if r.confidence >= SURE and r.text.strip()]
    exact = sum(r.exact for r in shown) / max(1, len(shown))
    return {"offered": round(100 * len(shown) / len(results), 1), "exact_of_offered": round(100 * exact, 1)}


def examples(results: list[Result], count: int) -> list[dict[str, object]]:
    """Lists the first cases as they came, unpicked."""
    return [
        {
            "source": result.case.source,
            "given": result.case.line.strip().removesuffix(result.wanted),
            "wanted": result.wanted,
            "completed": result.text.strip(),
            "exact": result.exact,
            "confidence": result.confidence,
        }
        for result in results[:count]
    ]


def windows(work: Path, name: str, context: int, count: int) -> tuple[list[tuple[list[int], int]], int]:
    """Draws held-out windows, each with the position it is scored from, and counts the bytes scored."""
    chance = random.Random(0)
    tokenizer = tokenizer_of(work)
    drawn: list[tuple[list[int], int]] = []
    size = 0
    documents = read_set(work, name)
    chance.shuffle(documents)
    for document in documents[:count]:
        ids = tokenizer.encode(document["text"]).ids
        start = chance.randrange(0, max(1, len(ids) - 64), context // 2)
        window = ids[start : start + context]
        # At a file's start everything counts, elsewhere what has half a window before it.
        scored = 0 if start == 0 else min(context // 2, len(window) // 2)
        drawn.append((window, scored))
        size += len(tokenizer.decode(window[scored:]).encode())
    return drawn, size


@torch.no_grad()
def model_bits(model: Model, drawn: list[tuple[list[int], int]]) -> float:
    """Counts the bits the model needs for each window from its scored position on."""
    bits = 0.0
    for ids, scored in drawn:
        scores = model.logits(model.hidden(torch.tensor([[FILE_SEP, *ids[:-1]]])))[0].log_softmax(-1)
        bits -= float(scores.gather(1, torch.tensor(ids)[:, None])[scored:].sum()) / math.log(2)
    return bits


def bits_per_byte(work: Path, bits: Callable[[list[tuple[list[int], int]]], float], context: int) -> dict[str, float]:
    """Measures both held-out sets."""
    result = {}
    for name in SETS:
        drawn, size = windows(work, name, context, 120)
        result[name] = round(bits(drawn) / size, 4)
    return result


def measure(completers: dict[str, Completer], cases: list[Case]) -> dict[str, object]:
    """Runs each completer on both tasks."""
    report: dict[str, object] = {}
    for name, completer in completers.items():
        results = {task: run(completer, cases, task) for task in TASKS}
        # A baseline's confidence is a count or a length, so what it would offer cannot be said.
        summaries = {task: figures(r) | (offered(r) if "model" in name else {}) for task, r in results.items()}
        print(name, json.dumps(summaries), flush=True)
        report[name] = {task: {**summaries[task], "examples": examples(results[task], SHOWN)} for task in TASKS}
    return report


def main() -> None:
    """Parses the command line, measures and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="an exported model; without it the baselines are measured")
    parser.add_argument("--torch", action="store_true", help="also complete in float32 with PyTorch")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="report file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    work: Path = arguments.work
    cases = draw_cases(work, arguments.cases, arguments.seed)
    completers: dict[str, Completer]
    if arguments.model:
        product = Product(arguments.model, work / "store")
        completers = {"product_model": product, "product_model_and_matcher": together(product)}
        if arguments.torch:
            healed = TorchModel(arguments.model, take_back=True)
            completers |= {
                "model": TorchModel(arguments.model, take_back=False),
                "model_last_token_taken_back": healed,
                "model_last_token_taken_back_and_matcher": together(healed),
            }
        model = read_model(arguments.model)
        bits = bits_per_byte(work, lambda drawn: model_bits(model, drawn), model.config.context)
    else:
        next_line = NextLine(work, [case.before for case in cases])
        completers = {"in_file": InFile(), "ngram": NGram(work), "next_line": next_line}
        tokens = np.load(work / "train.npy")
        size = tokenizer_of(work).get_vocab_size()
        bits = bits_per_byte(work, lambda drawn: ngram_bits(tokens, drawn, vocabulary=size), 1024)
    print("bits per byte", bits, flush=True)
    report = {"cases": len(cases), "seed": arguments.seed, "bits_per_byte": bits}
    report |= measure(completers, cases)
    out = arguments.out or work / ("evaluation.json" if arguments.model else "baselines.json")
    out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
