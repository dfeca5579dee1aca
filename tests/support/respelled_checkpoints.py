"""Copies of golden checkpoints with other tensors or other fields."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from model_store.checkpoint import torch_file
from model_store.checkpoint.checkpoint import DTYPES, ROUNDED, Checkpoint, tensors
from support.golden_logits import GOLDEN

Tensors = dict[str, np.ndarray]


def respelled(case: str, folder: Path, change: Callable[[Tensors], Tensors]) -> Path:
    """A copy of the golden checkpoint `case` with other tensors."""
    copy = Path(shutil.copytree(GOLDEN / case, folder / case))
    found: Tensors = {}
    for path in Checkpoint(copy).files:
        read = tensors(path, DTYPES | ROUNDED) if path.suffix == ".safetensors" else torch_file.tensors(path)
        found |= {name: np.array(values) for name, values in read.items()}
    save_file(
        {name: np.ascontiguousarray(values) for name, values in change(found).items()}, copy / "model.safetensors"
    )
    return copy


def configure(folder: Path, **changed: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changed}))
