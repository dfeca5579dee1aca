"""Cuts training sequences out of the encoded corpus: plain windows, fill-in-the-middle and repeated passages."""

# torch has no types as this project checks it.
# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False, warn-return-any=False

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from corpus import TEST_PATH
from tokenizer import END, FILE_SEP, FIM_MIDDLE, FIM_PREFIX, FIM_SUFFIX, PAD
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

IGNORED = -100
"""Target of a position without loss."""

EXTRA_CUTS = 4
"""Cuts at characters inside each prefix, so that the model often sees a word begun in one piece end in another."""


@dataclass(frozen=True)
class Segment:
    """A run of tokens within one file."""

    tokens: np.ndarray  # (n,)
    starts: bool
    ends: bool


def spm(suffix: list[int], prefix: list[int], middle: list[int]) -> list[int]:
    """Lays out a fill-in-the-middle sequence, suffix first, in StarCoder's spelling."""
    return [FIM_PREFIX, FIM_SUFFIX, *suffix, FIM_MIDDLE, *prefix, *middle]


def cut(text: str, chance: random.Random) -> tuple[int, int]:
    """Chooses what to take out: mostly the rest of a line or a whole line, sometimes several or any characters."""
    starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
    kind = chance.random()
    if kind < 0.9 and len(starts) > 8:
        for _ in range(10):
            line = chance.randrange(2, len(starts) - 1)
            content = text[starts[line] : starts[line + 1] - 1]
            if content.strip():
                break
        begin = starts[line] + len(content) - len(content.lstrip())
        end = starts[line] + len(content)
        if kind < 0.5:
            return chance.randrange(begin, max(begin, end - 1) + 1), end
        if kind < 0.75:
            return begin, end
        return begin, max(begin, starts[min(len(starts) - 2, line + chance.randrange(1, 6)) + 1] - 1)
    begin = chance.randrange(len(text))
    return begin, min(len(text), begin + chance.randrange(1, 300))


class Samples(IterableDataset[tuple[Tensor, Tensor]]):
    """An endless stream of (ids, targets) of one context length, in an order given by the seed."""

    def __init__(self, work: Path, *, context: int, seed: str, package_tokens: int | None, repeats: float) -> None:
        self.work, self.context, self.seed, self.repeats = work, context, seed, repeats
        self.tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
        self.tokens = np.load(work / "train.npy", mmap_mode="r")
        self.files = self.choose_files(package_tokens)

    def choose_files(self, package_tokens: int | None) -> list[tuple[int, int]]:
        """Lists files as (start, end); with a limit, leaves out tests and what exceeds it in a package."""
        files = json.loads((self.work / "train_files.json").read_text())
        ends = [*(file["start"] for file in files[1:]), len(self.tokens)]
        taken: dict[str, int] = {}
        chosen = []
        for file, end in zip(files, ends, strict=True):
            name, size = file["package"], end - file["start"]
            full = package_tokens is not None and taken.get(name, 0) + size > package_tokens
            if not full and (package_tokens is None or not TEST_PATH.search(file["path"])):
                taken[name] = taken.get(name, 0) + size
                chosen.append((file["start"], end))
        return chosen

    def size(self) -> int:
        """Counts the tokens of the chosen files."""
        return sum(end - start for start, end in self.files)

    def segments(self, chance: random.Random) -> Iterator[Segment]:
        """Yields all files in pieces of about a context, shuffled, again and again."""
        worker = get_worker_info()
        length = self.context - 16
        while True:
            pieces = []
            for start, end in self.files:
                # A random phase lets pieces begin anywhere in a file.
                for begin in range(start - chance.randrange(length), end, length):
                    piece = max(start, begin), min(end, begin + length)
                    if piece[1] - piece[0] >= 48:
                        pieces.append((*piece, piece[0] == start, piece[1] == end))
            chance.shuffle(pieces)
            for begin, end, starts, ends in pieces[worker.id :: worker.num_workers] if worker else pieces:
                yield Segment(self.tokens[begin:end], starts, ends)

    def infilling(self, segment: Segment, chance: random.Random) -> list[int]:
        """Makes a fill-in-the-middle sample, its pieces tokenised apart."""
        text = self.tokenizer.decode(segment.tokens.tolist(), skip_special_tokens=False)
        begin, end = cut(text, chance)
        cuts = sorted({0, begin, *(chance.randrange(begin + 1) for _ in range(EXTRA_CUTS))})
        prefix = [text[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
        suffix_ids, middle_ids, *prefix_ids = (
            encoding.ids for encoding in self.tokenizer.encode_batch([text[end:], text[begin:end], *prefix])
        )
        return [*spm(suffix_ids, [i for ids in prefix_ids for i in ids], middle_ids), END]

    def sample(self, segment: Segment, chance: random.Random) -> list[int]:
        """Makes one sample of a segment."""
        kind = chance.random()
        ids: list[int] = segment.tokens.tolist()
        if kind < self.repeats:
            # A passage, something else, the passage again: copying can be learnt long before language is.
            passage = chance.randrange(16, max(17, len(ids) // 2))
            other = chance.randrange(max(1, len(ids) - 2 * passage))
            return (ids[: passage + other] + ids[:passage])[: len(ids)]
        if kind < self.repeats + 0.5 * (1 - self.repeats):
            return self.infilling(segment, chance)
        return [FILE_SEP] * segment.starts + ids + [END] * segment.ends

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        worker = get_worker_info()
        chance = random.Random(f"{self.seed}/{worker.id if worker else 0}")
        plain: list[int] = []
        for segment in self.segments(chance):
            ids = self.sample(segment, chance)[: self.context + 1]
            # What is taken apart for infilling stays whole, and plain text fills up its sequence.
            if ids[0] == FIM_PREFIX:
                room = self.context + 1 - len(ids)
                yield pair(ids + plain[:room], self.context)
                plain = plain[room:]
            else:
                plain += ids
                if len(plain) > 2 * self.context:
                    yield pair(plain[: self.context + 1], self.context)
                    plain = plain[self.context + 1 :]


def pair(ids: list[int], context: int) -> tuple[Tensor, Tensor]:
    """Pads a sequence and shifts it by one for its targets."""
    row = torch.full((context + 1,), PAD)
    row[: len(ids)] = torch.tensor(ids)
    target = row[1:].clone()
    target[max(0, len(ids) - 1) :] = IGNORED
    return row[:-1], target
