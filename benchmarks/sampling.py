"""What drawing one token costs on the host, for vocabularies of GPT-2's and Qwen2.5's size."""

import argparse
import statistics
import time

import numpy as np

from chatapp.generation import Options
from chatapp.generation.decoding.candidates import largest
from chatapp.generation.decoding.sampling import Sampler, log_probability

VOCABULARIES = 50257, 151936
OPTIONS = {
    "greedy": Options(temperature=0),
    "default": Options(),
    "temperature only": Options(top_k=0, top_p=1.0),
    "top_p only": Options(top_k=0),
    "min_p only": Options(top_k=0, top_p=1.0, min_p=0.05),
    "default with penalties": Options(repetition_penalty=1.1, presence_penalty=0.5, frequency_penalty=0.5),
}


def microseconds(sampler: Sampler, logits: np.ndarray, repeats: int) -> float:
    """The median time of one token."""
    times = []
    for row in range(repeats):
        start = time.perf_counter()
        sampler.sample(logits[row % len(logits)])
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def log_probabilities(logits: np.ndarray, repeats: int, *, known: bool) -> float:
    """The median time of one token's log-probabilities, in microseconds; `known`: the runtime found the best."""
    ids = [largest(row, 64) for row in logits]
    tops = [(best, row[best]) if known else None for best, row in zip(ids, logits, strict=True)]
    weights, times = np.empty_like(logits[0]), []
    for place in range(repeats):
        row, top = logits[place % len(logits)], tops[place % len(logits)]
        start = time.perf_counter()
        log_probability(row, 0, 5, top, weights)
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    repeats = parser.parse_args().repeats
    print(f"{'microseconds a token':24}" + "".join(f"{f'{size:,} tokens':>18}" for size in VOCABULARIES))
    random = np.random.default_rng(0)
    logits = {size: 2 * random.standard_normal((8, size), np.float32) for size in VOCABULARIES}
    for name, options in OPTIONS.items():
        costs = []
        for size in VOCABULARIES:
            sampler = Sampler(options, seed=0, index=0, prompt=range(256), vocab_size=size)
            costs.append(microseconds(sampler, logits[size], repeats))
        print(f"{name:24}" + "".join(f"{cost:18.0f}" for cost in costs))
    for known in (False, True):
        costs = [log_probabilities(logits[size], repeats, known=known) for size in VOCABULARIES]
        name = "logprobs=5, best known" if known else "logprobs=5"
        print(f"{name:24}" + "".join(f"{cost:18.0f}" for cost in costs))


if __name__ == "__main__":
    main()
