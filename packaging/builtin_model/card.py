"""Writes the model card from what was recorded and measured: sources, run, baselines and evaluation."""

# torch has no types as this project checks it.
# mypy: warn-return-any=False

import argparse
import json
from pathlib import Path
from typing import Any

import npm
import numpy as np
import torch
from samples import PACKAGE_TOKENS, chosen_files

EXAMPLES = 6
"""Of each kind shown."""
CORE_WATTS = 10
GPU_WATTS = 700
"""A core of a server and its share of the rest, when busy; a data-centre GPU."""
EARLIER = """\
It began with the weights of a model that had read forty files more, of nine packages (captum, espnet, modelscope, nltk,
plotnine, pyxrd, timm, torchmetrics and xlwings), which say at their beginning that they are under other terms than
their package: GPL, PolyForm, Creative Commons without commerce, or confidential. They were found after that training,
0.03 % of its files, and this one has not read them again. Given 128 tokens of them, at 3,212 places, the model before
it went on for 50 tokens word for word at 30, in three files that repeat themselves."""
"""Of a model that began with the one of 26 November 2026, or with one after it."""
Json = dict[str, Any]
"""What the other scripts wrote."""


def read(path: Path) -> Json:
    """Reads one of their reports."""
    return json.loads(path.read_text(encoding="utf-8"))


def span(found: Json) -> str:
    """A share with the middle 95 % of its resamples."""
    return f"{found['value']:.1f} ({found['low']:.1f} to {found['high']:.1f})"


def trained_bytes(work: Path) -> tuple[int, int]:
    """How much of the text to train on is of Python, and how much of npm's packages."""
    listed = [source for source in read(work / "sources.json")["sources"] if not source["heldout"]]
    of_npm = sum(source["bytes"] for source in listed if npm.is_npm(source["package"]))
    return sum(source["bytes"] for source in listed) - of_npm, of_npm


def languages(python: int, of_npm: int) -> str:
    """Of what it was made, by the bytes of each."""
    if not of_npm:
        return "Python code alone"
    return f"Python and, {100 * of_npm / (python + of_npm):.0f} % of the text, JavaScript and TypeScript"


def introduction(work: Path, run: Json, evaluation: Json, parameters: int, package_tokens: int) -> str:
    """The part that `chatapp show builtin` prints."""
    python, of_npm = trained_bytes(work)
    files = chosen_files(work, package_tokens, len(np.load(work / "train.npy", mmap_mode="r")))
    once = sum(end - start for start, end in files)
    before = f", beginning with the weights of the model {run['begun_from']}" if run["begun_from"] else ""
    if share := run.get("share"):
        before += f"; what it has is the mean of these and, at {100 * share:.0f} %, of what the training made of them"
    alone, file, project = exact(evaluation)
    others = "; of JavaScript and TypeScript {}, {} and {} %".format(*exact(evaluation["javascript"])) if of_npm else ""
    return f"""# The built-in model

A code completion model of {parameters / 1e6:.1f} million parameters, \
made by this project from {languages(python, of_npm)}.
It continues code and fills gaps; it does not chat, and knows no other language.
Of unseen lines{" of Python" if of_npm else ""}, cut in their middle, it completes {alone} % exactly, {file} % with \
the rest of the file, and {project} % in a project{others}: look at every line that it offers.
It read {run["tokens"] / 1e6:,.0f} million tokens, {run["tokens"] / once:.1f} times {once / 1e6:.0f} million \
of {(python + of_npm) / 1e6:,.0f} MB of source text{before}.
"""


def exact(evaluation: Json) -> list[str]:
    """How many unseen lines it completes, in per cent: alone, with the file and in a project."""
    return [f"{evaluation[way]['exact']['value']:.0f}" for way in ("alone", "file", "project")]


def row(name: str, found: Json, *, files: bool) -> str:
    """A line of a table: exact in held-out packages and, if asked for, in held-out files; what an editor shows."""
    likely = found["at"].get("0.3", {})
    offered = f"{likely['shown']['value']:.0f} %, {likely['right']['value']:.0f} %" if likely.get("right") else "–"
    both = [span(found["packages"]), *([span(found["files"]) if found["files"] else "–"] if files else [])]
    return f"| {name} | {' | '.join(both)} | {offered} |"


