"""Make tests/golden_beams.json: the texts and scores that transformers' beam search finds with tiny checkpoints.

PYTHONPATH=tests python -m golden_makers.beams, with `pip install '.[verify]'`. Groups of beams left transformers with
version 5: `python -m golden_makers.beams groups` makes theirs with 4.49.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GPT2LMHeadModel

TESTS = Path(__file__).parents[1]
PATH = TESTS / "golden_beams.json"
PROMPT = [5, 17, 3, 88, 41, 17, 3]
END = [2, 9, 11, 30, 58, 81]
"""Many, so that texts of different lengths end; a random model writes each about as often as any token."""
PLAIN: list[dict[str, Any]] = [
    {"num_beams": 4, "n": 4, "max_tokens": 12},
    {"num_beams": 2, "n": 1, "max_tokens": 7},
    {"num_beams": 5, "n": 3, "max_tokens": 10, "length_penalty": 2.0},
    {"num_beams": 5, "n": 5, "max_tokens": 10, "length_penalty": 0.0},
    {"num_beams": 3, "n": 3, "max_tokens": 14, "length_penalty": -1.5},
    {"num_beams": 4, "n": 4, "max_tokens": 12, "early_stopping": True},
    {"num_beams": 4, "n": 2, "max_tokens": 16, "early_stopping": "never"},
    {"num_beams": 4, "n": 4, "max_tokens": 12, "early_stopping": "never", "length_penalty": 1.5},
    {"num_beams": 8, "n": 8, "max_tokens": 9, "repetition_penalty": 1.3},
    {"num_beams": 4, "n": 4, "max_tokens": 12, "no_repeat_ngram_size": 2},
    {"num_beams": 16, "n": 16, "max_tokens": 6, "length_penalty": 0.5},
]
GROUPS: list[dict[str, Any]] = [
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0, "n": 4, "max_tokens": 8, "early_stopping": True},
    {"num_beams": 6, "num_beam_groups": 3, "diversity_penalty": 0.4, "n": 6, "max_tokens": 10, "early_stopping": True},
    {"num_beams": 4, "num_beam_groups": 4, "diversity_penalty": 2.5, "n": 4, "max_tokens": 9},
    {"num_beams": 6, "num_beam_groups": 2, "diversity_penalty": 0.7, "n": 3, "max_tokens": 10, "early_stopping": True},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "n": 4, "max_tokens": 8, "early_stopping": True},
]
"""Version 4 went on a step longer unless it stopped early, and wrote the first of END for each of them."""
NAMES = {"n": "num_return_sequences", "max_tokens": "max_new_tokens"}


def search(model: GPT2LMHeadModel, case: dict[str, Any]) -> list[dict[str, Any]]:
    """What `generate` finds: tokens without what fills them up, and scores."""
    given = {NAMES.get(name, name): value for name, value in case.items()}
    found = model.generate(
        torch.tensor([PROMPT]),
        do_sample=False,
        eos_token_id=END,
        pad_token_id=95,  # which groups that have ended count as chosen
        return_dict_in_generate=True,
        output_scores=True,
        **given,
    )
    texts = []
    for tokens, score in zip(found.sequences[:, len(PROMPT) :].tolist(), found.sequences_scores.tolist(), strict=True):
        ends = [place for place, token in enumerate(tokens) if token in END]
        texts.append({"tokens": tokens[: ends[0] + 1] if ends else tokens, "score": round(score, 6)})
    return texts


def main() -> None:
    """Write the plain searches, or those with groups, and leave the others as they are."""
    made = json.loads(PATH.read_text("utf-8")) if PATH.exists() else {}
    name, cases = ("groups", GROUPS) if "groups" in sys.argv else ("plain", PLAIN)
    made[name] = []
    for checkpoint in ("gpt2", "opt" if name == "groups" else "llama"):
        model = AutoModelForCausalLM.from_pretrained(TESTS / "golden" / checkpoint).float().eval()
        for case in cases:
            made[name].append({"checkpoint": checkpoint, "options": case, "found": search(model, case)})
    PATH.write_text(json.dumps(made | {"prompt": PROMPT, "end": END}, indent=None) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
