"""Requests and deltas as JSON, for two processes of the same version."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, fields
from typing import Any

from chatapp.generation.delta import Alternative, BeamEvent, Delta, Guesses, Timings, Token, Usage
from chatapp.generation.options import Options
from chatapp.generation.text.message import Message, ToolCall
from chatapp.generation.text.surroundings import Excerpt, Surroundings

Json = Mapping[str, Any]  # Any: what JSON can hold


def write_options(options: Options) -> Json:
    """Options as JSON; minus infinity in biases is null."""
    told = {field.name: getattr(options, field.name) for field in fields(options)}
    biases = [[token, bias if math.isfinite(bias) else None] for token, bias in options.logit_bias.items()]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()} | {
        "logit_bias": biases
    }


def read_options(told: Json) -> Options:
    """Read options; OptionError or TypeError for invalid ones."""
    biases = {int(token): -math.inf if bias is None else float(bias) for token, bias in told.get("logit_bias", ())}
    return Options(**{**told, "logit_bias": biases})


def write_message(message: Message) -> Sequence[object]:
    """A message as a list of its fields."""
    calls = [[one.name, one.arguments, one.id] for one in message.calls]
    answers = message.answers and [message.answers.name, message.answers.arguments, message.answers.id]
    return [message.role, message.text, calls, answers]


def read_message(told: Sequence[Any]) -> Message:  # Any: as write_message wrote them
    """Read a message; TypeError or ValueError for an invalid one."""
    role, text, calls, answers = told
    return Message(role, text, tuple(ToolCall(*one) for one in calls), ToolCall(*answers) if answers else None)


def write_surroundings(around: Surroundings | None) -> Json | None:
    """Surroundings as JSON."""
    return asdict(around) if around else None


def read_surroundings(told: Json | None) -> Surroundings | None:
    """Read surroundings."""
    if told is None:
        return None
    return Surroundings(told["repository"], told["path"], [Excerpt(**one) for one in told["excerpts"]])


def write_delta(delta: Delta) -> Sequence[object]:
    """A delta as a list of its fields."""
    usage = delta.usage.as_dict() if delta.usage else None
    beams = [[getattr(one, field.name) for field in fields(one)] for one in delta.beams]
    timings = delta.timings
    return [
        delta.text,
        delta.index,
        [write_token(token) for token in delta.tokens],
        delta.finish_reason,
        [timings.prefill, timings.decode, timings.sampling, timings.detokenising],
        usage,
        delta.channel,
        delta.score,
        beams,
        delta.reading,
        astuple(delta.guesses) if delta.guesses else None,
        delta.valid,
        delta.stop,
    ]


def write_token(token: Token) -> Sequence[object]:
    """A token as a list; alternatives without a probability have null."""
    others = [[one.id, one.text, one.logprob if math.isfinite(one.logprob) else None] for one in token.alternatives]
    logprob = token.logprob if token.logprob is None or math.isfinite(token.logprob) else "-inf"
    return [token.id, token.text, logprob, others, token.seconds, token.guessed]


def read_delta(told: Sequence[Any]) -> Delta:  # Any: as write_delta wrote them
    """Read a delta."""
    text, index, tokens, finish_reason, timings, usage, channel, score, beams, reading, guesses, valid, stop = told
    return Delta(
        text,
        index,
        tuple(map(read_token, tokens)),
        finish_reason,
        Timings(*timings),
        Usage(**{**usage, "latencies": tuple(usage["latencies"])}) if usage else None,
        channel,
        score,
        tuple(BeamEvent(*one) for one in beams),
        (reading[0], reading[1]) if reading else None,
        Guesses(*guesses) if guesses else None,
        valid,
        stop,
    )


def read_token(told: Sequence[Any]) -> Token:  # Any: as write_token wrote them
    """Read a token."""
    id, text, logprob, others, seconds, guessed = told
    known = tuple(Alternative(one, said, -math.inf if chance is None else chance) for one, said, chance in others)
    return Token(id, text, -math.inf if logprob == "-inf" else logprob, known, seconds, guessed)
