"""Time one engine on one model at one precision, in a process of its own; print one JSON line.

With `--serve` the process stays: it prints a line when the first token is there, then, for each name of a
measurement read from standard input, one line with its value. So several engines can be timed in turns.
"""

import time

STARTED = time.monotonic()  # before any import that costs

import argparse  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import resource  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from functools import partial  # noqa: E402
from importlib.metadata import version  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Protocol  # noqa: E402

from backends import telemetry  # noqa: E402

THREADS = 2
CONTEXT = 1024
TOKENS = range(257, 1000)
"""What prompts are made of: ordinary tokens of every checkpoint."""


class Engine(Protocol):
    """An engine that has loaded a model."""

    files: Path
    version: str

    def generate(self, prompt: list[int], count: int, rows: int) -> None:
        """Continue `prompt` by exactly `count` greedy tokens, in `rows` equal rows at once."""


class Chatapp:
    """The bare session: no tokenizer, no sampler, no screen."""

    def __init__(self, folder: Path, model: str, precision: str, *, backend: str, runtime: str):
        import backends
        from chatapp.settings import settings
        from model_store import Store

        store = Store(settings.home() / "models")
        variant = store.lowered(store.get(str(folder / model)), backend, precision)
        self.session = backends.get(variant.backend).load(variant.folder, device="cpu")
        self.files = variant.folder
        self.version = f"chatapp on {runtime} {version(runtime)}"

    def generate(self, prompt: list[int], count: int, rows: int) -> None:
        import numpy as np

        session = self.session
        session.rewind(0)
        token = session.forward(np.array([prompt]))[:, -1].argmax(-1)
        if rows > 1:
            session.reorder([0] * rows)
            token = token.repeat(rows)
        for _ in range(count - 1):
            token = session.forward(token[:, None])[:, -1].argmax(-1)


class LlamaCpp:
    """llama.cpp through llama-cpp-python's bindings of its C functions."""

    def __init__(self, folder: Path, model: str, precision: str):
        import llama_cpp

        self.library: Any = llama_cpp  # Any: generated bindings
        self.silence = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.silence, None)
        llama_cpp.llama_backend_init()
        self.files = folder / "exports" / f"{model}-{precision}.gguf"
        loaded = llama_cpp.llama_model_load_from_file(str(self.files).encode(), llama_cpp.llama_model_default_params())
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(loaded))
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = CONTEXT
        options.n_batch = options.n_ubatch = 512
        options.n_threads = options.n_threads_batch = THREADS
        options.n_seq_max = 8
        options.kv_unified = True  # rows share the cache of their prompt
        self.context = llama_cpp.llama_init_from_model(loaded, options)
        self.batch = llama_cpp.llama_batch_init(512, 0, 8)
        self.version = f"llama-cpp-python {llama_cpp.__version__}"

    def generate(self, prompt: list[int], count: int, rows: int) -> None:
        self.library.llama_memory_clear(self.library.llama_get_memory(self.context), True)
        everyone = list(range(rows))
        last = len(prompt) - 1
        self.decode([(token, i, everyone, i == last) for i, token in enumerate(prompt)])
        tokens = [self.best(last)] * rows
        for i in range(len(prompt), last + count):
            self.decode([(token, i, [row], True) for row, token in enumerate(tokens)])
            tokens = [self.best(row) for row in everyone]

    def decode(self, entries: list[tuple[int, int, list[int], bool]]) -> None:
        """Each entry is a token, its position, its rows, and whether its logits are wanted."""
        batch = self.batch
        batch.n_tokens = len(entries)
        for i, (token, position, rows, wanted) in enumerate(entries):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, len(rows), wanted
            for j, row in enumerate(rows):
                batch.seq_id[i][j] = row
        if self.library.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode failed")

    def best(self, entry: int) -> int:
        import numpy as np

        logits = self.library.llama_get_logits_ith(self.context, entry)
        return int(np.ctypeslib.as_array(logits, (self.vocab_size,)).argmax())


