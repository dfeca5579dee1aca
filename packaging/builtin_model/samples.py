"""Cuts training samples out of the encoded corpus: plain windows, fill-in-the-middle and repeated passages.

Writes them into `samples/CONTEXT` of the work folder, in parts of about two million tokens: rows of uint16, one
longer than the context, padded. Training reads them in order and draws no chance of its own.
"""

import argparse
import itertools
import json
import multiprocessing
import random
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import npm
import numpy as np
from corpus import TEST_PATH
from tokenizer import END, FILE_SEP, FIM_MIDDLE, FIM_PREFIX, FIM_SUFFIX, PAD
from tokenizers import Tokenizer

EXTRA_CUTS = 4
"""Cuts at characters inside each prefix, so that the model often sees a word begun in one piece end in another."""

SHORTEST = 400
"""Characters of a text for infilling at least, where there are as many."""
PART_TOKENS = 2_000_000
PACKAGE_TOKENS = 4_000_000
NPM_TOKENS = 300_000
"""At most of a package of npm: there are many, and Python is what the model is for first."""
REPEATING_PARTS = 2
"""So many parts at the start hold repeated passages: copying can be learnt long before language is."""
BATCH = 512
"""Segments whose texts are tokenised together."""


@dataclass(frozen=True)
class Segment:
    """A run of tokens within one file, from `begin` to `end`."""

    begin: int
    end: int
    starts: bool
    ends: bool


def spm(suffix: list[int], prefix: list[int], middle: list[int]) -> list[int]:
    """Lays out a fill-in-the-middle sequence, suffix first, in StarCoder's spelling."""
    return [FIM_PREFIX, FIM_SUFFIX, *suffix, FIM_MIDDLE, *prefix, *middle]


def crop(text: str, chance: random.Random) -> str:
    """Takes a part of a text, of any length: were they all as long, the place would tell how soon the gap ends."""
    length = chance.randrange(min(SHORTEST, len(text)), len(text) + 1)
    begin = chance.randrange(len(text) - length + 1)
    return text[begin : begin + length]


def cut(text: str, chance: random.Random) -> tuple[int, int]:
    """Chooses what to take out: mostly the rest of a line or a whole line, sometimes several or any characters.

    About half of all cuts fall inside a word.
    """
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    kind = chance.random()
    if kind < 0.9 and len(starts) > 8:
        for _ in range(10):
            line = chance.randrange(2, len(starts) - 1)
            content = text[starts[line] : starts[line + 1] - 1]
            if content.strip():
                break
        begin = starts[line] + len(content) - len(content.lstrip())
        end = starts[line] + len(content)
        if kind < 0.6:
            inside = [found.start() + 1 for found in re.finditer(r"\w(?=\w)", text[begin:end])]
            if inside and chance.random() < 0.6:
                return begin + chance.choice(inside), end
            return chance.randrange(begin, max(begin, end - 1) + 1), end
        if kind < 0.8:
            return begin, end
        return begin, max(begin, starts[min(len(starts) - 2, line + chance.randrange(1, 6)) + 1] - 1)
    begin = chance.randrange(len(text))
    return begin, min(len(text), begin + chance.randrange(1, 300))


