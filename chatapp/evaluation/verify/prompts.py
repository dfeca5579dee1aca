"""The fixed prompts as token ids, and a session's walk through them in all ways that generation uses.

They are code, prose, other scripts, tables, and random tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from backends import Session
from backends.decoder import Decoder
from chatapp.generation.text.tokenizer import open_tokenizer
from model_store import StoredModel

LENGTH = 48
"""Tokens per prompt: six prompts have 288 positions, each half a second for six billion parameters."""
PAST = 24
"""How many tokens the longer prompt reads past the window or distance that it must exceed."""
FAR = 128
"""Distances from here on are the same to encoders of the T5 kind."""
WORK = 1e12
"""Largest product of parameters and tokens for the longer prompt: a minute or two in NumPy."""
LONGEST = 2048
"""Longest prompt whose scores, one for each pair of tokens, the reference can hold in memory."""

TEXTS = (
    "The lighthouse keeper wrote every evening what the sea had done that day, in short sentences and without "
    "adjectives, because the first keeper had done so. On the third of March he wrote: wind from the north-west, "
    "two ships, no letters. Then he put out the lamp, although it was his duty to leave it burning until dawn.",
    "def merge(left: list[int], right: list[int]) -> list[int]:\n"
    '    """Merge two sorted lists."""\n'
    "    merged = []\n"
    "    while left and right:\n"
    "        merged.append((left if left[0] <= right[0] else right).pop(0))\n"
    "    return merged + left + right\n\n\n"
    "class Counter(dict):\n"
    "    def __missing__(self, key):\n"
    "        return 0\n",
    "Grüße aus Köln — здравствуй, мир! 日本語の文章もあります。 مرحبا بالعالم 🙂🚀 "
    "naïve façade, Ελληνικά, हिन्दी, 한국어, ∑xᵢ² ≤ ∞, “quotes” – all in one line. Ça va? Þetta er íslenska.",
    "#include <stdio.h>\n\n"
    "static const unsigned MASK = 0xFFu << 8; /* bits 8..15 */\n\n"
    "int main(int argc, char **argv) {\n"
    "\tfor (int i = 1; i < argc; ++i)\n"
    '\t\tprintf("%d: %s\\n", i, argv[i] ? argv[i] : "(null)");\n'
    "\treturn argc > 1 ? 0 : -1;\n"
    "}\n",
    "| year | tonnes |  price |\n|-----:|-------:|-------:|\n| 2019 | 12,345 | 3.1415 |\n| 2020 |      7 | -0.002 |\n\n"
    '{"id": 18446744073709551615, "tags": ["a", "b"], "ok": true, "next": null}\n\n'
    "SELECT name, COUNT(*) FROM visits WHERE day >= '2024-02-29' GROUP BY name ORDER BY 2 DESC LIMIT 10;\n",
)


@dataclass(frozen=True)
class Prompts:
    """Rows of tokens of equal length, so that one pass over the weights serves all."""

    tokens: np.ndarray  # (rows, length) int64
    first: int = 0
    """Logits are wanted from this token of each row on."""
    whole: bool = False
    """Whether an encoder reads each row up to `first`, and the decoder the rest."""

    @property
    def positions(self) -> int:
        """The number of tokens of each row with wanted logits."""
        return int(self.tokens.shape[1]) - self.first


def make_prompts(model: StoredModel, decoder: Decoder) -> tuple[Prompts, ...]:
    """The prompts for a model: six, and one that exceeds a window if that is affordable.

    For LongRoPE, a prompt is long, or short, at all of its compared positions.
    """
    tokenizer = open_tokenizer(model.folder)
    random = np.random.default_rng(0)
    whole = bool(decoder.encoder)

    def row(place: int, length: int) -> list[int]:
        texts = TEXTS[place:] + TEXTS[:place]
        tokens = [token for text in texts for token in tokenizer.encode_prompt(text) if token < decoder.vocab_size]
        tokens *= max(1, length // LENGTH)
        missing = length - len(tokens)  # if the tokenizer makes next to nothing of our texts
        return [*tokens[:length], *random.integers(0, decoder.vocab_size, max(0, missing)).tolist()]

    border = decoder.border or decoder.context_length
    length = min(LENGTH, decoder.context_length, border)
    rows = [row(place, length) for place in range(len(TEXTS))]
    rows.append(random.integers(0, decoder.vocab_size, length).tolist())
    found = [Prompts(np.array(rows, np.int64), length // 2 - 1 if whole else 0, whole)]
    if longer := choose_longer_length(decoder, model.parameters):
        first = max(longer - (PAST if whole else LENGTH), border if longer > border else 0)  # all short or all long
        found.append(Prompts(np.array([row(0, longer)], np.int64), first, whole))
    return tuple(found)


def choose_longer_length(decoder: Decoder, parameters: int) -> int:
    """The length of the prompt that exceeds the longest affordable window or border; 0 if there is none."""
    limits = [layer.window for layer in decoder.layers] + [FAR if decoder.encoder else 0, decoder.border]
    shortest = min(LENGTH, decoder.border or LENGTH)
    lengths = [limit + PAST for limit in sorted(limits, reverse=True) if limit + PAST > shortest]
    longest = min(LONGEST, decoder.context_length, int(WORK / parameters))
    return next((length for length in lengths if length <= longest and length > PAST), 0)


# The walk

STEPS = ("prefill", "decode", "batch")
"""The ways: a prompt in one call, token by token, and several rows that are reordered and rewound."""


@dataclass(frozen=True)
class Found:
    """Logits that a session returned for consecutive tokens of a row."""

    step: str
    row: int
    start: int
    """The index of the first token."""
    logits: np.ndarray  # (positions, vocab), valid until the next call
    misranked: int
    """Positions where the largest logits that the runtime picked out are wrong."""


def walk(session: Session, prompts: Prompts) -> Iterator[Found]:
    """Yield logits of prompts read one by one, with several prompt lengths, and then of all rows together."""
    count, length = prompts.tokens.shape
    for row in range(count):
        cut = choose_prompt_length(prompts, row / (count - 1) if count > 1 else 0.5)
        session.rewind(0)
        yield from read(session, "prefill", prompts, [row], 0, cut, 1 if prompts.whole else cut - prompts.first)
        for i in range(cut, length):
            yield from read(session, "decode", prompts, [row], i, i + 1, 1)
    yield from walk_together(session, prompts)


def walk_together(session: Session, prompts: Prompts) -> Iterator[Found]:
    """Yield logits of all rows together, which are then reordered and partly read again."""
    count, length = prompts.tokens.shape
    cut, order = choose_prompt_length(prompts, 0.5), range(count)
    parents = [*reversed(order), 0]
    session.rewind(0)
    yield from read(session, "batch", prompts, order, 0, cut, 1)
    yield from read(session, "batch", prompts, order, cut, cut + 1, 1)
    session.reorder(parents)
    yield from read(session, "batch", prompts, parents, cut + 1, cut + 2, 1)
    session.rewind(cut + 1)
    stop = min(cut + 4, length)
    yield from read(session, "batch", prompts, parents, cut + 1, stop, stop - cut - 1)
    session.rewind(0)


def read(
    session: Session, step: str, prompts: Prompts, order: Sequence[int], start: int, stop: int, last: int
) -> Iterator[Found]:
    """Read tokens `start` to `stop` of the rows in `order`, and yield each row's `last` logits."""
    logits = session.forward(prompts.tokens[list(order), start:stop], last=last)
    wrong = count_misranked(session, logits)
    for place, row in enumerate(order):
        yield Found(step, row, stop - last, logits[place], int(wrong[place]))


def count_misranked(session: Session, logits: np.ndarray) -> np.ndarray:
    """For each row of logits (rows, positions, vocab), the positions where the runtime's largest ones are wrong."""
    top = session.top
    if top is None:
        return np.zeros(len(logits), np.int64)
    count = top.logits.shape[-1]
    largest = np.sort(np.partition(logits, -count, axis=-1)[..., -count:], axis=-1)[..., ::-1]
    theirs = np.take_along_axis(logits, top.tokens, axis=-1)
    right = (theirs == largest).all(-1) & (top.logits == largest).all(-1)
    found: np.ndarray = (~right & np.isfinite(logits).all(-1)).sum(-1)
    return found


def choose_prompt_length(prompts: Prompts, share: float) -> int:
    """How many tokens come in the first call: `share` of the way from as few as have logits to all but two."""
    fewest = prompts.first + 1
    return fewest if prompts.whole else fewest + round((prompts.tokens.shape[1] - 2 - fewest) * share)
