"""Target `triton`: a complete model repository for Triton."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import chatapp
from model_store import Progress
from model_store.exports import ExportError, Finding, Source
from model_store.exports import triton as repository
from model_store.exports.decoders import compare_logits, copy_published
from model_store.exports.triton import SUMMARY, Options

if TYPE_CHECKING:
    import numpy as np

    from chatapp.deploy.triton.session import Facts

__all__ = ["SUMMARY", "Options", "check", "refuse", "write"]
MODULES = (
    "backends/*.py", "chatapp/__init__.py", "chatapp/deploy/__init__.py", "chatapp/deploy/triton/__init__.py",
    "chatapp/deploy/triton/chat.py", "chatapp/deploy/triton/decoder.py", "chatapp/deploy/triton/encoder.py",
    "chatapp/deploy/triton/session.py", "chatapp/generation/**/*.py", "chatapp/text/*.py", "model_store/*.py",
    "model_store/checkpoint/*.py", "model_store/local/*.py", "model_store/tokenizers/*.py",
)  # fmt: skip
"""The modules of chatapp that the Python models need, which are copied next to them."""
REQUIREMENTS = """\
# Of the Python in which Triton runs its Python models.
jinja2>=3.1
llguidance>=1.9.1,<2
numpy>=1.26
tokenizers>=0.20
"""
MODEL = '''"""The model {name!r}, written by chatapp {version}."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("modules")))

from chatapp.deploy.triton.{name} import TritonPythonModel  # noqa: E402

__all__ = ["TritonPythonModel"]
'''
README = """\
# {name}, as a model repository of Triton Inference Server

    pip install -r requirements.txt        # in the server's Python, 3.10 or newer
    tritonserver --model-repository=. --http-address=127.0.0.1 --grpc-address=127.0.0.1

    curl -s 127.0.0.1:8000/v2/models/chat/generate -d '{{"text_input": "Hello", "max_tokens": 32}}'
    curl -sN 127.0.0.1:8000/v2/models/chat/generate_stream -d '{{"text_input": "Hello", "stream": true}}'

In a container give it shared memory, such as --shm-size=1g: the caches travel through it.
"""


def refuse(source: Source, options: Options) -> None:
    """Raise ExportError if the target cannot represent the model, or if its modules are not available."""
    if getattr(sys, "frozen", False):
        raise ExportError(
            "this build of chatapp has no Python modules to put beside the server's; export with one that is "
            "installed in a Python: docs/install.md"
        )
    repository.refuse(source, options)


def write(source: Source, folder: Path, options: Options, on_progress: Progress | None = None) -> None:
    """Write the repository."""
    repository.write(source, folder, options, on_progress)
    facts = facts_of(source, options)
    for name in (repository.ENCODER, repository.DECODER, repository.CHAT):
        version = folder / name / "1"
        (version / "model.py").write_text(MODEL.format(name=name, version=chatapp.__version__), "utf-8")
        copy_modules(version / "modules")
        copy_published(source, version)
        facts.write(version)
    (folder / repository.ENSEMBLE / "1" / "README").write_text("An ensemble has no file of its own.\n", "utf-8")
    (folder / "requirements.txt").write_text(REQUIREMENTS, "utf-8")
    (folder / "README.md").write_text(README.format(name=source.model.name), "utf-8")


def facts_of(source: Source, options: Options) -> "Facts":
    """What the Python models must know about the decoder."""
    from chatapp.deploy.triton.session import Facts

    decoder = source.decoder
    layers = [(i, a.kv_heads, a.head_dim) for i, a in decoder.cached_layers]
    return Facts(decoder.context_length, decoder.vocab_size, layers, options.decoder, options.precision)


def copy_modules(folder: Path) -> None:
    """Copy the modules of chatapp that the Python models need."""
    root = Path(chatapp.__file__).parents[1]
    for pattern in MODULES:
        for path in root.glob(pattern):
            target = folder / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def check(source: Source, folder: Path, options: Options) -> list[Finding]:
    """Compare the graph's logits with ours, and the texts of all models in the repository.

    For f32 the reference is the NumPy decoder. Otherwise it is an engine on the same graph, since the rounding of
    activations decides between tokens that are about as likely.
    """
    from chatapp.deploy.reference import open_engine, open_reference
    from chatapp.deploy.triton import stand_in
    from chatapp.deploy.triton.asking import ask
    from chatapp.deploy.triton.session import RemoteSession

    load = stand_in.load_onnx if options.decoder == "onnx" else stand_in.load_openvino
    run = load(folder / repository.GRAPH / "1")

    def compute(feeds: Mapping[str, "np.ndarray"], names: Sequence[str]) -> list["np.ndarray"]:
        found = run(feeds)
        return [found[name] for name in names]

    session = RemoteSession(facts_of(source, options), compute)
    logits = compare_logits(source, session, options.precision)
    session.rewind(0)
    exact = options.precision == "f32"
    return [logits, *ask(folder, open_reference(source, "f32") if exact else open_engine(source, session))]