def javascript(found: Json) -> str:
    """How good it is with JavaScript and TypeScript."""
    ways = {
        "**this model** alone": found["alone"],
        "**with the file**, as `chatapp complete`": found["file"],
        "**in a project**": found["project"],
        "the file without the model": found["file_without_model"],
    }
    body = "\n".join(row(name, each, files=False) for name, each in ways.items())
    return f"""## How good it is with JavaScript and TypeScript

The same on {found["cases"]:,} lines of npm's packages that were set aside before training:

| | held-out packages | shown, right |
|---|---|---|
{body}

Bits per byte over the same packages: {found["bits_per_byte"]["heldout_npm"]:.3f}.

{kinds(found)}"""


def table(evaluation: Json, baselines: Json) -> str:
    """The model beside the baselines."""
    ways = {
        "**this model** alone": evaluation["alone"],
        "**with the file**, as `chatapp complete`": evaluation["file"],
        "**in a project**": evaluation["project"],
        "the file without the model": evaluation["file_without_model"],
        f"n-gram over {baselines['ngram_tokens'] / 1e6:.0f} million tokens of the same": baselines["ngram"],
        "the most common line after the line before": baselines["next_line"],
    }
    body = "\n".join(row(name, found, files=True) for name, found in ways.items())
    bits = evaluation["bits_per_byte"]
    return f"""## How good it is

On {evaluation["cases"]:,} lines of code from packages and files that were set aside before training
(seed {evaluation["seed"]}): the rest of a line cut at a random place, exact to the letter, in per cent, with
the middle 95 % of {evaluation["cases"]:,} cases drawn again. The last column is the ghost text that
an editor shows: how often something is said to be right with 30 %, and how often that is right.

| | held-out packages | held-out files | shown, right |
|---|---|---|---|
{body}

Bits per byte over the same packages and files, after half a context of text, in float32:
{bits["heldout_package"]:.3f} and {bits["heldout_file"]:.3f}; the n-gram needs
{baselines["bits_per_byte"]["heldout_package"]:.2f} and {baselines["bits_per_byte"]["heldout_file"]:.2f}.
"""


def kinds(evaluation: Json) -> str:
    """How good it is by kind of line, and where only the surest offers are shown."""
    ways = {"alone": "alone", "file": "with the file", "project": "in a project"}
    rows = [
        (kind, count, [evaluation[way]["kinds"].get(kind) for way in ways])
        for kind, count in evaluation["file"]["kind_cases"].items()
        if count
    ]
    rows.append(("import", evaluation["imports"]["file"]["cases"], [evaluation["imports"][w]["exact"] for w in ways]))
    by_kind = "\n".join(
        f"| {kind} | {count} | {' | '.join(span(one) if one else '–' for one in found)} |"
        for kind, count, found in rows
    )
    parts = list(evaluation["file"]["surest"])
    surest = "\n".join(
        f"| {shown} | " + " | ".join(f"{evaluation[way]['surest'][part]['value']:.0f} %" for part in parts) + " |"
        for way, shown in ways.items()
    )
    return f"""By kind of line, in per cent, lines that import drawn apart:

| | lines | {" | ".join(ways.values())} |
|---|---|---|---|---|
{by_kind}

Right, where only so many of the lines get an offer, the surest first:

| | {" | ".join(f"{part} %" for part in parts)} |
|---|{"---|" * len(parts)}
{surest}
"""


def examples(evaluation: Json) -> str:
    """The first right ones and the first wrong ones, as they came."""
    cases = evaluation["alone"]["examples"]

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


def by_heart(found: Json) -> str:
    """What it reproduces word for word."""
    trained, heldout = found["trained"], found["heldout"]
    others = found.get("javascript")
    python = " of Python" if others else ""
    return f"""## What it knows by heart

Given {found["prefix_tokens"]} tokens from the middle of a file{python} that it was trained on,
it went on with the file's next {found["tokens"]} tokens word for word in {trained["reproduced"]} of \
{trained["files"]} files; of files that it had
never seen, in {heldout["reproduced"]} of {heldout["files"]}. On average it agreed for {trained["mean_tokens"]} and
{heldout["mean_tokens"]} tokens.
{by_heart_of_npm(others["trained"], others["heldout"]) if others else ""}"""


def by_heart_of_npm(trained: Json, heldout: Json) -> str:
    """What it reproduces of JavaScript and TypeScript."""
    return f"""Of JavaScript and TypeScript it did in {trained["reproduced"]} of {trained["files"]} files,
of unseen ones in {heldout["reproduced"]} of {heldout["files"]};
on average it agreed for {trained["mean_tokens"]} and {heldout["mean_tokens"]} tokens.
"""


