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


def read_texts(file: Path) -> list[str]:
    """Reads the texts of one set; `lines` reads the like, but needs what is not there where a device is lent."""
    with open(file, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def documents(work: Path) -> list[str]:
    """Reads the held-out texts of Python, half of them from held-out packages."""
    texts = [read_texts(work / f"{name}.jsonl") for name in ("heldout_package", "heldout_file")]
    count = min(map(len, texts))
    return [text for pair_of_texts in zip(*(t[:count] for t in texts), strict=True) for text in pair_of_texts]


def npm_documents(work: Path) -> list[str]:
    """Reads the texts of npm's packages that were set aside, mixed; none where the corpus has Python alone."""
    file = work / "heldout_npm.jsonl"
    texts = read_texts(file) if file.exists() else []
    random.Random(1).shuffle(texts)
    return texts


def checks(work: Path, tokenizer: Tokenizer) -> dict[str, Check]:
    """Builds the held-out sequences of Python and, under names of their own, of JavaScript where there is any."""
    npm = npm_documents(work)
    others = build(npm, tokenizer, "/*'\"`") if npm else {}
    return build(documents(work), tokenizer, "#'\"") | {f"npm_{name}": check for name, check in others.items()}


def is_worth(content: str, skipped: str) -> bool:
    """Says whether a line can be cut: it is long enough, and begins with nothing that is skipped."""
    return len(content) >= 12 and content[0] not in skipped


def can_be_cut(text: str, skipped: str) -> bool:
    """Says whether a text has a line that can be cut; one that has none would be asked for it without end."""
    return any(is_worth(line.strip(), skipped) for line in text.split("\n")[12:-12])


def build(texts: list[str], tokenizer: Tokenizer, skipped: str) -> dict[str, Check]:
    """Builds plain windows, and lines to be completed from a cut anywhere in them; none with a skipped beginning."""
    chance = random.Random(1)
    plain: list[tuple[torch.Tensor, torch.Tensor]] = []
    infilling: list[tuple[torch.Tensor, torch.Tensor]] = []
    texts = [text for text in texts if text.count("\n") > 40 and can_be_cut(text, skipped)]
    while len(infilling) < CASES:
        text = texts[len(infilling) % len(texts)]
        lines = text.split("\n")
        line = chance.randrange(12, len(lines) - 12)
        content = lines[line].strip()
        if not is_worth(content, skipped):
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
    """Returns the loss on plain windows and, on the cut lines, loss and share of exact greedy completions.

    Those of npm's packages have names of their own.
    """
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
    named: dict[str, float] = {}
    for kind in ("", "npm_") if "npm_plain" in results else ("",):
        (loss, _), (infilling, right) = results[f"{kind}plain"], results[f"{kind}infilling"]
        named |= {f"{kind}loss": loss, f"{kind}infilling_loss": infilling, f"{kind}exact": right}
    return named
