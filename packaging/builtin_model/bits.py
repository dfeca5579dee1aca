"""Counts the bits that a model needs for the bytes of held-out files."""

# torch has no types as this project checks it.
# mypy: disallow-untyped-decorators=False, warn-return-any=False

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from lines import SETS, read_documents
from model import Model
from tokenizer import FILE_SEP
from tokenizers import Tokenizer


def windows(work: Path, name: str, context: int, count: int) -> tuple[list[tuple[list[int], int]], int]:
    """Draws held-out windows, each with the position it is scored from, and counts the bytes scored."""
    chance = random.Random(0)
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    drawn: list[tuple[list[int], int]] = []
    size = 0
    documents = read_documents(work / f"{name}.jsonl")
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


def bits_per_byte(
    work: Path, bits: Callable[[list[tuple[list[int], int]]], float], context: int, names: Sequence[str] = SETS
) -> dict[str, float]:
    """Measures held-out sets: those of Python, or others."""
    result = {}
    for name in names:
        drawn, size = windows(work, name, context, 120)
        result[name] = round(bits(drawn) / size, 4)
    return result
