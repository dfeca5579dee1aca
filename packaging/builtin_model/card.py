"""Writes the model card from what was recorded and measured: sources, run, baselines and evaluation."""

# torch has no types as this project checks it.
# mypy: warn-return-any=False

import argparse
import json
from pathlib import Path
from typing import Any

import torch

EXAMPLES = 6
"""Of each kind shown."""
Json = dict[str, Any]
"""What the other scripts wrote."""


def read(path: Path) -> Json:
    """Reads one of their reports."""
    return json.loads(path.read_text(encoding="utf-8"))


def verdict(model: Json, ngram: Json) -> str:
    """Says what the model is worth beside the n-gram baseline."""
    found, bar = (figures["rest_of_line"]["exact"] for figures in (model, ngram))
    if found > bar:
        return (
            f"It completes {found} % of held-out lines exactly where they were cut, the n-gram baseline {bar} %: "
            "good enough to be offered, far from a large model."
        )
    return (
        f"It completes {found} % of held-out lines exactly where they were cut, which is no more than the n-gram "
        f"baseline's {bar} %: it shows that everything works, and is not worth relying on for completion. "
        "`chatapp complete` therefore offers what the file itself has wherever the model is unsure."
    )


def introduction(work: Path, run: Json, evaluation: Json, baselines: Json, parameters: int) -> str:
    """The part that `chatapp show builtin` prints."""
    size = sum(source["bytes"] for source in read(work / "sources.json")["sources"])
    return f"""# The built-in model

A code completion model of {parameters / 1e6:.1f} million parameters, made by this project from Python code alone.
It continues code and fills gaps; it does not chat, and knows no other language.
It was trained on a processor, without a GPU, for {run["elapsed"] / 60:.0f} minutes: {run["tokens"] / 1e6:.1f} million
tokens of {size / 1e6:.0f} MB of source text.
{verdict(evaluation["product_model"], baselines["ngram"])}
"""


def row(name: str, bits: Json | None, figures: Json) -> str:
    """One line of the table."""
    both = f"{bits['heldout_package']:.2f} / {bits['heldout_file']:.2f}" if bits else "–"
    rest, whole = figures["rest_of_line"], figures["whole_line"]
    return f"| {name} | {both} | {rest['exact']} % | {rest['surest_quarter']} % | {whole['exact']} % |"


def table(evaluation: Json, baselines: Json) -> str:
    """The model beside the baselines."""
    rows = [
        row("**this model**, int8, as shipped", evaluation["bits_per_byte"], evaluation["product_model"]),
        row(
            "**this model and the file's own text**, as `chatapp complete`",
            None,
            evaluation["product_model_and_matcher"],
        ),
        row("n-gram over the training files, longest match", baselines["bits_per_byte"], baselines["ngram"]),
        row("the file's own text, longest match", None, baselines["in_file"]),
        row("the most common line after the line before", None, baselines["next_line"]),
    ]
    head = "| | bits per byte, packages / files | rest of a line | its surest quarter | a whole line |"
    return (
        f"""## How good it is

On {evaluation["cases"]} lines of code from packages and files that were set aside before training, exact to the letter
(seed {evaluation["seed"]}): the rest of a line cut at a random place, and a whole line. Bits per byte are over the
same held-out packages and files, after half a context of text; the model's were measured in float32.

{head}
|---|---|---|---|---|
"""
        + "\n".join(rows)
        + "\n"
    )


def examples(evaluation: Json) -> str:
    """The first right ones and the first wrong ones, as they came."""
    cases = evaluation["product_model"]["rest_of_line"]["examples"]

    def shown(exact: bool) -> str:
        chosen = [case for case in cases if case["exact"] is exact][:EXAMPLES]
        return "\n".join(
            f"    {case['given']}▸{case['completed']}" + ("" if exact else f"\n        (wanted: {case['wanted']})")
            for case in chosen
        )

    return f"""## Examples

Of the first {len(cases)} cases, unpicked; `▸` is where the line was cut. Right, to the letter:

{shown(True) or "    none"}

Wrong, the first {EXAMPLES}:

{shown(False)}
"""


def sources(work: Path) -> str:
    """What it was trained on, and what was set aside."""
    found = read(work / "sources.json")["sources"]
    rows = "\n".join(
        f"| {s['package']} | {s['version']} | {s['licence']} | {s['bytes'] / 1e6:.2f} | {'yes' * s['heldout']} |"
        for s in sorted(found, key=lambda s: -s["bytes"])
        if s["bytes"]
    )
    return f"""## What it was trained on

Files of Python's standard library and of packages under permissive licences, as installed when it was trained;
generated files, vendored code, tables and duplicates left out. The authors keep their copyright.

| package | version | licence | MB | set aside |
|---|---|---|---|---|
{rows}
"""


def making(run: Json, config: Json) -> str:
    """How it was made."""
    return f"""## How it was made

Llama-type decoder: {config["num_hidden_layers"]} layers, hidden size {config["hidden_size"]}, \
{config["num_attention_heads"]} heads of {config["head_dim"]} over {config["num_key_value_heads"]} key-value heads, \
feed-forward {config["intermediate_size"]}, tied embedding, context {config["max_position_embeddings"]:,}.
Byte-level BPE of {config["vocab_size"]:,} tokens. Half of the samples are for infilling, in the order
`<fim_prefix><fim_suffix>{{suffix}}<fim_middle>{{prefix}}`.
{run["steps"]:,} steps, {run["tokens"]:,} tokens, Muon and AdamW. The recipe, with every seed, is
`packaging/builtin_model/` of the source repository; with a GPU it makes a model seven times as large (not yet done).

Licence of the weights: Apache-2.0, as the project's.
"""


def main() -> None:
    """Parses the command line and writes the card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="the exported folder, which gets the card")
    arguments = parser.parse_args()
    state = torch.load(arguments.run / "best.pt", map_location="cpu", weights_only=True)
    evaluation, baselines = read(arguments.work / "evaluation.json"), read(arguments.work / "baselines.json")
    parameters = sum(weight.numel() for weight in state["weights"].values())
    parts = [
        introduction(arguments.work, state["run"], evaluation, baselines, parameters),
        table(evaluation, baselines),
        examples(evaluation),
        making(state["run"], read(arguments.model / "config.json")),
        sources(arguments.work),
    ]
    (arguments.model / "README.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
