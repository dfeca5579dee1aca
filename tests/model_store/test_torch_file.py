"""pytorch_model.bin is read exactly, and a pickle that wants more than tensors is refused by name."""

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from model_store import UnsupportedCheckpoint
from model_store.checkpoint.checkpoint import Checkpoint
from model_store.checkpoint.torch_file import STORAGES, Names, tensors
from support.torch_files import VALUES, Built, Call, Global, tensor, write

GOLDEN = Path(__file__).parents[1] / "golden"


def test_every_dtype_is_read_exactly(tmp_path: Path) -> None:
    found = {str(i): np.arange(24).reshape(4, 6).astype(dtype) for i, dtype in enumerate(STORAGES.values())}
    state = {f"x{key}": tensor(key, values) for key, values in found.items()}
    read = tensors(write(tmp_path / "a.bin", state, found))
    expected = {f"x{key}": values for key, values in found.items() if values.dtype.kind in "fV"}
    assert read.keys() == expected.keys()
    assert all(read[name].dtype == expected[name].dtype for name in read)
    assert all(np.array_equal(read[name], expected[name]) for name in read)


def test_views_and_parameters_are_followed(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32)
    column = tensor("0", values, offset=1, shape=(3,), strides=(4,))
    state = {"column": column, "parameter": Call(Global("torch._utils", "_rebuild_parameter"), column, True, {})}
    read = tensors(write(tmp_path / "a.bin", state, {"0": values}))
    assert read["column"].read().tolist() == read["parameter"].read().tolist() == [1, 5, 9]


def test_a_checkpoint_reads_the_same_from_either_format(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "gpt2", tmp_path / "gpt2"))
    expected = {name: np.array(values) for name, values in Checkpoint(folder).tensors.items()}
    (folder / "model.safetensors").unlink()
    keys = {name: str(i) for i, name in enumerate(expected)}
    state = {name: tensor(keys[name], values) for name, values in expected.items()}
    write(folder / "pytorch_model.bin", state, {keys[name]: values for name, values in expected.items()})
    read = Checkpoint(folder).tensors
    assert read.keys() == expected.keys()
    assert all(np.array_equal(read[name], expected[name]) for name in read)


@pytest.mark.parametrize(
    "name", [("os", "system"), ("builtins", "eval"), ("torch", "load"), ("numpy", "save"), ("collections", "deque")]
)
def test_a_hostile_pickle_is_refused_by_the_name_it_asks_for(tmp_path: Path, name: tuple[str, str]) -> None:
    trace = tmp_path / "executed"
    state = {"x": Call(Global(*name), f"touch {trace}")}
    with pytest.raises(UnsupportedCheckpoint, match=rf"asks for {name[0]}\.{name[1]}.*do not trust"):
        tensors(write(tmp_path / "a.bin", state, {}))
    assert not trace.exists() and os.path.exists(tmp_path / "a.bin")


OUTSIDE: dict[str, Callable[[], object]] = {
    "shape": lambda: {"x": tensor("0", VALUES, shape=(13,), strides=(1,))},
    "strides": lambda: {"x": tensor("0", VALUES, shape=(2, 2), strides=(1 << 40, 1))},
    "offset": lambda: {"x": tensor("0", VALUES, offset=12, shape=(1,), strides=(1,))},
    "negative": lambda: {"x": tensor("0", VALUES, offset=-4, shape=(2,), strides=(1,))},
    "not numbers": lambda: {"x": tensor("0", VALUES, shape=("2",), strides=(1,))},
    "no such storage": lambda: {"x": tensor("7", VALUES)},
    "storage too large": lambda: {"x": tensor("0", np.zeros(13, np.float32))},
    "no names": lambda: [1, 2],
}


@pytest.mark.parametrize("state", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_a_tensor_outside_its_file_is_refused(tmp_path: Path, state: Callable[[], object]) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"a\.bin"):
        tensors(write(tmp_path / "a.bin", state(), {"0": VALUES}))


@pytest.mark.parametrize("slots", [False, True])
def test_what_was_checked_does_not_change_afterwards(tmp_path: Path, slots: bool) -> None:
    outside: dict[str, object] = {"shape": (2, 2), "strides": (-(10**8), 10**8)}
    shadow: dict[str, object] = {"__setitem__": None}
    given = [(None, each) if slots else each for each in (outside, shadow)]
    names = Global("collections", "OrderedDict")
    state = {"x": Built(tensor("0", VALUES), given[0]), "y": Built(names, given[1]), "z": Call(names)}
    before = dict(vars(Names))
    found = tensors(write(tmp_path / "a.bin", state, {"0": VALUES}))
    assert found["x"].read().tolist() == VALUES.tolist() and list(found) == ["x"]
    assert dict(vars(Names)) == before


def test_names_are_checked_however_they_are_given(tmp_path: Path) -> None:
    state = Call(Global("collections", "OrderedDict"), [((("x",),), tensor("0", VALUES))])
    with pytest.raises(UnsupportedCheckpoint, match=r"a\.bin is damaged"):
        tensors(write(tmp_path / "a.bin", state, {"0": VALUES}))


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.bin", {"x": tensor("0", VALUES)}, {"0": VALUES}).read_bytes()
    for content in (b"", b"\x80\x02}q\x00.", whole[: len(whole) // 2]):
        (tmp_path / "a.bin").write_bytes(content)
        with pytest.raises(UnsupportedCheckpoint, match="damaged, or older than PyTorch 1.6"):
            tensors(tmp_path / "a.bin")


def test_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="data.pkl is compressed"):
        tensors(write(tmp_path / "a.bin", {"x": tensor("0", VALUES)}, {"0": VALUES}, zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_damaged_archive_is_refused_by_its_name(tmp_path: Path, kept: float) -> None:
    path = Path(shutil.copy(Path(__file__).parents[1] / "golden_answers" / "t5-codet5" / "pytorch_model.bin", tmp_path))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(UnsupportedCheckpoint, match=r"pytorch_model\.bin"):
        tensors(path)


def test_a_directory_of_entries_that_points_nowhere_is_refused_by_its_name(tmp_path: Path) -> None:
    path = Path(shutil.copy(Path(__file__).parents[1] / "golden_answers" / "t5-codet5" / "pytorch_model.bin", tmp_path))
    whole = bytearray(path.read_bytes())
    for i in range(len(whole) - 64, len(whole)):
        for value in 0, 127, 255:
            changed = bytearray(whole)
            changed[i] = value
            path.write_bytes(changed)
            try:
                tensors(path)
            except UnsupportedCheckpoint as error:
                assert "pytorch_model.bin" in str(error)
