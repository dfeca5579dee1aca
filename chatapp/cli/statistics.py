"""The usage of a turn, and the probabilities of its tokens, for standard error."""

import json
import sys
from collections.abc import Sequence

from chatapp.generation import Token, Usage
from chatapp.text.printable import printable
from chatapp.text.units import milliseconds, size


def print_stats(usage: Usage, form: str) -> None:
    """Print the usage as `form`, text or json, says."""
    print(json.dumps(usage.as_dict()) if form == "json" else describe(usage), file=sys.stderr, flush=True)


def describe(usage: Usage) -> str:
    """The usage in four lines."""
    lowered = f", lowered in {milliseconds(usage.lowering_seconds)}" if usage.lowering_seconds else ""
    lines = {
        "tokens": f"{usage.prompt_tokens} read, {usage.cached_tokens} of them cached; "
        f"{usage.completion_tokens} written; seed {usage.seed}",
        "speed": f"{usage.tokens_per_second:.1f} tokens/s; first after {milliseconds(usage.time_to_first_token)}, "
        f"{milliseconds(usage.prefill_seconds)} of it prefill",
        "latency": f"p50 {milliseconds(usage.p50)}, p95 {milliseconds(usage.p95)}, p99 {milliseconds(usage.p99)}; "
        f"first {milliseconds(usage.first_token)}, last {milliseconds(usage.last_token)}",
        "model": f"loaded in {milliseconds(usage.load_seconds)}{lowered}; {size(usage.peak_memory)} memory at most; "
        f"{usage.backend} {usage.device} {usage.precision}",
    }
    return "\n".join(f"{name:8} {line}" for name, line in lines.items())


def print_logprobs(tokens: Sequence[Token]) -> None:
    """Print each token with its log-probability and the alternatives in its place."""

    def quoted(text: str) -> str:
        return json.dumps(printable(text), ensure_ascii=False)

    for token in tokens:
        others = "  ".join(f"{quoted(other.text)} {other.logprob:.2f}" for other in token.alternatives)
        print(f"{token.logprob or 0.0:8.2f}  {quoted(token.text):16}  {others}".rstrip(), file=sys.stderr)
