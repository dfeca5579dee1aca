"""Make tests/golden_sampling.json: what transformers' logits processors leave of some logits.

PYTHONPATH=tests python -m golden_makers.sampling, with `pip install '.[verify]'`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

PATH = Path(__file__).parents[1] / "golden_sampling.json"
SIZE = 48
PROMPT = [3, 9, 4, 9, 4, 7, 1, 3, 9, 4]
"""With what they end there are two ways on: 9 and 7."""
MAKERS = {
    "repetition_penalty": RepetitionPenaltyLogitsProcessor,
    "no_repeat_ngram_size": NoRepeatNGramLogitsProcessor,
    "bad_word_ids": NoBadWordsLogitsProcessor,
    "temperature": TemperatureLogitsWarper,
    "top_k": TopKLogitsWarper,
    "top_p": TopPLogitsWarper,
    "min_p": MinPLogitsWarper,
    "typical_p": TypicalLogitsWarper,
}
"""In the order in which `generate` of transformers has them."""
CASES: list[dict[str, Any]] = [
    {"temperature": 0.7, "top_k": 12, "top_p": 0.9},
    {"temperature": 1.3, "min_p": 0.08},
    {"typical_p": 0.9},
    {"typical_p": 0.35},
    {"temperature": 0.6, "typical_p": 0.6},
    {"temperature": 1.5, "top_k": 20, "typical_p": 0.8},
    {"top_p": 0.8, "typical_p": 0.7},
    {"temperature": 0.9, "top_k": 30, "top_p": 0.95, "min_p": 0.02, "typical_p": 0.9},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"no_repeat_ngram_size": 4, "repetition_penalty": 1.4},
    {"no_repeat_ngram_size": 11},
    {"bad_word_ids": [[5], [9, 4, 8], [4, 2], [1, 4, 6], [3, 9, 4, 11]]},
    {"bad_word_ids": [[7]], "repetition_penalty": 1.2, "temperature": 0.8, "top_k": 10},
]


def main() -> None:
    """Write what every case leaves of two rows of logits: the tokens and their probabilities."""
    rows = np.round(np.random.default_rng(5).normal(0, 2, (2, SIZE)), 2).astype(np.float32)
    found = []
    for case in CASES:
        processors = LogitsProcessorList([make(case[name]) for name, make in MAKERS.items() if name in case])
        scores = processors(torch.tensor([PROMPT] * len(rows)), torch.tensor(rows.copy()))
        chances = scores.double().softmax(-1).tolist()
        kept = [{token: round(chance, 7) for token, chance in enumerate(row) if chance} for row in chances]
        found.append({"options": case, "kept": kept})
    made = {"prompt": PROMPT, "logits": [[round(float(logit), 2) for logit in row] for row in rows], "cases": found}
    PATH.write_text(json.dumps(made) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
