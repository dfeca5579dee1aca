"""Tiny random checkpoints, a home of their own for every test, chatapp as a process, and no network."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more of them would only wait for each other, at full speed

import gc
import json
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from io import BytesIO, TextIOWrapper
from pathlib import Path
from tempfile import mkdtemp
from zlib import crc32

import no_network
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from backends import telemetry
from chatapp.cli import main
from chatapp.history import History
from model_store import Store, bandwidth
from support import settling, stylesheets
from support.checkpoints import (
    CHAT_TEMPLATE,
    LLAMA,
    OFFLINE,
    ROOT,
    TESTS,
    VOCABULARY,
    MakeCheckpoint,
    Run,
    llama_file,
)
from support.loopback_hub import LoopbackHub

pytest_plugins = (
    "support.dialogues",
    "support.golden_logits",
    "support.golden_models",
    "support.pulls",
    "support.transfers",
)

collect_ignore = (
    [] if find_spec("coremltools") else ["backends/test_coreml_imports.py", "backends/test_coreml_packages.py"]
)

no_network.refuse()
telemetry.silence()
stylesheets.share()
settling.make_pilots_wait()
settling.let_toasts_stay()
setattr(bandwidth, "measure", cache(bandwidth.measure))  # noqa: B010  # each store would measure the same machine
gc.set_threshold(100_000)  # fewer looks for garbage among what screens leave: a twelfth of their tests' time
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell, and what they start, ignore it


def pytest_configure(config: pytest.Config) -> None:
    """Each process of pytest-xdist begins with other folders, and finds compiled what the others began with."""
    process = getattr(config, "workerinput", None)
    if process and config.args == ["tests"]:
        places = sorted({f"tests/{path.relative_to(TESTS).parts[0]}" for path in TESTS.rglob("test_*.py")})
        first = int(process["workerid"].removeprefix("gw")) * len(places) // process["workercount"]
        config.args[:] = places[first:] + places[:first]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules in no order: those that wait (screens, processes) stand together, and others should run beside them."""
    items.sort(key=lambda item: crc32(item.nodeid.partition("::")[0].encode()))
    gc.freeze()  # modules and tests stay to the end


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder of this test; pytest's own would look at those of all tests before it for a free name."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return Path(mkdtemp(prefix=name, dir=tmp_path_factory.getbasetemp()))


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
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (OFFLINE, TESTS))))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO()))  # nothing is piped in; pytest's cannot be read
    return folder


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
    from support.coreml_cases import lowering  # not everybody has what it imports

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
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)  # read once, when it is imported
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "huggingface" / "token"))
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


def checkpoints_in(place: Path, vocabulary: str) -> MakeCheckpoint:
    """Make folders of tiny random llamas below `place`."""

    def make(name: str = "tiny", *, chats: bool = False, **config: object) -> Path:
        folder = place / name
        folder.mkdir()
        fields = {**LLAMA, **config}
        (folder / "model.safetensors").write_bytes(llama_file())
        (folder / "config.json").write_text(json.dumps(fields))
        (folder / "tokenizer.json").write_text(vocabulary)
        settings = {"eos_token": "<|endoftext|>"} | ({"chat_template": CHAT_TEMPLATE} if chats else {})
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        return folder

    return make


@pytest.fixture
def checkpoint(tmp_path: Path, vocabulary: str) -> MakeCheckpoint:
    """Make the folder of a tiny random llama, as publishers ship it; fields of config.json can be given."""
    return checkpoints_in(tmp_path, vocabulary)


@pytest.fixture(scope="module")
def lasting_checkpoint(tmp_path_factory: pytest.TempPathFactory, vocabulary: str) -> MakeCheckpoint:
    """The same, for what all tests of a module share."""
    return checkpoints_in(tmp_path_factory.mktemp("checkpoints"), vocabulary)
