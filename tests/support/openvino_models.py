"""Golden checkpoints lowered for OpenVINO, and what its plugin makes of them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import backends
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint

pytest.importorskip("openvino", reason="OpenVINO has no package for this machine")

from backends.openvino.paged import PagedSession
from backends.openvino.session import StatefulSession


def lower(checkpoint: Path, folder: Path, precision: str = "f32") -> Path:
    opened, family, decoder = open_checkpoint(checkpoint)
    backends.get("openvino").lower(decoder, Canonical(opened, family, decoder), folder, precision=precision)
    return folder


def compiled(session: StatefulSession | PagedSession) -> Any:  # Any: openvino has no types
    return session.request.get_compiled_model()


def kinds(session: StatefulSession | PagedSession) -> Counter[str]:
    """How many operations of each kind the plugin runs, those with weights with the weights' type."""
    found: Counter[str] = Counter()
    for node in compiled(session).get_runtime_model().get_ops():
        facts = node.get_rt_info()
        kind = facts["layerType"].astype(str)
        found[f"{kind} {facts['runtimePrecision'].astype(str)}" if kind == "FullyConnected" else kind] += 1
    return found
