"""`qaic`: a model for the compiler for Qualcomm Cloud AI 100, with everything that the compiler needs.

The conventions are those of https://github.com/quic/efficient-transformers and of the recipes of
https://github.com/quic/cloud-ai-sdk. The compiler does the rounding: what is written here is float32.
"""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from backends import Progress
from model_store.exports import ExportError, Finding, Source, option
from model_store.exports.decoders import copy_published, refuse_experts, require_decoder
from model_store.files import write_json

if TYPE_CHECKING:
    import numpy as np

    from backends.decoder import Decoder

SUMMARY = "a folder for the compiler of Qualcomm Cloud AI 100: ONNX, specializations and compile command"
FAMILIES = (
    "codegen", "falcon", "gemma", "gemma2", "gemma3", "gemma3_text", "gpt2", "gpt_bigcode", "gptj", "granite", "llama",
    "mistral", "phi", "phi3", "qwen2", "qwen3", "starcoder2",
)  # fmt: skip
"""Families that efficient-transformers compiles too."""
FORMATS = {
    "fp16": (False, False),
    "mxfp6": (True, False),
    "mxint8-kv": (False, True),
    "mxfp6-mxint8-kv": (True, True),
}
"""Whether matrices are MXFP6, and whether caches are MXINT8; everything else is float16."""
FORMATS_TOLD = "fp16, mxfp6 (matrices in 6.25 bits), mxint8-kv (caches in 8.25 bits), mxfp6-mxint8-kv (default: fp16)"
CORES = 16
"""Most cores of a device."""
STEPS = 8
"""Tokens that a check reads one by one."""
EXACT = 1e-4
"""The largest error of logits in float32, relative to the largest one."""
ALLOWED = {"fp16": 0.02, "mxint8-kv": 0.1, "mxfp6": 0.25, "mxfp6-mxint8-kv": 0.3}
"""The largest error with the device's rounding: root mean square, relative to our logits' deviation."""


@dataclass(frozen=True)
class Options:
    """The options of the target."""

    prompt_len: int = option(128, "prompt tokens per pass (default: 128)", metavar="PL")
    ctx_len: int = option(1024, "context length in tokens, a multiple of PL (default: 1024)", metavar="CL")
    cores: int = option(CORES, f"cores per device (default: {CORES})", metavar="N")
    devices: int = option(1, "devices (SoCs) that share the model (default: 1)", metavar="N")
    format: str = option("fp16", FORMATS_TOLD, choices=tuple(FORMATS), metavar="FORMAT")


def refuse(source: Source, options: Options) -> None:
    """Raise ExportError for what the target cannot have."""
    require_decoder(source, "the target qaic")
    refuse_experts(source, "the target qaic")
    name, decoder = source.model.name, source.decoder
    if source.model.family not in FAMILIES:
        raise ExportError(
            f"{name} is of the family {source.model.family}, which is not known to compile for Cloud AI 100 "
            f"(known: {', '.join(FAMILIES)}); chatapp export onnx writes it for other machines"
        )
    if options.format not in FORMATS:
        raise ExportError(f"the target qaic lacks the format {options.format!r}; choose from {', '.join(FORMATS)}")
    prompt, context = options.prompt_len, options.ctx_len
    if options.cores > CORES:
        raise ExportError(f"--cores is {options.cores}, and a device has at most {CORES}; use more --devices")
    if context < prompt:
        raise ExportError(f"a context of {context} tokens (--ctx-len) cannot hold a prompt of {prompt} (--prompt-len)")
    if context % prompt:
        raise ExportError(
            f"prompts are read in pieces of {prompt} tokens (--prompt-len), which do not divide a context of {context} "
            f"(--ctx-len); {context - context % prompt} would do"
        )
    if context > decoder.context_length:
        raise ExportError(f"{name} has a context of {decoder.context_length} tokens; --ctx-len asks for {context}")
    if decoder.border and context > decoder.border:
        raise ExportError(
            f"{name} changes positions in texts longer than {decoder.border} tokens (longrope), and a program "
            f"is compiled for one way; --ctx-len can be at most {decoder.border}"
        )


