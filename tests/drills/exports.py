"""Load exports with the programs that they are for, and compare their logits with those of PyTorch and transformers.

`PYTHONPATH=tests:tests/offline python -m drills.exports onnx PYTHON [CASE...]`, where PYTHON is the interpreter of an
environment with `pip install onnxruntime-genai`, or `... gguf PYTHON [CASE...]`, with `pip install xllamacpp numpy`.
Every golden checkpoint that the target does not refuse is exported at f32, and each is read by a process of its own.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden"
COUNT = 20
"""Tokens that are read."""
TOLERANCE = {"onnx": 1e-4, "gguf": 0.02}
"""Of logarithms of probabilities; llama.cpp looks GELU up in a table of float16."""


def genai(folder: Path, tokens: np.ndarray) -> np.ndarray:
    """What onnxruntime-genai says follows the tokens, of which it reads half at once."""
    import onnxruntime_genai

    model = onnxruntime_genai.Model(str(folder))
    settings = onnxruntime_genai.GeneratorParams(model)
    settings.set_search_options(max_length=len(tokens) + 1)
    generator = onnxruntime_genai.Generator(model, settings)
    half = len(tokens) // 2
    for part in (tokens[:half], *tokens[half:, None]):
        generator.append_tokens(part.astype(np.int32))
    return log_softmax(np.array(generator.get_logits())[0, -1])


def llamacpp(folder: Path, tokens: np.ndarray) -> np.ndarray:
    """What llama.cpp says follows the tokens."""
    import xllamacpp

    [path] = folder.glob("*.gguf")
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.n_ctx, settings.n_parallel, settings.warmup = 256, 1, False
    settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    settings.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    asked = {"prompt": tokens.tolist(), "n_predict": 1, "n_probs": 1000, "temperature": 0, "cache_prompt": False}
    answer = xllamacpp.Server(settings).handle_completions(asked)
    found: dict[str, Any] = json.loads(answer) if isinstance(answer, str) else answer  # Any: JSON
    every = found["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    return np.array([one["logprob"] for one in sorted(every, key=lambda one: int(one["id"]))])


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities."""
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def export(target: str, case: str, folder: Path) -> str:
    """Export a golden checkpoint; what is wrong with it, where it is refused."""
    from chatapp.deploy import exporting
    from model_store import Store, StoreError
    from model_store.convert import open_checkpoint
    from support.byte_tokenizers import write_tokenizer

    name = case.replace("phi3", "p3")  # llama.cpp asks a model called phi3 for certain tokens
    checkpoint = Path(shutil.copytree(GOLDEN / case, folder / name))
    write_tokenizer(checkpoint, open_checkpoint(checkpoint)[2].vocab_size, "neox" in case)
    source = exporting.open_source(Store(folder / "store"), str(checkpoint))
    module = exporting.get(target)
    # llama.cpp turns positions as in long texts wherever there is room for one
    shorter = {"context": source.decoder.border} if target == "gguf" else {}
    try:
        exporting.export(source, module, folder / "out", module.Options(precision="f32", **shorter))
    except StoreError as error:
        return str(error)
    return ""


def main(target: str, python: str, *cases: str) -> int:
    """Compare every case, and say how far each is off."""
    failed = 0
    for case in cases or sorted(path.name for path in GOLDEN.iterdir()):
        golden = np.load(GOLDEN / case / "golden.npz")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if refused := export(target, case, folder):
                print(f"refused  {refused}")
                continue
            np.save(folder / "tokens.npy", golden["tokens"][0, :COUNT])
            command = [python, __file__, target, str(folder)]
            done = subprocess.run(command, capture_output=True, text=True)
            expected = log_softmax(golden["logits"][0, COUNT - 1])
            path = folder / "found.npy"
            found = np.load(path)[: len(expected)] if path.exists() else np.full(len(expected), np.inf)
        off = float(np.abs(found - expected).max())
        alike = bool(found.argmax() == expected.argmax())
        passed = off < TOLERANCE[target] and alike
        print(f"{'ok      ' if passed else 'FAILED  '} {case}: off by {off:.1e}{'' if passed else done.stderr[-500:]}")
        failed += not passed
    return failed


if __name__ == "__main__":
    if Path(sys.argv[2]).is_dir():  # in the other environment
        place = Path(sys.argv[2])
        tell = {"onnx": genai, "gguf": llamacpp}[sys.argv[1]]
        np.save(place / "found.npy", tell(place / "out", np.load(place / "tokens.npy")))
    else:
        sys.exit(main(*sys.argv[1:]))
