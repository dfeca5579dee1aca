"""A session that computes nothing but keeps its cache as a real one must; and a real little tokenizer for it.

Its logits follow from each row's own tokens alone, so a wrong rewind, reorder or batch shows in the text.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer as Vocabulary
from tokenizers import decoders, models, pre_tokenizers, trainers

from backends import KeyValues, Placement, check_batch, check_call, check_parents, check_rewind
from chatapp.generation import Delta, Usage
from chatapp.generation.engine import Engine
from chatapp.generation.text.tokenizer import Tokenizer

SPECIAL = ["<|endoftext|>", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SAMPLES = [
    "def add(first, second):\n    return first + second\n",
    "The quick brown fox jumps over the lazy dog, and says hello to the world.\n",
    "for i in range(10):\n    print(i, 'größer', '日本語', '🙂🙃')\n",
]

Logits = Callable[[Sequence[int], np.ndarray], None]
"""Fills the logits (vocab,) that follow a row's tokens."""


class ScriptedSession:
    """Meets the Session contract; every array it gave out is spoiled by the next call, as the contract allows."""

    top = None
    whole_prompts = False
    rows_apart = False
    recurrent = False
    token_bytes = 0

    def __init__(self, logits: Logits, *, vocab_size: int, context_length: int = 256):
        self.logits = logits
        self.vocab_size, self.context_length = vocab_size, context_length
        self.placement = Placement("scripted", "cpu", "f32")
        self.rows: list[list[int]] = []
        self.calls: list[tuple[int, int]] = []
        """Shape (batch, count) of the tokens of every forward."""
        self.given: np.ndarray = np.empty(0, np.float32)

    @property
    def length(self) -> int:
        return len(self.rows[0]) if self.rows else 0

    @property
    def batch(self) -> int:
        return len(self.rows)

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        self.spoil()
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        assert tokens.dtype == np.int64 and tokens.min() >= 0 and tokens.max() < self.vocab_size
        self.calls.append((batch, count))
        self.rows = self.rows if self.length else [[] for _ in range(batch)]
        for row, more in zip(self.rows, tokens.tolist(), strict=True):
            row += more
        if self.given.shape != (batch, last, self.vocab_size):
            self.given = np.empty((batch, last, self.vocab_size), np.float32)
        for place, row in enumerate(self.rows):
            for back in range(last):
                self.logits(row[: len(row) - back], self.given[place, last - 1 - back])
        return self.given[:]

    def rewind(self, length: int) -> None:
        self.spoil()
        check_rewind(length, self.length)
        self.rows = [row[:length] for row in self.rows] if length else []

    def reorder(self, parents: Sequence[int]) -> None:
        self.spoil()
        check_parents(parents, self.batch)
        self.rows = [list(self.rows[parent]) for parent in parents]

    def export(self, row: int) -> KeyValues:
        return {"tokens": np.array(self.rows[row], np.int64)}

    def nearest(self, length: int) -> int:
        return length

    def serves(self, found: KeyValues, length: int) -> bool:
        return length <= len(found["tokens"])

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        self.spoil()
        assert found["tokens"][: len(tokens)].tolist() == list(tokens)
        self.rows = [list(tokens)]

    def open_batch(self) -> "ScriptedBatch | None":
        return ScriptedBatch(self)

    def spoil(self) -> None:
        self.given[:] = np.nan


class ScriptedBatch:
    """Meets the contract of a batch in the same way."""

    top = None

    def __init__(self, session: ScriptedSession):
        self.session = session
        self.rows: list[list[int]] = []
        self.calls: list[list[int]] = []
        """The lengths of the rows before every forward."""
        self.given: np.ndarray = np.empty(0, np.float32)

    @property
    def lengths(self) -> list[int]:
        return [len(row) for row in self.rows]

    def join(self, found: KeyValues, length: int) -> None:
        self.given[:] = np.nan
        self.rows.append(found["tokens"][:length].tolist())
        assert len(self.rows[-1]) == length

    def forward(self, tokens: np.ndarray) -> np.ndarray:
        check_batch(self.lengths, tokens, self.session.context_length)
        self.calls.append(self.lengths)
        self.given[:] = np.nan
        self.given = np.empty((len(tokens), 1, self.session.vocab_size), np.float32)
        for place, (row, [token]) in enumerate(zip(self.rows, tokens.tolist(), strict=True)):
            row.append(token)
            self.session.logits(row, self.given[place, 0])
        return self.given[:]

    def reorder(self, parents: Sequence[int]) -> None:
        self.given[:] = np.nan
        self.rows = [list(self.rows[parent]) for parent in parents]

    def export(self, row: int) -> KeyValues:
        return {"tokens": np.array(self.rows[row], np.int64)}


def hashed(tokens: Sequence[int], logits: np.ndarray) -> None:
    """Logits that look random and depend on every token before."""
    seed = zlib.crc32(np.array(tokens, np.int64).tobytes())
    logits[:] = np.random.default_rng(seed).normal(0, 3, logits.size)


def saying(reply: Sequence[int], end: int) -> Logits:
    """Logits that go on with `reply` after whatever part of it the row ends with, then with `end`."""

    def fill(tokens: Sequence[int], logits: np.ndarray) -> None:
        ended = (n for n in range(min(len(reply), len(tokens)), 0, -1) if list(tokens[-n:]) == list(reply[:n]))
        said = next(ended, 0)
        logits[:] = 0
        logits[reply[said] if said < len(reply) else end] = 30

    return fill


def write_tokenizer(folder: Path, **config: object) -> Path:
    """Write a byte-level BPE of some 400 tokens with its tokenizer_config.json; `config` goes in there too."""
    vocabulary = Vocabulary(models.BPE())
    vocabulary.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocabulary.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    vocabulary.train_from_iterator(SAMPLES, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|endoftext|>", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def make_engine(
    tokenizer: Tokenizer,
    logits: Logits = hashed,
    context_length: int = 256,
    *,
    hold: float = 0.0,
    vocab_size: int = 400,
) -> tuple[Engine, ScriptedSession]:
    """An engine and the session it runs; each token is told by itself, unless they may be held back."""
    session = ScriptedSession(logits, vocab_size=vocab_size, context_length=context_length)
    return Engine(session, tokenizer, load_seconds=1.5, lowering_seconds=2.5, hold=hold), session


def text_of(deltas: Iterable[Delta], index: int = 0) -> str:
    """What one of the completions says."""
    return "".join(delta.text for delta in deltas if delta.index == index)


def usage_of(deltas: Sequence[Delta]) -> Usage:
    """The usage, which the very last delta has and no other."""
    assert [delta.usage is None for delta in deltas] == [True] * (len(deltas) - 1) + [False]
    usage = deltas[-1].usage
    assert usage is not None
    return usage