class OnnxRuntimeGenai:
    """onnxruntime-genai's generator."""

    def __init__(self, folder: Path, model: str, precision: str):
        self.library: Any = importlib.import_module("onnxruntime_genai")  # Any: untyped
        self.files = folder / "exports" / f"{model}-genai-{precision}"
        config = self.library.Config(str(self.files))
        options = {"session_options": {"intra_op_num_threads": THREADS}}
        config.overlay(json.dumps({"model": {"decoder": options}}))
        self.model = self.library.Model(config)
        self.version = f"onnxruntime-genai {self.library.__version__}"

    def generate(self, prompt: list[int], count: int, rows: int) -> None:
        import numpy as np

        length = len(prompt) + count
        parameters = self.library.GeneratorParams(self.model)
        parameters.set_search_options(max_length=length, min_length=length, do_sample=False, batch_size=rows)
        generator = self.library.Generator(self.model, parameters)
        generator.append_tokens(np.array([prompt] * rows, np.int32))
        made = 0
        while not generator.is_done():
            generator.generate_next_token()
            made += 1
        expect(made, count)


class OpenVINOGenai:
    """openvino-genai's pipeline."""

    def __init__(self, folder: Path, model: str, precision: str):
        self.library: Any = importlib.import_module("openvino_genai")  # Any: untyped
        self.runtime: Any = importlib.import_module("openvino")  # Any: untyped
        self.files = folder / "exports" / f"{model}-openvino-{precision}"
        options = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY"}
        self.pipeline = self.library.LLMPipeline(str(self.files), "CPU", **options)
        self.version = f"openvino-genai {self.library.__version__}"

    def generate(self, prompt: list[int], count: int, rows: int) -> None:
        import numpy as np

        tokens = np.array([prompt] * rows, np.int64)
        inputs = self.library.TokenizedInputs(self.runtime.Tensor(tokens), self.runtime.Tensor(np.ones_like(tokens)))
        options = self.library.GenerationConfig()
        options.max_new_tokens = options.min_new_tokens = count
        options.ignore_eos, options.do_sample = True, False
        for row in self.pipeline.generate(inputs, options).tokens:
            expect(len(row), count)


class CTranslate2:
    """CTranslate2's generator."""

    def __init__(self, folder: Path, model: str, precision: str):
        import ctranslate2

        self.files = folder / "exports" / f"{model}-ctranslate2-{precision}"
        kind = {"f32": "float32"}.get(precision, precision)
        self.generator = ctranslate2.Generator(str(self.files), compute_type=kind, intra_threads=THREADS)
        self.names = json.loads((self.files / "vocabulary.json").read_text())
        self.version = f"ctranslate2 {ctranslate2.__version__}"

    def generate(self, prompt: list[int], count: int, rows: int) -> None:
        names = [self.names[token] for token in prompt]
        options = {"max_length": count, "min_length": count, "include_prompt_in_result": False, "end_token": []}
        for row in self.generator.generate_batch([names] * rows, **options):
            expect(len(row.sequences_ids[0]), count)


class Transformers:
    """PyTorch transformers with its cache."""

    def __init__(self, folder: Path, model: str, precision: str):
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.set_num_threads(THREADS)
        self.torch: Any = torch  # Any: its stubs are looser than strict typing
        self.files = folder / model
        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[precision]
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(self.files, dtype=kind).eval()
        self.version = f"transformers {transformers.__version__} on torch {torch.__version__}"

    def generate(self, prompt: list[int], count: int, rows: int) -> None:
        tokens = self.torch.tensor([prompt] * rows)
        options = {"max_new_tokens": count, "min_new_tokens": count, "do_sample": False}
        with self.torch.inference_mode():
            made = self.model.generate(tokens, attention_mask=self.torch.ones_like(tokens), **options)
        expect(made.shape[1], len(prompt) + count)


