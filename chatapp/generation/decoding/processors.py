"""Biases, penalties, bans: small functions that change the logits of a row's next token."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial

import numpy as np

from chatapp.generation.options import KNOBS, OptionError, Options
from chatapp.generation.text.tokenizer import Tokenizer


class History:
    """The tokens of a row so far, for processors."""

    def __init__(self, prompt: Iterable[int]):
        self.tokens = list(prompt)
        """The prompt's tokens, then the reply's."""
        self.begun = len(self.tokens)
        """How many are the prompt's."""

    @property
    def reply(self) -> Sequence[int]:
        return self.tokens[self.begun :]

    @cached_property
    def seen(self) -> "Seen":
        """The distinct tokens and their counts."""
        seen = Seen(self.tokens[: self.begun])
        for token in self.reply:
            seen.add(token)
        return seen

    def add(self, token: int) -> None:
        """Append a token of the reply."""
        if "seen" in self.__dict__:
            self.seen.add(token)
        self.tokens.append(token)


class Seen:
    """The distinct tokens of prompt and reply, and how often each occurs in the reply."""

    def __init__(self, prompt: Iterable[int]):
        self.places = {token: place for place, token in enumerate(dict.fromkeys(prompt))}
        size = len(self.places)
        self._ids = np.zeros(size + 64, np.int64)
        self._ids[:size] = list(self.places)
        self._counts = np.zeros(size + 64, np.float32)

    @property
    def ids(self) -> np.ndarray:
        return self._ids[: len(self.places)]

    @property
    def counts(self) -> np.ndarray:
        return self._counts[: len(self.places)]

    def add(self, token: int) -> None:
        """Count one more token of the reply."""
        place = self.places.setdefault(token, len(self.places))
        if place == self._ids.size:
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._ids[place] = token
        self._counts[place] += 1


Processor = Callable[[np.ndarray, History], None]
"""Changes logits (vocab,) in place."""


def list_processors(options: Options, vocab_size: int, tokenizer: Tokenizer | None) -> list[Processor]:
    """The processors that the options ask for, in order."""
    found: list[Processor] = []
    if options.logit_bias:
        if unknown := [token for token in options.logit_bias if token >= vocab_size]:
            message = f"logit_bias names token {unknown[0]}, this model has only {vocab_size} tokens"
            raise OptionError(message, "logit_bias")
        ids, biases = list(options.logit_bias), list(options.logit_bias.values())
        found.append(partial(add_biases, np.array(ids, np.int64), np.array(biases, np.float32)))
    penalties = [
        (penalise, np.float32(value))
        for name, penalise in PENALTIES.items()
        if (value := getattr(options, name)) != KNOBS[name].off
    ]
    if penalties:
        found.append(partial(penalise_seen, penalties))
    if options.dry_multiplier:
        found.append(Dry(options, tokenizer))
    if options.no_repeat_ngram_size:
        found.append(partial(ban_repeated, options.no_repeat_ngram_size))
    if options.bad_words:
        if tokenizer is None:
            raise OptionError("bad_words need a tokenizer, and this model has none", "bad_words")
        spelt = [tuple(tokenizer.encode(text)) for word in options.bad_words for text in (word, f" {word}")]
        found.append(partial(ban_sequences, list(dict.fromkeys(spelt))))
    return found


def add_biases(ids: np.ndarray, biases: np.ndarray, logits: np.ndarray, history: History) -> None:
    """Add biases to the logits of some tokens."""
    logits[ids] += biases


Penalty = Callable[[np.ndarray, np.ndarray, np.float32], np.ndarray]
PENALTIES: Mapping[str, Penalty] = {
    "repetition_penalty": lambda values, counts, by: np.where(values > 0, values / by, values * by),
    "presence_penalty": lambda values, counts, by: values - by * (counts > 0),
    "frequency_penalty": lambda values, counts, by: values - by * counts,
}
"""The penalties, in order, on logits of the tokens seen; `counts` is how often each is in the reply."""


