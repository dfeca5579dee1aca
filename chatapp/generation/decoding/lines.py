"""Beam search for the most likely rests of a line, and the probabilities of given ones."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, isnan

import numpy as np

from backends import Session, Top
from chatapp.generation.decoding.candidates import check_peak, largest
from chatapp.generation.decoding.constraint import Typed, restrict
from chatapp.generation.decoding.generate import Step, count_shared
from chatapp.generation.text.spelling import find_line_end
from chatapp.generation.text.tokenizer import Tokenizer

LOGITS = 64 << 20
UNLIKELY = -12.0
"""Line ends of a lower log-probability are ignored."""

FAR = 4.0
"""Lines whose log-probability is lower than the best's by more than this are ignored."""


@dataclass(frozen=True, slots=True)
class Line:
    """The rest of a line."""

    text: str
    """Without the line end."""
    tokens: tuple[int, ...]
    """Its most likely spelling, from the beginning of the word being typed, without the line end."""
    logprob: float
    """Natural logarithm of its probability with the line end, over all spellings and line ends."""


@dataclass(slots=True)
class Beam:
    """A partial line."""

    tokens: list[int]
    told: bytes
    """The bytes they spell after the typed part."""
    logprob: float
    parent: int
    """The session's row that it continues."""


class LineEnds:
    """The tokens that end a line: the ends of a reply, and those with a line break."""

    def __init__(self, tokenizer: Tokenizer, end: Iterable[int]):
        self.tokenizer = tokenizer
        breaking = tokenizer.spelling.breaking
        self.ending = np.union1d(np.array(sorted(end), np.int64), breaking.get(b"", np.empty(0, np.int64)))
        self.groups = {head: ids for head, ids in breaking.items() if head}
        """Tokens with text before the line break, by that text."""
        self.heads = {int(token): head for head, ids in self.groups.items() for token in ids}
        self.within = np.array(list(self.heads), np.int64)

    def logprob(self, logprobs: np.ndarray) -> float:
        """The log-probability of a line end, from log-probabilities (vocab,)."""
        return add_logprobs(logprobs[self.ending])


class LineSearch:
    """A decoding that finds the `count` most likely lines; nothing is delivered before it ends.

    Lines begin after the part of a word that was typed. Different spellings and line ends are one line, and their
    probabilities are added.
    """

    def __init__(self, ends: LineEnds, typed: Typed | None, *, width: int, count: int, limit: int):
        """`limit` is the most tokens of a line."""
        self.ends, self.typed, self.width, self.count, self.limit = ends, typed, width, count, limit
        self.beams = [Beam([], b"", 0.0, 0)]
        self.found: dict[bytes, tuple[float, float, list[int]]] = {}
        """For each text, the log-probability of all its spellings, and of the most likely one, with its tokens."""

    @property
    def lines(self) -> list[Line]:
        """The lines found so far, most likely first."""
        least = self._least()
        wanted = [each for each in self.found.items() if each[1][0] >= least]
        best = sorted(wanted, key=lambda each: (-each[1][0], each[0]))[: self.count]
        return [Line(text.decode(errors="replace"), tuple(tokens), every) for text, (every, _, tokens) in best]

    def step(self, logits: np.ndarray, top: Top | None) -> Step:
        """Extend every beam by its most likely tokens, and keep the best beams."""
        grown: list[Beam] = []
        for place, beam in enumerate(self.beams):
            grown += self._grow(beam, place, logits[place, -1])
        grown.sort(key=lambda beam: -beam.logprob)
        worst = self._least()
        self.beams = [beam for beam in grown[: self.width] if beam.logprob > worst and len(beam.tokens) <= self.limit]
        return Step([beam.tokens[-1] for beam in self.beams], [beam.parent for beam in self.beams], not self.beams)

    def _grow(self, beam: Beam, place: int, logits: np.ndarray) -> list[Beam]:
        """Finish a beam in all ways, and return its most likely extensions."""
        rest = self.typed.rest(beam.tokens) if self.typed else b""
        logprobs = normalise(restrict(logits, self.typed.allowed(beam.tokens) if self.typed else None))
        if not rest:
            self._finish(beam.told, beam.tokens, beam.logprob + self.ends.logprob(logprobs))
            logprobs[self.ends.ending] = -inf
            likely = logprobs[self.ends.within] > max(UNLIKELY, self._least() - beam.logprob)
            for head in {self.ends.heads[token] for token in self.ends.within[likely].tolist()}:
                ended = beam.logprob + add_logprobs(logprobs[self.ends.groups[head]])
                self._finish((beam.told + head).rstrip(b" \t"), beam.tokens, ended)
            logprobs[self.ends.within] = -inf
        grown = []
        for token in largest(logprobs, self.width).tolist():
            told, logprob = self.ends.tokenizer.content(token)[len(rest) :], beam.logprob + float(logprobs[token])
            tokens, end = [*beam.tokens, token], find_line_end(told)
            if end is None:
                grown.append(Beam(tokens, beam.told + told, logprob, place))
            else:
                self._finish(told[:end], tokens, logprob)
        return grown

    def _finish(self, text: bytes, tokens: list[int], logprob: float) -> None:
        every, best, spelling = self.found.get(text, (-inf, -inf, tokens))
        self.found[text] = (
            float(np.logaddexp(every, logprob)),
            max(best, logprob),
            tokens if logprob > best else spelling,
        )

    def _least(self) -> float:
        """The log-probability that a line needs to be among the wanted ones."""
        best = sorted((every for every, _, _ in self.found.values()), reverse=True)
        return max(best[self.count - 1] if len(best) >= self.count else -inf, best[0] - FAR if best else -inf)