ENGINES: dict[str, Callable[[Path, str, str], Engine]] = {
    "chatapp": partial(Chatapp, backend="onnx", runtime="onnxruntime"),
    "chatapp-openvino": partial(Chatapp, backend="openvino", runtime="openvino"),
    "llama.cpp": LlamaCpp,
    "onnxruntime-genai": OnnxRuntimeGenai,
    "openvino-genai": OpenVINOGenai,
    "ctranslate2": CTranslate2,
    "transformers": Transformers,
}


def expect(found: int, wanted: int) -> None:
    """A peer that stopped early must not look fast."""
    if found != wanted:
        raise RuntimeError(f"{found} tokens, not {wanted}")


def timed(engine: Engine, prompt_tokens: int, count: int, rows: int = 1) -> float:
    """Seconds of one generation; the prompt is fresh, so that no cache of prompts helps."""
    prompt = random.choices(TOKENS, k=prompt_tokens)
    start = time.perf_counter()
    engine.generate(prompt, count, rows)
    return time.perf_counter() - start


def first_token(engine: Engine) -> float:
    """Seconds to the first token of a 256-token prompt."""
    timed(engine, 256, 1)
    return timed(engine, 256, 1)


def decode(engine: Engine, rows: int, count: int) -> float:
    """Tokens per second after a 64-token prompt, its prefill taken off."""
    timed(engine, 64, 8, rows)  # buffers for so many rows, weights back in the processor's cache
    prefill = timed(engine, 64, 1, rows)
    return rows * (count - 1) / (timed(engine, 64, count, rows) - prefill)


MEASUREMENTS: dict[str, Callable[[Engine], float]] = {
    "first_token": first_token,
    "decode": lambda engine: decode(engine, 1, 128),
    "decode_5": lambda engine: decode(engine, 5, 48),
}


def peak_memory() -> float:
    """Megabytes this process has held at most, mapped files included."""
    status = Path("/proc/self/status")
    if status.exists():  # where getrusage would count what the caller held when it started us
        facts = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(facts["VmHWM"].split()[0]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e6 / 1024)


def size(path: Path) -> float:
    """Megabytes on disk."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def serve(engine: Engine) -> None:
    """Answer each name on standard input with its value."""
    for line in sys.stdin:
        value = MEASUREMENTS[line.strip()](engine)
        print(json.dumps({"value": value, "peak_memory": peak_memory()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("folder", type=Path, help="the folder given to checkpoints.py")
    parser.add_argument("model", help="a checkpoint's name in it")
    parser.add_argument("precision", help="f32, int8 or int4; for llama.cpp q8_0, q4_0 or q4_0p")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help="stay, and take names of measurements on standard input")
    parser.add_argument("--started", type=float, default=STARTED, help="time.monotonic() when the caller started us")
    arguments = parser.parse_args()
    os.environ.setdefault("CHATAPP_HOME", str((arguments.folder / "chatapp").absolute()))
    os.environ |= {"OMP_NUM_THREADS": str(THREADS), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    telemetry.silence()
    engine = ENGINES[arguments.engine](arguments.folder, arguments.model, arguments.precision)
    timed(engine, 8, 1)
    report: dict[str, object] = {"engine": arguments.engine, "model": arguments.model, "precision": arguments.precision}
    report |= {"load": time.monotonic() - arguments.started, "version": engine.version}
    report |= {"disk": size(engine.files), "peak_memory": peak_memory()}
    if arguments.serve:
        print(json.dumps(report), flush=True)
        serve(engine)
    else:
        for name, measure in MEASUREMENTS.items():
            report[name] = statistics.median(measure(engine) for _ in range(arguments.repeats))
            report[f"peak_memory_{name}"] = peak_memory()
        print(json.dumps(report))
    sys.stdout.flush()
    os._exit(0)  # some engines take long, or crash, when they are torn down


if __name__ == "__main__":
    main()
