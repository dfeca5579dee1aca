"""Measures how much a model knows by heart: the share of files it goes on with word for word, from a prefix.

Takes files that it was trained on, and as a comparison held-out files, where only what is usual can be guessed; those
of npm's packages apart, where there are any.
Writes memorisation.json into the work folder.
"""

# torch has no types as this project checks it.
# mypy: disallow-untyped-decorators=False

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from lines import NPM, SETS, has_npm, read_documents
from model import Model, read_model
from npm import is_npm
from samples import PACKAGE_TOKENS, chosen_files
from tokenizer import FILE_SEP
from tokenizers import Tokenizer
from torch import Tensor

PREFIX_TOKENS = 128
REPRODUCED_TOKENS = 50
BATCH = 50


def trained_pieces(
    work: Path, count: int, chance: random.Random, *, of_npm: bool = False, package_tokens: int = PACKAGE_TOKENS
) -> list[list[int]]:
    """Draws a piece of prefix and continuation from each of so many training files: of Python, or of npm's packages."""
    tokens = np.load(work / "train.npy", mmap_mode="r")
    listed = json.loads((work / "train_files.json").read_text(encoding="utf-8"))
    wanted = {file["start"] for file in listed if is_npm(file["package"]) == of_npm}
    files = [tokens[a:b] for a, b in chosen_files(work, package_tokens, len(tokens)) if a in wanted]
    return pieces([file.tolist() for file in chance.sample(files, min(len(files), 2 * count))], count, chance)


def heldout_pieces(work: Path, count: int, chance: random.Random, names: Sequence[str] = SETS) -> list[list[int]]:
    """Draws a piece from each held-out file of the sets of these names."""
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    texts = [document["text"] for name in names for document in read_documents(work / f"{name}.jsonl")]
    return pieces([encoding.ids for encoding in tokenizer.encode_batch(texts)], count, chance)


def pieces(files: list[list[int]], count: int, chance: random.Random) -> list[list[int]]:
    """Cuts one piece at a random place out of each file that is long enough; a first token begins a file."""
    size = PREFIX_TOKENS + REPRODUCED_TOKENS
    drawn = []
    for ids in files:
        whole = [FILE_SEP, *ids]
        if len(whole) >= size:
            begin = chance.randrange(len(whole) - size + 1)
            drawn.append(whole[begin : begin + size])
    return drawn[:count]


@torch.no_grad()
def agreement(model: Model, batch: Tensor) -> Tensor:
    """Counts the tokens that greedy continuation agrees in before it first differs, (n,)."""
    caches: list[list[Tensor]] = [[] for _ in model.layers]
    hidden = model.hidden(batch[:, :PREFIX_TOKENS], caches)[:, -1:]
    agreed = torch.zeros(len(batch), dtype=torch.long)
    going = torch.ones(len(batch), dtype=torch.bool)
    for position in range(PREFIX_TOKENS, batch.shape[1]):
        # As long as it agrees, the token made is the file's own; where it does not, nothing is counted any more.
        going &= model.logits(hidden)[:, 0].argmax(-1) == batch[:, position]
        if not going.any():
            break
        agreed += going
        hidden = model.hidden(batch[:, position : position + 1], caches, position)
    return agreed


def measure(model: Model, drawn: list[list[int]]) -> dict[str, float]:
    """Sums up: files, the share reproduced in per cent, tokens agreed in."""
    agreed = torch.cat([agreement(model, torch.tensor(drawn[i : i + BATCH])) for i in range(0, len(drawn), BATCH)])
    return {
        "files": len(drawn),
        "reproduced": int((agreed >= REPRODUCED_TOKENS).sum()),
        "mean_tokens": round(float(agreed.float().mean()), 2),
        "longest_tokens": int(agreed.max()),
    }


def main() -> None:
    """Parses the command line, measures and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="an exported model")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--package-tokens", type=int, default=PACKAGE_TOKENS, help="as given to samples.py")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model, chance, work = read_model(arguments.model), random.Random(arguments.seed), arguments.work
    limit = arguments.package_tokens
    report: dict[str, object] = {
        "prefix_tokens": PREFIX_TOKENS,
        "tokens": REPRODUCED_TOKENS,
        "trained": measure(model, trained_pieces(work, arguments.files, chance, package_tokens=limit)),
        "heldout": measure(model, heldout_pieces(work, arguments.files, chance)),
    }
    if has_npm(work):
        trained = trained_pieces(work, arguments.files, chance, of_npm=True, package_tokens=limit)
        heldout = heldout_pieces(work, arguments.files, chance, (NPM,))
        report["javascript"] = {"trained": measure(model, trained), "heldout": measure(model, heldout)}
    print(json.dumps(report, indent=1))
    (arguments.work / "memorisation.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
