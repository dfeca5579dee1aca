"""Score a prompt: the log-probability of each of its tokens."""

from collections.abc import Iterator, Sequence

import numpy as np

from backends import Session
from backends.rereading import PART
from chatapp.generation.decoding.generate import split_prompt
from chatapp.generation.decoding.lines import LOGITS
from chatapp.generation.decoding.sampling import log_probability
from chatapp.generation.delta import Alternative, Token
from chatapp.generation.text.detokenizer import Detokenizer

Known = tuple[float | None, Sequence[tuple[int, float]]]
"""A token's log-probability, and the most likely tokens in its place with theirs."""
FIRST: Known = None, ()


def score_prompt(
    session: Session, prompt: list[int], given: int, count: int, detokenizer: Detokenizer
) -> Iterator[tuple[Token, ...]]:
    """Yield the tokens after the first `given` ones, part by part, with the `count` most likely in place of each.

    The first of them has no log-probability: what the tokenizer puts before a text is not the user's.
    """
    weights, place = np.empty(session.vocab_size, np.float32), 0
    known = [FIRST]
    for part in split_prompt(session, prompt, max(1, min(PART, LOGITS // weights.nbytes))):
        logits = session.forward(part, part.size)[0]  # (size, vocab)
        following = enumerate(prompt[place + 1 : place + 1 + part.size])
        known += [log_probability(logits[i], token, count, None, weights) for i, token in following]
        if place <= given < place + part.size:
            known[given - place] = FIRST
        told = [describe(token, known[i], detokenizer) for i, token in enumerate(part[0].tolist())]
        yield tuple(told[max(0, given - place) :])
        place, known = place + part.size, known[part.size :]


def describe(token: int, known: Known, detokenizer: Detokenizer) -> Token:
    """A scored token; one without text is shown by its name."""
    logprob, best = known
    others = tuple([Alternative(other, detokenizer.describe(other), value) for other, value in best])
    hidden = token in detokenizer.tokenizer.hidden
    text = detokenizer.tokenizer.name(token) if hidden else detokenizer.add(token)
    return Token(token, text, logprob, others, 0.0)