def write(source: Source, folder: Path, options: Options, on_progress: Progress | None = None) -> None:
    """Write the graph, the compiler's other inputs, and its command."""
    from backends.onnx import qaic

    decoder = fitted(source, options)
    flat = source.model.family == "gpt_bigcode" and decoder.layers[0].kv_heads == 1  # their caches lack an axis
    qaic.lower(decoder, source.weights("f32", on_progress), folder, flat=flat)
    sizes = [{name: str(size) for name, size in one.items()} for one in specializations(options)]
    named = [{"name": "Decode" if one["seq_len"] == "1" else "Prefill", "symbols": one} for one in sizes]
    write_json(folder / "specializations.json", {"specializations": named})
    write_json(folder / "specializations_flat.json", {"specializations": sizes})  # for compilers up to 1.21
    precision = "mxint8" if FORMATS[options.format][1] else "float16"
    states = [name + end for name in qaic.caches(decoder, flat=False) for end in ("", "_RetainedState")]
    entries = [f" - IOName: {name}\n   Precision: {precision}\n\n" for name in states]
    (folder / "custom_io.yaml").write_text("".join(entries), "utf-8")
    if options.devices > 1:
        write_json(folder / partition_file(options), partition(options))
    script = folder / "compile.sh"
    script.write_text(script_of(source, options), "utf-8")
    script.chmod(0o755)
    (folder / "README.md").write_text(readme(source, options), "utf-8")
    copy_published(source, folder)


def fitted(source: Source, options: Options) -> "Decoder":
    """The decoder for the chosen context."""
    layers = tuple(
        replace(layer, rope=layer.rope and replace(layer.rope, long=(), border=0)) for layer in source.decoder.layers
    )  # longer texts were refused
    return replace(source.decoder, layers=layers, context_length=options.ctx_len)


def specializations(options: Options) -> list[dict[str, int]]:
    """The sizes of the two programs, for a prompt and for a single token."""
    lengths = dict.fromkeys((options.prompt_len, 1))
    return [{"batch_size": 1, "seq_len": length, "ctx_len": options.ctx_len} for length in lengths]


def partition_file(options: Options) -> str:
    """The name of the file that divides a model between devices."""
    return f"mdp_ts_{options.devices}.json"


def partition(options: Options) -> dict[str, Any]:  # Any: JSON
    """A partition that gives each device a slice of every tensor."""
    numbers = list(range(options.devices))
    devices = [{"deviceId": number, "numCores": options.cores} for number in numbers]
    return {
        "connections": [{"devices": numbers, "type": "p2p"}],
        "partitions": [{"name": "Partition0", "devices": devices}],
    }


def program_name(source: Source, options: Options) -> str:
    """The folder of the compiled program, named as in the recipes."""
    cores = options.cores * options.devices
    return f"{source.model.name}-1bs-{options.prompt_len}pl-{options.ctx_len}cl-{cores}c-{options.format}"


def script_of(source: Source, options: Options) -> str:
    """The script that compiles, for current and older compilers."""
    arguments = ["-m=model.onnx", "-retained-state", "-convert-to-fp16", f"-aic-num-cores={options.cores}"]
    arguments += ["-mxfp6-matmul"] if FORMATS[options.format][0] else []
    arguments += [f"-mdp-load-partition-config={partition_file(options)}"] if options.devices > 1 else []
    arguments.append("-custom-IO-list-file=custom_io.yaml")
    return SCRIPT.format(name=shlex.quote(program_name(source, options)), arguments=shlex.join(arguments))


SCRIPT = """\
#!/bin/sh
# Compiles model.onnx for Cloud AI 100. The SDK's tools are looked for in QAIC_TOOLS.
set -eu
cd "$(dirname "$0")"
tools="${{QAIC_TOOLS:-/opt/qti-aic/exec}}"
program=qpc/{name}
if [ -e "$program/programqpc.bin" ]; then
    echo "$program is compiled already; remove it to compile again" >&2
    exit 1
fi
mkdir -p qpc
rm -rf "$program" # the compiler makes it
set -- {arguments} -aic-binary-dir="$program"
if [ -x "$tools/qaic-compile" ]; then
    sizes=specializations.json
    set -- "$tools/qaic-compile" -aic-hw -aic-hw-version=ai100 "$@"
elif [ -x "$tools/qaic-exec" ]; then # up to 1.21
    sizes=specializations_flat.json
    set -- "$tools/qaic-exec" -aic-hw -aic-hw-version=2.0 -compile-only "$@"
else
    echo "there is no qaic-compile in $tools; install the Platform and Apps SDK, or set QAIC_TOOLS" >&2
    exit 1
fi
"$@" -network-specialization-config="$sizes"
cp specializations.json qpc/ # where efficient-transformers' runtime looks for it
"""


