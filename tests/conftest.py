"""Tiny random checkpoints, a home of their own for every test, chatapp as a process, and no network."""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path

import no_network
import numpy as np
import pytest
import tokenizers
from loopback_hub import LoopbackHub
from tokenizers import decoders, models, pre_tokenizers, trainers

import backends
from backends import telemetry
from chatapp.cli import main
from chatapp.history import History
from model_store import Store

ROOT = Path(__file__).parent.parent
OFFLINE = ROOT / "tests" / "offline"
HERE = tuple(name for name in backends.NAMES if name != "coreml" and "cpu" in backends.get(name).devices())
"""Backends that run on this machine's processor; tests/test_coreml.py interprets what Core ML is given."""
VOCABULARY = 320
LLAMA = {
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ENDLESS = ("--max-tokens", "30000", "--logit-bias", "0=-100")
"""Options with which a tiny checkpoint never ends by itself: its token 0 would be the end."""

pytest_plugins = ("dialogues", "golden_models", "pulls", "transfers")

no_network.refuse()
telemetry.silence()
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell, and what they start, ignore it

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MakeCheckpoint = Callable[..., Path]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test's chatapp; what the developer has set elsewhere does not count."""
    for name in [name for name in os.environ if name.startswith(("CHATAPP_", "HF_"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "home"
    monkeypatch.setenv("CHATAPP_HOME", str(folder))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.setenv("CHATAPP_BACKEND", "onnx")  # or each test would measure first
    monkeypatch.setenv("PYTHONPATH", str(OFFLINE))
    monkeypatch.setenv("COLUMNS", "100")
    return folder


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token is told by itself, however quickly it comes."""
    monkeypatch.setattr("chatapp.generation.engine.HOLD", 0.0)


@pytest.fixture
def chatapp(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command and give back what it printed: as `python -m chatapp` in tests marked `process`, else in this one.

    A process is for what only a process has: an environment that is read once, audit hooks, its memory.
    """

    def start(*arguments: str, stdin: str | bytes = "") -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "chatapp", *arguments]
        done = subprocess.run(command, input=encoded(stdin), capture_output=True, cwd=ROOT, timeout=180)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def call(*arguments: str, stdin: str | bytes = "") -> "subprocess.CompletedProcess[str]":
        streams = [
            TextIOWrapper(raw, "utf-8", write_through=True) for raw in (BytesIO(encoded(stdin)), BytesIO(), BytesIO())
        ]
        with monkeypatch.context() as patch:
            patch.chdir(ROOT)
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            try:
                code = main.main(list(arguments))
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            except Exception:
                traceback.print_exc()
                code = 1
        printed = [stream.buffer.getvalue().decode() for stream in streams[1:]]
        return subprocess.CompletedProcess(["chatapp", *arguments], code, *printed)

    return start if request.node.get_closest_marker("process") else call


def encoded(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


@pytest.fixture(scope="session")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The packages of golden checkpoints, for the tests of Core ML."""
    from coreml_cases import lowering  # not everybody has what it imports

    return lowering(tmp_path_factory)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "history.db") as opened:
        yield opened


@pytest.fixture
def loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A hub that processes ask; what huggingface_hub keeps is this test's own."""
    with LoopbackHub(token="secret") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
        yield hub


@pytest.fixture(scope="session")
def vocabulary() -> str:
    """A byte-level BPE tokenizer.json of 320 tokens, four of them for the end and for infilling."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<fim_prefix>", "<fim_suffix>", "<fim_middle>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=special,
        show_progress=False,
    )
    tokenizer.train_from_iterator([(ROOT / "LICENSE").read_text()], trainer)
    return tokenizer.to_str()


@pytest.fixture
def checkpoint(tmp_path: Path, vocabulary: str) -> MakeCheckpoint:
    """Make the folder of a tiny random llama, as publishers ship it; fields of config.json can be given."""

    def make(name: str = "tiny", *, chats: bool = False, **config: object) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        fields = {**LLAMA, **config}
        write_safetensors(folder / "model.safetensors", random_llama())
        (folder / "config.json").write_text(json.dumps(fields))
        (folder / "tokenizer.json").write_text(vocabulary)
        settings = {"eos_token": "<|endoftext|>"} | ({"chat_template": CHAT_TEMPLATE} if chats else {})
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        return folder

    return make


def random_llama() -> dict[str, np.ndarray]:
    """Random weights for the LLAMA configuration, by their published names."""
    random = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return random.normal(0, 0.2, shape).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(VOCABULARY, 64), "model.norm.weight": 1 + matrix(64)}
    for layer in range(2):
        prefix = f"model.layers.{layer}."
        attention = {"q": (64, 64), "k": (32, 64), "v": (32, 64), "o": (64, 64)}
        weights |= {f"{prefix}self_attn.{name}_proj.weight": matrix(*shape) for name, shape in attention.items()}
        ffn = {"gate": (96, 64), "up": (96, 64), "down": (64, 96)}
        weights |= {f"{prefix}mlp.{name}_proj.weight": matrix(*shape) for name, shape in ffn.items()}
        norms = ("input_layernorm", "post_attention_layernorm")
        weights |= {f"{prefix}{name}.weight": 1 + matrix(64) for name in norms}
    return weights


def write_tokenizer(folder: Path, size: int) -> None:
    """Write a tokenizer of `size` made-up words for a checkpoint that has none."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel({chr(97 + i % 26) * (1 + i // 26): i for i in range(size)}, "a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def write_safetensors(path: Path, weights: dict[str, np.ndarray]) -> None:
    """Write a safetensors file: the header's length, the header, the tensors."""
    header, offset = {}, 0
    for name, weight in weights.items():
        header[name] = {"dtype": "F32", "shape": weight.shape, "data_offsets": (offset, offset + weight.nbytes)}
        offset += weight.nbytes
    text = json.dumps(header).encode()
    content = b"".join(weight.tobytes() for weight in weights.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)
