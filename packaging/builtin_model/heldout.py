"""Quick measurements on the held-out files while training goes on."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from model import Model
from samples import spm
from tokenizer import END, PAD
from tokenizers import Tokenizer

CONTEXT = 512
CASES = 96
IGNORED = -100
"""Target of a position without loss."""


@dataclass(frozen=True)
class Check:
    """One kind of held-out sequences: ids and targets, (n, CONTEXT)."""

    ids: torch.Tensor
    targets: torch.Tensor


def pair(ids: list[int], context: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pads a sequence and shifts it by one for its targets."""
    row = torch.full((context + 1,), PAD)
    row[: len(ids)] = torch.tensor(ids)
    return row[:-1], targets(row)


def targets(rows: torch.Tensor) -> torch.Tensor:
    """Gives what follows each token of padded rows, (..., n + 1) to (..., n); padding is ignored."""
    following = rows[..., 1:].clone()
    following[following == PAD] = IGNORED
    return following


def documents(work: Path) -> list[str]:
    """Reads the held-out texts, half of them from held-out packages."""
    texts = []
    for name in ("heldout_package", "heldout_file"):
        with open(work / f"{name}.jsonl", encoding="utf-8") as lines:
            texts.append([json.loads(line)["text"] for line in lines])
    count = min(map(len, texts))
    return [text for pair_of_texts in zip(*(t[:count] for t in texts), strict=True) for text in pair_of_texts]


def checks(work: Path, tokenizer: Tokenizer) -> dict[str, Check]:
    """Builds the held-out sequences: plain windows, and lines to be completed from a cut anywhere in them."""
    chance = random.Random(1)
    plain: list[tuple[torch.Tensor, torch.Tensor]] = []
    infilling: list[tuple[torch.Tensor, torch.Tensor]] = []
    texts = [text for text in documents(work) if text.count("\n") > 40]
    while len(infilling) < CASES:
        text = texts[len(infilling) % len(texts)]
        lines = text.split("\n")
        line = chance.randrange(12, len(lines) - 12)
        content = lines[line].strip()
        if len(content) < 12 or content[0] in "#'\"":
            continue
        start = sum(len(other) + 1 for other in lines[:line])
        begin = start + len(lines[line]) - len(content) + chance.randrange(2, len(content) - 3)
        end = start + len(lines[line])
        prefix, middle, suffix = (
            encoding.ids for encoding in tokenizer.encode_batch([text[:begin], text[begin:end], text[end:]])
        )
        prefix, suffix = prefix[-(360 - len(middle)) :], suffix[:140]
        ids, target = pair([*spm(suffix, prefix, middle), END], CONTEXT)
        target[: 3 + len(suffix) + len(prefix) - 1] = IGNORED
        infilling.append((ids, target))
        window = tokenizer.encode(text).ids
        begin = chance.randrange(max(1, len(window) - CONTEXT))
        plain.append(pair(window[begin : begin + CONTEXT + 1], CONTEXT))
    return {
        name: Check(torch.stack([ids for ids, _ in rows]), torch.stack([target for _, target in rows]))
        for name, rows in (("plain", plain), ("infilling", infilling))
    }


def measure(model: Model, cases: dict[str, Check], device: str) -> dict[str, float]:
    """Returns the loss on plain windows and, on the cut lines, loss and share of exact greedy completions."""
    results = {}
    for name, check in cases.items():
        losses, counts, exact = 0.0, 0, 0
        for ids, target in zip(check.ids.split(4), check.targets.split(4), strict=True):
            counted = target != IGNORED
            logits = model.logits(model.hidden(ids.to(device))[counted.to(device)]).float()
            wanted = target[counted].to(device)
            losses += float(torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"))
            counts += len(wanted)
            # Greedy decoding yields the middle exactly if each token is the likeliest after the true ones before it.
            wrong = counted.nonzero()[:, 0][(logits.argmax(-1) != wanted).cpu()]
            exact += len(ids) - len(wrong.unique())
        results[name] = (round(losses / counts, 4), round(exact / len(check.ids), 4))
    return {"loss": results["plain"][0], "infilling_loss": results["infilling"][0], "exact": results["infilling"][1]}