def readme(source: Source, options: Options) -> str:
    """A description of the folder, and what to do with it."""
    return f"""\
# {source.model.name} for Cloud AI 100

Prompts are read in pieces of {options.prompt_len} tokens, the context has {options.ctx_len}, the format is \
{options.format}; {options.devices} device(s) of {options.cores} cores.

    ./compile.sh

compiles it to `qpc/{program_name(source, options)}`. The script takes `qaic-compile` of the Apps SDK in
`/opt/qti-aic/exec`, or the older `qaic-exec`; `QAIC_TOOLS` names another folder.

| file | what it is |
|---|---|
| `model.onnx`, `model.data` | the decoder in float32, with its caches as inputs and outputs |
| `specializations.json` | the sizes to compile for, as compilers from 1.22 on read them |
| `specializations_flat.json` | the same for older compilers |
| `custom_io.yaml` | the type of the caches on the device |
| `mdp_ts_N.json` | how N devices share the model, where there are several |
| `tokenizer.json`, `config.json`, ... | the publisher's |

A host fills the last piece of a prompt with tokens whose `position_ids` are -1, feeds every `past_...` with what came
out as `past_..._RetainedState`, and takes the logits of the newest token.
"""


def check(source: Source, folder: Path, options: Options) -> list[Finding]:
    """Check the graph and its shapes, and compare its logits with ours: in float32, and as the device rounds."""
    import numpy as np

    from backends.onnx import qaic_simulation as simulation
    from backends.reference import Session

    simulation.verify(folder / "model.onnx", specializations(options))
    found = [Finding("the graph and its shapes", True, "valid for every specialization")]
    length = min(options.ctx_len, options.prompt_len * 3 // 2 + STEPS)
    tokens = np.random.default_rng(0).integers(0, source.decoder.vocab_size, length)
    read = max(1, length - STEPS)
    expected = Session(source.decoder, source.weights()).forward(tokens[None], last=length - read + 1)[0]
    with TemporaryDirectory(dir=folder.parent) as name:
        logits = run(folder, Path(name), options, "", tokens[:read], tokens[read:])
        error = float(np.abs(logits - expected).max() / np.abs(expected).max())
        figure = f"off by {error:.1e} of the largest at most ({EXACT:.0e} allowed)"
        found.append(Finding(f"logits in float32, {read} tokens in pieces and {STEPS} steps", error <= EXACT, figure))
        logits = run(folder, Path(name), options, options.format, tokens[:read], tokens[read:])
    off = float(np.sqrt(np.mean((logits - expected) ** 2)) / expected.std())
    same = float((logits.argmax(-1) == expected.argmax(-1)).mean())
    allowed = ALLOWED[options.format]
    figure = f"off by {off:.1e} of their deviation ({allowed:g} allowed), {same:.0%} of the next tokens alike"
    found.append(Finding(f"logits as {options.format} rounds them", bool(off <= allowed), figure))
    return found


def run(
    folder: Path, scratch: Path, options: Options, rounding: str, prompt: "np.ndarray", rest: "np.ndarray"
) -> "np.ndarray":
    """The logits after `prompt` and after each token of `rest`, with the rounding of a format, or with none."""
    import numpy as np

    from backends.onnx import qaic_simulation as simulation

    matrices, states = FORMATS.get(rounding, (False, False))
    how = dict(matrices=simulation.mxfp6) if matrices else {}
    simulation.simulate(folder, scratch, halves=bool(rounding), **how)
    state = simulation.mxint8 if states else None
    device = simulation.Device(scratch, options.prompt_len, options.ctx_len, state)
    return np.stack([device.read(prompt), *(device.append(int(token)) for token in rest)])