def normalise(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities of logits (vocab,), float32."""
    peak = logits.max()
    check_peak(peak)
    logprobs: np.ndarray = logits - peak
    logprobs -= np.log(np.exp(logprobs).sum(dtype=np.float64)).astype(np.float32)
    return logprobs


def add_logprobs(logprobs: np.ndarray) -> float:
    """The logarithm of the sum of probabilities."""
    peak = logprobs.max(initial=-inf)
    return float(peak) if peak == -inf else float(peak) + float(np.log(np.exp(logprobs - peak).sum()))


def spell(tokenizer: Tokenizer, taken: Sequence[int], text: str) -> list[tuple[int, ...]]:
    """The likely spellings of a line after the tokens taken: tokenised together with them, and apart."""
    spellings = [(*taken, *tokenizer.encode(text))]
    if taken:
        with_taken = tokenizer.decode(taken) + text
        spellings.append(tuple(tokenizer.encode(with_taken)))
    return list(dict.fromkeys(spellings))


def read_branches(
    session: Session, branches: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], Sequence[np.ndarray]]]:
    """Read sorted sequences, each continuing the cache; yields each with the logits (vocab,) after every token.

    They are read in batches whose logits take at most LOGITS bytes; or, if the session reads rows apart, one after
    another, rereading only what differs.
    """
    return (walk_branches if session.rows_apart else batch_branches)(session, branches)


def walk_branches(
    session: Session, branches: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], Sequence[np.ndarray]]]:
    """The same, one after another."""
    length, before, after = session.length, tuple[int, ...](), list[np.ndarray]()
    for branch in branches:
        shared = count_shared(before, branch)
        del after[shared:]
        session.rewind(length + shared)
        if unread := branch[shared:]:
            after.extend(session.forward(np.array([unread], np.int64), len(unread))[0].copy())
        yield branch, after
        before = branch


def batch_branches(
    session: Session, branches: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], Sequence[np.ndarray]]]:
    """The same, in batches of similar length."""
    length, todo = session.length, sorted(branches, key=len)
    while todo:
        room = LOGITS // (4 * session.vocab_size)
        count = max(1, sum(place * max(1, len(branch)) <= room for place, branch in enumerate(todo, 1)))
        batch, todo = todo[:count], todo[count:]
        tokens = np.zeros((count, max(1, len(batch[-1]))), np.int64)
        for row, branch in zip(tokens, batch, strict=True):
            row[: len(branch)] = branch
        session.reorder([0] * count)
        yield from zip(batch, session.forward(tokens, tokens.shape[1]), strict=True)
        session.rewind(length)


def score(spelling: Sequence[int], logits: Sequence[np.ndarray], ends: LineEnds, typed: Typed | None) -> float:
    """The log-probability of one spelling of a line, from logits (vocab,) before each token and the end."""
    total = 0.0
    for place, token in enumerate(spelling):
        allowed = typed.allowed(spelling[:place]) if typed else None
        row = logits[place]
        total += float(row[token]) - add_logprobs(row if allowed is None else row[allowed])
    last = logits[len(spelling)]
    total += add_logprobs(last[ends.ending]) - add_logprobs(last)
    check_peak(total if isnan(total) else 0.0)
    return total
