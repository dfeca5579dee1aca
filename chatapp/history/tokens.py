"""The tokens of a reply as they are kept: lists in JSON, compressed."""

import json
import math
import zlib
from collections.abc import Sequence
from typing import Any

from chatapp.generation import Alternative, Token
from chatapp.history.errors import NotUnderstood
from chatapp.history.text import clean

LIMIT = 1 << 28
"""Bytes of the tokens of one reply; a damaged one could inflate to far more."""


def packed(tokens: Sequence[Token]) -> bytes:
    """The tokens as the database holds them."""
    return zlib.compress(json.dumps(as_lists(tokens), separators=(",", ":")).encode(), 6)


def unpacked(content: bytes) -> Sequence[Token]:
    """The tokens that the database holds; none where they are damaged."""
    try:
        inflating = zlib.decompressobj()
        lists = json.loads(inflating.decompress(content, LIMIT)) if isinstance(content, bytes) else ()
        return of_lists(lists, "the database")
    except (zlib.error, ValueError, RecursionError, NotUnderstood):
        return ()


def as_lists(tokens: Sequence[Token]) -> list[Any]:  # Any: JSON
    """For each token: id, text, log-probability, seconds, and its alternatives (id, text, log-probability)."""
    return [
        [
            token.id,
            clean(token.text),
            None if token.logprob is None else round(token.logprob, 5),
            round(token.seconds, 6),
            [[other.id, clean(other.text), round(other.logprob, 5)] for other in token.alternatives],
        ]
        for token in tokens
    ]


def of_lists(lists: Any, where: str) -> Sequence[Token]:  # Any: JSON, checked here
    """The tokens of such lists."""
    try:
        return tuple(
            Token(
                _whole(number),
                _text(text),
                None if logprob is None else _number(logprob),
                tuple(Alternative(_whole(one), _text(spelling), _number(chance)) for one, spelling, chance in others),
                _seconds(seconds),
            )
            for number, text, logprob, seconds, others in lists
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise NotUnderstood(f"{where} has tokens that are not what we write") from error


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError
    return float(value)


def _seconds(value: object) -> float:
    seconds = _number(value)
    if not 0 <= seconds < math.inf:
        raise ValueError
    return seconds