def penalise_seen(penalties: Sequence[tuple[Penalty, np.float32]], logits: np.ndarray, history: History) -> None:
    """Penalise the tokens of prompt and reply."""
    seen = history.seen
    values = logits[seen.ids]
    for penalise, by in penalties:
        values = penalise(values, seen.counts, by)
    logits[seen.ids] = values


class Dry:
    """Penalises the repetition of sequences, the longer the more, as llama.cpp's DRY does."""

    def __init__(self, options: Options, tokenizer: Tokenizer | None):
        self.options, self.tokenizer = options, tokenizer
        self.breakers = [text.encode() for text in options.dry_breakers]
        self.breaking: dict[int, bool] = {}

    def __call__(self, logits: np.ndarray, history: History) -> None:
        """Penalise tokens that would continue a repetition of the text's end."""
        multiplier, base, allowed = self.options.dry_multiplier, self.options.dry_base, self.options.dry_allowed_length
        for token, length in self.repeats(history.tokens).items():
            if length >= allowed:
                logits[token] -= multiplier * base ** (length - allowed)

    def repeats(self, tokens: Sequence[int]) -> dict[int, int]:
        """Tokens that followed earlier occurrences of the text's end, with the length of the repetition."""
        found: dict[int, int] = {}
        if len(tokens) < 2 or self.breaks(tokens[-1]):
            return found
        word = self.find_word(tokens)
        for place in find_places(tokens, tokens[-1]):
            following = tokens[place + 1]
            if self.breaks(following) or (place < word and self.goes_on(tokens[-1], following)):
                continue
            length = 1
            while length < LONGEST and length <= place and tokens[place - length] == (end := tokens[-1 - length]):
                if self.breaks(end):
                    break
                length += 1
            found[following] = max(found.get(following, 0), length)
        return found

    def breaks(self, token: int) -> bool:
        """Whether a token ends a sequence."""
        if token not in self.breaking:
            content = self.tokenizer.content(token) if self.tokenizer else b""
            self.breaking[token] = any(text in content for text in self.breakers)
        return self.breaking[token]

    def find_word(self, tokens: Sequence[int]) -> int:
        """Where the word at the end begins, if whole words are spared; repetition within it does not count."""
        if not (self.options.dry_whole_words and self.tokenizer):
            return 0
        place = len(tokens) - 1
        while place and self.goes_on(tokens[place - 1], tokens[place]):
            place -= 1
        return place

    def goes_on(self, last: int, token: int) -> bool:
        """Whether `token` continues the word that `last` ends with."""
        assert self.tokenizer
        before, after = (self.tokenizer.content(each).decode(errors="replace") for each in (last, token))
        return bool(WORD_END.search(before) and WORD_BEGINNING.match(after))


LONGEST = 50
"""Longest repetition that counts: more would only make a number too large."""
WORD_END, WORD_BEGINNING = re.compile(r"\w\Z"), re.compile(r"\w")


def find_places(tokens: Sequence[int], token: int) -> Iterator[int]:
    """The places of a token, except the last place."""
    place, last = -1, len(tokens) - 1
    with suppress(ValueError):
        while True:
            place = tokens.index(token, place + 1, last)
            yield place


def ban_repeated(size: int, logits: np.ndarray, history: History) -> None:
    """Forbid tokens that would repeat a sequence of `size` tokens, as transformers' NoRepeatNGram does."""
    tokens = history.tokens
    if size == 1:
        logits[list(set(tokens))] = -np.inf
        return
    begun = tokens[1 - size :]
    if len(begun) == size - 1:
        for place in find_places(tokens, tokens[-1]):
            if place + 2 >= size and tokens[place + 2 - size : place + 1] == begun:
                logits[tokens[place + 1]] = -np.inf


def ban_sequences(sequences: Sequence[tuple[int, ...]], logits: np.ndarray, history: History) -> None:
    """Forbid the last token of each sequence where the others precede it, as transformers' NoBadWords does."""
    for *begun, last in sequences:
        if not begun or history.tokens[-len(begun) :] == begun:
            logits[last] = -np.inf