class Samples:
    """Makes the parts of one context length; each part is given by the seed and its number."""

    def __init__(self, work: Path, *, context: int, seed: int, package_tokens: int) -> None:
        self.context, self.seed = context, seed
        self.tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
        self.tokens = np.load(work / "train.npy", mmap_mode="r")
        self.files = chosen_files(work, package_tokens, len(self.tokens))
        self.parts = max(1, self.size() // PART_TOKENS)
        """Parts in one pass over the corpus."""
        self.turn: tuple[int, list[Segment]] | None = None
        """Number and segments of the pass that was asked for last."""

    def size(self) -> int:
        """Counts the tokens of the chosen files."""
        return sum(end - start for start, end in self.files)

    def turn_segments(self, turn: int) -> list[Segment]:
        """Lists the segments of a pass over the corpus, cut and shuffled anew for each; the last list is kept."""
        if self.turn and self.turn[0] == turn:
            return self.turn[1]
        chance = random.Random(f"{self.seed}/{self.context}/{turn}")
        length = self.context - 16
        segments = []
        for start, end in self.files:
            # A random phase lets segments begin anywhere in a file.
            for begin in range(start - chance.randrange(length), end, length):
                first, last = max(start, begin), min(end, begin + length)
                if last - first >= 48:
                    segments.append(Segment(first, last, first == start, last == end))
        chance.shuffle(segments)
        self.turn = turn, segments
        return segments

    def segments(self, number: int) -> list[Segment]:
        """Lists the segments of a part: all of them once in a pass."""
        turn, part = divmod(number, self.parts)
        return self.turn_segments(turn)[part :: self.parts]

    def infilling(self, texts: list[str], chance: random.Random) -> list[list[int]]:
        """Makes fill-in-the-middle samples, their pieces tokenised apart."""
        pieces: list[list[str]] = []
        for text in (crop(whole, chance) for whole in texts):
            begin, end = cut(text, chance)
            cuts = sorted({0, begin, *(chance.randrange(begin + 1) for _ in range(EXTRA_CUTS))})
            pieces.append([text[end:], text[begin:end], *(text[a:b] for a, b in itertools.pairwise(cuts))])
        encoded = iter(self.tokenizer.encode_batch_fast([piece for sample in pieces for piece in sample]))
        samples = []
        for sample in pieces:
            suffix, middle, *prefix = (next(encoded).ids for _ in sample)
            samples.append([*spm(suffix, [i for ids in prefix for i in ids], middle), END])
        return samples

    def samples(self, number: int, repeats: float) -> Iterator[list[int]]:
        """Yields one sample of each segment of a part."""
        chance = random.Random(f"{self.seed}/{self.context}/{number}/samples")
        segments = self.segments(number)
        for start in range(0, len(segments), BATCH):
            batch = segments[start : start + BATCH]
            ids = [self.tokens[segment.begin : segment.end].tolist() for segment in batch]
            kinds = [chance.random() for _ in batch]
            filled = [repeats <= kind < repeats + 0.5 * (1 - repeats) for kind in kinds]
            texts = self.tokenizer.decode_batch(list(itertools.compress(ids, filled)), skip_special_tokens=False)
            infilling = iter(self.infilling(texts, chance))
            for segment, own, kind, fill in zip(batch, ids, kinds, filled, strict=True):
                if kind < repeats:
                    yield repeated(own, chance)
                elif fill:
                    yield next(infilling)
                else:
                    yield [FILE_SEP] * segment.starts + own + [END] * segment.ends

    def rows(self, number: int, repeats: float) -> np.ndarray:
        """Fills rows of context + 1 tokens with the samples of a part, (n, context + 1)."""
        width = self.context + 1
        rows: list[list[int]] = []
        plain: list[int] = []
        for sample in self.samples(number, repeats):
            ids = sample[:width]
            # What is taken apart for infilling stays whole, and plain text fills up its row.
            if ids[0] == FIM_PREFIX:
                room = width - len(ids)
                rows.append(ids + plain[:room])
                plain = plain[room:]
            else:
                plain += ids
                if len(plain) > 2 * self.context:
                    rows.append(plain[:width])
                    plain = plain[width:]
        random.Random(f"{self.seed}/{self.context}/{number}/rows").shuffle(rows)
        table = np.full((len(rows), width), PAD, np.uint16)
        for row, ids in zip(table, rows, strict=True):
            row[: len(ids)] = ids
        return table


def repeated(ids: list[int], chance: random.Random) -> list[int]:
    """Makes a passage, something else, and the passage again."""
    passage = chance.randrange(16, max(17, len(ids) // 2))
    other = chance.randrange(max(1, len(ids) - 2 * passage))
    return (ids[: passage + other] + ids[:passage])[: len(ids)]


def chosen_files(work: Path, package_tokens: int, total: int) -> list[tuple[int, int]]:
    """Lists files as (start, end); packages above the limit lose their tests and then what exceeds it."""
    files = json.loads((work / "train_files.json").read_text())
    ends = [*(file["start"] for file in files[1:]), total]
    sizes: dict[str, int] = {}
    for file, end in zip(files, ends, strict=True):
        sizes[file["package"]] = sizes.get(file["package"], 0) + end - file["start"]
    taken: dict[str, int] = {}
    chosen = []
    for file, end in zip(files, ends, strict=True):
        name, size = file["package"], end - file["start"]
        most = min(package_tokens, NPM_TOKENS) if npm.is_npm(name) else package_tokens
        if sizes[name] > most:
            if TEST_PATH.search(file["path"]) or taken.get(name, 0) + size > most:
                continue
            taken[name] = taken.get(name, 0) + size
        chosen.append((file["start"], end))
    return chosen


def part_file(work: Path, context: int, number: int) -> Path:
    """Names a part's file."""
    return work / "samples" / str(context) / f"{number:05}.npy"


def write(samples: Samples, work: Path, repeats: float, numbers: Iterable[int]) -> None:
    """Makes parts, those that are not there."""
    for number in numbers:
        if not (file := part_file(work, samples.context, number)).exists():
            write_part(samples, file, repeats, number)


def write_part(samples: Samples, file: Path, repeats: float, number: int) -> None:
    """Makes one part."""
    started = time.process_time()
    rows = samples.rows(number, repeats if number < REPEATING_PARTS else 0.0)
    partial = file.with_suffix(".partial")
    with open(partial, "wb") as out:
        np.save(out, rows)
    partial.rename(file)
    seconds = time.process_time() - started
    print(f"{file}: {len(rows)} rows, {(rows != PAD).sum() / 1e6:.2f}M tokens, {seconds:.0f} s", flush=True)


def main() -> None:
    """Parses the command line and makes the parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--first", type=int, default=0, help="number of the first part")
    parser.add_argument("--count", type=int, help="parts to make; without it, one pass over the corpus")
    parser.add_argument("--package-tokens", type=int, default=PACKAGE_TOKENS, help="most tokens of one package")
    parser.add_argument("--repeats", type=float, default=0.15, help="share of repeated passages in the first parts")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    work: Path = arguments.work
    samples = Samples(work, context=arguments.context, seed=arguments.seed, package_tokens=arguments.package_tokens)
    print(f"{samples.size() / 1e6:.1f}M tokens, {samples.parts} parts a pass", flush=True)
    part_file(work, arguments.context, 0).parent.mkdir(parents=True, exist_ok=True)
    numbers = range(arguments.first, arguments.first + (arguments.count or samples.parts))
    samples.turn_segments(numbers.start // samples.parts)  # once, for all processes
    # Forked processes have the whole corpus already; to a pool's it would be sent again for every part.
    fork = multiprocessing.get_context("fork")
    shares = [numbers[place :: arguments.processes] for place in range(arguments.processes)]
    makers = [fork.Process(target=write, args=(samples, work, arguments.repeats, share)) for share in shares]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    if any(maker.exitcode for maker in makers):
        raise SystemExit("parts are missing, for the reason above")


if __name__ == "__main__":
    main()