def sources(work: Path, remark: str) -> str:
    """What it was trained on, and what was set aside."""
    found = sorted((s for s in read(work / "sources.json")["sources"] if s["bytes"]), key=lambda s: -s["bytes"])
    of_npm = [s for s in found if npm.is_npm(s["package"])]
    rows = "\n".join(
        f"| {s['package']} | {s['version']} | {s['licence']} | {s['bytes'] / 1e6:.2f} | {'yes' * s['heldout']} |"
        for s in found
        if not npm.is_npm(s["package"])
    )
    tarballs = "; those of npm\nfrom its tarballs, and from the source maps in them" if of_npm else ""
    return f"""## What it was trained on

Files of Python's standard library and of packages under permissive licences, from the wheels of
these versions{tarballs};
generated files, vendored code, tables and duplicates left out. The authors keep their copyright;
their licences and notices are in `NOTICES.txt`.
{remark}

| package | version | licence | MB | set aside |
|---|---|---|---|---|
{rows}
{npm_sources(of_npm) if of_npm else ""}"""


def npm_sources(found: list[Json]) -> str:
    """The packages of npm: those that were set aside, and the others by licence, the largest first."""
    aside = ", ".join(f"{s['package'].removeprefix(npm.PREFIX)} {s['version']}" for s in found if s["heldout"])
    licences: dict[str, list[Json]] = {}
    for source in found:
        if not source["heldout"]:
            licences.setdefault(source["licence"], []).append(source)
    parts = [f"Packages of npm, set aside: {aside}. The others by licence, those of most text first:"]
    for licence, listed in sorted(licences.items(), key=lambda item: -len(item[1])):
        names = ", ".join(f"{s['package'].removeprefix(npm.PREFIX)} {s['version']}" for s in listed)
        size = sum(s["bytes"] for s in listed) / 1e6
        count = f"{len(listed):,} package{'s' * (len(listed) > 1)}"
        parts.append(f"**{licence}** ({count}, {size:.1f} MB): {names}.")
    return "\n" + "\n\n".join(parts) + "\n"


def making(run: Json, config: Json) -> str:
    """How it was made."""
    wall, core = run["wall_seconds"] / 3600, run["processor_seconds"] / 3600
    on_gpu = run["device"] == "cuda"
    spent = f"One GPU, {wall:.1f}" if on_gpu else f"A processor, {core:.1f} hours of one core in {wall:.1f}"
    watts = GPU_WATTS if on_gpu else CORE_WATTS
    energy = (wall if on_gpu else core) * watts / 1000
    before = ", beside what the model took that it began with" if run["begun_from"] else ""
    return f"""## How it was made

Llama-type decoder: {config["num_hidden_layers"]} layers, hidden size {config["hidden_size"]}, \
{config["num_attention_heads"]} heads of {config["head_dim"]} over {config["num_key_value_heads"]} key-value heads, \
feed-forward {config["intermediate_size"]}, tied embedding, context {config["max_position_embeddings"]:,}.
Byte-level BPE of {config["vocab_size"]:,} tokens. Half of the samples are for infilling, in the order
`<fim_prefix><fim_suffix>{{suffix}}<fim_middle>{{prefix}}`.
{run["steps"]:,} steps, {run["tokens"]:,} tokens, Muon and AdamW.
{spent} hours in all, about {energy:.2f} kWh: an estimate, at {watts} W{before}.
The recipe, with every seed, is `packaging/builtin_model/` of the source repository.

Licence of the weights: Apache-2.0, as the project's.
"""


def main() -> None:
    """Parses the command line and writes the card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="the exported folder, which gets the card")
    parser.add_argument("--package-tokens", type=int, default=PACKAGE_TOKENS, help="as given to samples.py")
    parser.add_argument("--remark", help="what else is to be said of what it was trained on")
    arguments = parser.parse_args()
    state = torch.load(arguments.run / "state.pt", map_location="cpu", weights_only=True)
    evaluation, baselines = read(arguments.work / "evaluation.json"), read(arguments.work / "baselines.json")
    parameters = sum(weight.numel() for weight in state["weights"].values())
    remark = EARLIER if arguments.remark is None and state["run"]["begun_from"] else arguments.remark or ""
    parts = [
        introduction(arguments.work, state["run"], evaluation, parameters, arguments.package_tokens),
        table(evaluation, baselines),
        kinds(evaluation),
        *([javascript(evaluation["javascript"])] if "javascript" in evaluation else []),
        examples(evaluation),
        by_heart(read(arguments.work / "memorisation.json")),
        making(state["run"], read(arguments.model / "config.json")),
        sources(arguments.work, remark),
    ]
    (arguments.model / "README.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
