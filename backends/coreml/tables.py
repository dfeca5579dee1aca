"""The embeddings, as files that are mapped into memory: the host looks up single rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from backends.decoder import Quantized

Table = np.ndarray | Quantized
ARRAYS = "values", "scales", "zero_points"


def write(folder: Path, tables: Mapping[str, Table]) -> dict[str, Any]:
    """Write the tables' arrays to `folder`, and return what else there is to know of them."""
    facts: dict[str, Any] = {}
    for name, table in tables.items():
        if isinstance(table, Quantized):
            arrays = {kind: getattr(table, kind) for kind in ARRAYS}
            facts[name] = {key: value for key, value in vars(table).items() if key not in ARRAYS}
        else:
            arrays, facts[name] = {"values": table}, {}
        for kind, array in arrays.items():
            if array is not None:
                np.save(folder / f"{name}.{kind}.npy", array)
    return facts


def read(folder: Path, facts: Mapping[str, Any]) -> dict[str, Table]:
    """The tables that `write` wrote."""
    found: dict[str, Table] = {}
    for name, fields in facts.items():
        paths = {kind: folder / f"{name}.{kind}.npy" for kind in ARRAYS}
        arrays = {kind: np.load(path, mmap_mode="r") for kind, path in paths.items() if path.exists()}
        found[name] = Quantized(**arrays, **fields) if fields else arrays["values"]
    return found
