"""What drawing one token costs on the host, for vocabularies of GPT-2's and Qwen2.5's size."""

import argparse
import statistics
import time

import numpy as np

from chatapp.generation import Options
from chatapp.generation.sampling import Sampler, log_probability

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
    costs = []
    for size in VOCABULARIES:
        start = time.perf_counter()
        for row in range(repeats):
            log_probability(logits[size][row % 8], 0, 5)
        costs.append(1e6 * (time.perf_counter() - start) / repeats)
    print(f"{'log-probability, 5 best':24}" + "".join(f"{cost:18.0f}" for cost in costs))


if __name__ == "__main__":
    main()
