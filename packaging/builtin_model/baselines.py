"""Completers without a trained model, to judge one by: n-gram, the file's own text, the usual next line."""

import collections
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

LONGEST_MATCH = 80
VOTES = 200
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class InFile:
    """Goes on as the file did where the text before the cursor stood before; confidence is the match's length."""

    def __call__(self, prefix: str, suffix: str) -> tuple[str, float]:
        """Completes the line."""
        for length in range(min(LONGEST_MATCH, len(prefix)), 2, -1):
            tail = prefix[-length:]
            found = prefix.rfind(tail, 0, len(prefix) - 1)
            if found >= 0:
                return prefix[found + length :].split("\n")[0], length
            found = suffix.find(tail)
            if found >= 0:
                return suffix[found + length :].split("\n")[0], length
        return "", 0


NGRAM_TOKENS = 100_000_000
"""Of the corpus, whose files are in no order: as many as the memory of a usual machine takes."""


class NGram:
    """Goes on as most of the training corpus does after the longest run of tokens known; confidence is its length."""

    def __init__(self, work: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
        self.tokens = np.load(work / "train.npy", mmap_mode="r")[:NGRAM_TOKENS]
        size = self.tokenizer.get_vocab_size()
        self.texts = [self.tokenizer.decode([i], skip_special_tokens=False) for i in range(size)]

    def __call__(self, prefix: str, suffix: str) -> tuple[str, float]:
        """Completes the line; a last token perhaps cut short is matched as a beginning."""
        ids, part = self.tokenizer.encode(prefix[-1500:]).ids, ""
        if not prefix.rstrip(" ").endswith("\n"):
            part = self.tokenizer.decode(ids[-1:])
            ids = ids[:-1]
        fits = np.array([text.startswith(part) for text in self.texts])
        ends = np.flatnonzero(self.tokens[:-1] == ids[-1])
        ends = ends[fits[self.tokens[ends + 1]]]
        length = 1
        while len(ends) and length < min(len(ids), 200):
            longer = ends[ends >= length]
            longer = longer[self.tokens[longer - length] == ids[-length - 1]]
            if not len(longer):
                break
            ends, length = longer, length + 1
        votes = collections.Counter(
            self.tokenizer.decode(self.tokens[end + 1 : end + 41].tolist())[len(part) :].split("\n")[0]
            for end in ends[:VOTES]
        )
        return (votes.most_common(1)[0][0], length) if votes else ("", 0)


class NextLine:
    """Offers the line that most often follows the previous line in the training corpus; whole lines only."""

    def __init__(self, work: Path, prefixes: Iterable[str]) -> None:
        self.following = {previous_line(prefix): collections.Counter[str]() for prefix in prefixes}
        with open(work / "train.jsonl", encoding="utf-8") as documents:
            for document in documents:
                lines = [line.strip() for line in json.loads(document)["text"].split("\n")]
                lines = [line for line in lines if line]
                for line, following in zip(lines, lines[1:], strict=False):
                    if line in self.following:
                        self.following[line][following] += 1

    def __call__(self, prefix: str, suffix: str) -> tuple[str, float]:
        """Completes an empty line; confidence is how often it was seen."""
        votes = self.following[previous_line(prefix)].most_common(1)
        return votes[0] if votes else ("", 0)


def previous_line(prefix: str) -> str:
    """Returns the last line that is not empty before the one begun."""
    return next((line.strip() for line in reversed(prefix.split("\n")[:-1]) if line.strip()), "")


def ngram_bits(tokens: np.ndarray, windows: list[tuple[list[int], int]], *, vocabulary: int, order: int = 6) -> float:
    """Counts the bits an interpolated n-gram model (Witten-Bell) needs for each window from its scored position on."""
    train = tokens.astype(np.uint64) + np.uint64(1)
    asked = [np.array(ids, dtype=np.uint64) + np.uint64(1) for ids, _ in windows]
    chances = [np.full(len(ids), 1 / vocabulary) for ids in asked]
    context, contexts = np.zeros_like(train), [np.zeros_like(ids) for ids in asked]
    for length in range(order):
        # A context is the hash of the `length` tokens before a position.
        keys = train + context * MULTIPLIER
        wanted = np.unique(np.concatenate([c[length:] for c in contexts]))
        place = np.searchsorted(wanted, context).clip(max=len(wanted) - 1)
        known = np.flatnonzero(wanted[place] == context)
        known = known[known >= length]
        seen, total = np.unique(context[known], return_counts=True)
        grams, first, count = np.unique(keys[known], return_index=True, return_counts=True)
        followed, kinds = np.unique(context[known][first], return_counts=True)
        for ids, asked_context, chance in zip(asked, contexts, chances, strict=True):
            occurrences = lookup(seen, total, asked_context)
            different = lookup(followed, kinds, asked_context)
            exact = lookup(grams, count, ids + asked_context * MULTIPLIER)
            usable = (occurrences > 0) & (np.arange(len(ids)) >= length)
            better = (exact + different * chance) / np.maximum(occurrences + different, 1)
            chance[usable] = better[usable]
        context = rolled(train, length + 1)
        contexts = [rolled(ids, length + 1) for ids in asked]
    return float(-sum(np.log2(c[start:]).sum() for c, (_, start) in zip(chances, windows, strict=True)))


def rolled(ids: np.ndarray, length: int) -> np.ndarray:
    """Hashes the `length` ids before every position; where there are fewer, the value means nothing."""
    value = np.zeros_like(ids)
    for back in range(length, 0, -1):
        shifted = np.zeros_like(ids)
        shifted[back:] = ids[:-back]
        value = value * MULTIPLIER + shifted
    return value


def lookup(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Looks values up by sorted keys, zero where there is none."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64)
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)
