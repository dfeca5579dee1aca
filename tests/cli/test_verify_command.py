"""`chatapp verify` as a process, reference files, and what a verdict changes elsewhere."""

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import backends
from backends import BackendError
from chatapp.cli.main import main
from chatapp.evaluation.verify import VerifyError
from chatapp.evaluation.verify.reference import from_numpy
from chatapp.evaluation.verify.reference_file import from_file, write
from chatapp.evaluation.verify.verdict import verify
from chatapp.placement.measuring import measure_all
from chatapp.placement.opening import open_engine
from chatapp.placement.record import RECORD
from chatapp.placement.selection import PlacementOptions, choose_on_backend, expect
from model_store import Store, StoredModel, StoreError
from support.checkpoints import MakeCheckpoint, Run

Arrays = dict[str, np.ndarray]


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home / "models")


@pytest.fixture
def model(store: Store, checkpoint: MakeCheckpoint) -> StoredModel:
    return store.get(str(checkpoint()))


@pytest.fixture
def arrays(model: StoredModel) -> Arrays:
    """What someone else's reference file of the model would hold."""
    reference = from_numpy(model, "f32")
    return {"tokens": reference.prompts[0].tokens, "logits": reference.original[0]}


# The command


def test_what_passes_is_told_kept_and_shown(chatapp: Run, model: StoredModel) -> None:
    done = chatapp("verify", "tiny", "--backend", "onnx")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("tiny on onnx cpu int8: passed\n")
    assert "onnx-int8 (verified)" in chatapp("list").stdout
    assert "verified on cpu, 2" in chatapp("show", "tiny").stdout
    shown = json.loads(chatapp("show", "tiny", "--json").stdout)
    assert shown["variants"][0]["verdicts"]["cpu"]["passed"] is True


def test_json_tells_everything(chatapp: Run, model: StoredModel) -> None:
    verdict = json.loads(chatapp("verify", "tiny", "--precision", "int4", "--json").stdout)
    assert verdict["passed"] and verdict["failures"] == []
    assert (verdict["model"], verdict["device"], verdict["precision"]) == ("tiny", "cpu", "int4")
    assert verdict["versions"].keys() == {"chatapp", "onnx"}
    whats = {(one["what"], one["against"]) for one in verdict["comparisons"]}
    assert {("decode", "original weights"), ("decode", "int4 weights"), ("graph decode", "f32, 1 layer")} <= whats


def test_what_fails_says_how_far_it_is_off_and_what_to_do(
    chatapp: Run, model: StoredModel, arrays: Arrays, tmp_path: Path
) -> None:
    file = tmp_path / "other.npz"
    np.savez(file, tokens=arrays["tokens"], logits=arrays["logits"][:, :, ::-1])
    done = chatapp("verify", "tiny", "--against", str(file))
    assert done.returncode == 1
    assert done.stderr == ""
    assert "onnx cpu int8: FAILED" in done.stdout
    assert "- prefill, with original weights: share lost " in done.stdout
    assert "chatapp reads the checkpoint differently than other.npz" in done.stdout
    exact = chatapp("verify", "tiny", "--against", str(file), "--precision", "f32")
    assert "- decode, with original weights: max |Δ| in spreads " in exact.stdout
    assert "f32 is no longer chosen on onnx cpu, unless --precision names it. Try another" in exact.stdout
    assert "onnx-f32 (failed), onnx-int8 (failed)" in chatapp("list").stdout
    shown = chatapp("show", "tiny").stdout
    assert "FAILED on cpu, 2" in shown
    assert "  decode, with original weights: max |Δ| in spreads " in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--against", "reference.pt"], "'reference.pt' is neither torch nor a .npz or .safetensors file"),
        (["--write", "reference.bin"], "'reference.bin' must end in .npz"),
        (["--precision", "int3"], "unknown precision 'int3'"),
    ],
)
def test_wrong_usage_is_2(chatapp: Run, options: list[str], message: str) -> None:
    done = chatapp("verify", "builtin", *options)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.process
def test_without_torch_it_is_said_how_to_install_it(
    chatapp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError(\"No module named 'torch'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":" if sys.platform != "win32" else ";")
    done = chatapp("verify", "builtin", "--against", "torch")
    assert done.returncode == 1
    assert "pip install torch transformers sentencepiece protobuf" in done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(
    not (find_spec("torch") and find_spec("transformers")), reason="PyTorch and transformers are not installed"
)
def test_pytorch_agrees_with_the_numpy_decoder(chatapp: Run, model: StoredModel, tmp_path: Path) -> None:
    file = tmp_path / "torch.npz"
    done = chatapp("verify", "tiny", "--against", "torch", "--write", str(file), "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["reference"].startswith("torch ")
    first = verdict["comparisons"][0]
    assert (first["what"], first["against"]) == ("NumPy decoder", "original weights")
    assert first["peak"] < 1e-4
    assert from_file(file, model, "int8").rounded.keys() == {"int8"}


# Reference files


def test_a_file_gives_back_what_was_written(model: StoredModel, tmp_path: Path) -> None:
    reference = from_numpy(model, "int8")
    write(reference, model, tmp_path / "reference.npz")
    found = from_file(tmp_path / "reference.npz", model, "int8")
    assert (found.prompts[0].tokens == reference.prompts[0].tokens).all()
    assert (found.original[0] == reference.original[0]).all()
    assert (found.rounded["int8"][0] == reference.rounded["int8"][0]).all()
    assert not found.decoder
    assert [path.name for path in tmp_path.glob("*.npz")] == ["reference.npz"]


@pytest.mark.parametrize("name", ["made.safetensors", "made.npz"])
def test_tokens_and_logits_made_elsewhere_are_enough(
    store: Store, model: StoredModel, arrays: Arrays, tmp_path: Path, name: str
) -> None:
    last = {"tokens": arrays["tokens"].astype(np.int32), "logits": np.ascontiguousarray(arrays["logits"][:, -20:])}
    if name.endswith(".npz"):
        np.savez(tmp_path / name, allow_pickle=False, **last)
    else:
        save_file(last, tmp_path / name)
    reference = from_file(tmp_path / name, model, "int8")
    assert reference.prompts[0].first == arrays["tokens"].shape[1] - 20
    verdict = verify(store, model, store.lowered(model, "onnx", "int8"), reference=reference)
    assert verdict.passed, verdict.failures
    assert {comparison.what for comparison in verdict.comparisons} >= {"NumPy decoder", "decode"}
    assert not from_file(tmp_path / name, model, "f32").decoder  # it is compared directly


def test_a_checkpoint_that_is_misunderstood_fails_even_where_it_computes_right(
    store: Store, model: StoredModel, arrays: Arrays, tmp_path: Path
) -> None:
    np.savez(tmp_path / "publisher.npz", tokens=arrays["tokens"], logits=arrays["logits"] * 1.001)
    reference = from_file(tmp_path / "publisher.npz", model, "int8")
    verdict = verify(store, model, store.lowered(model, "onnx", "int8"), reference=reference)
    assert [one.what for one in verdict.comparisons if not one.passed] == ["NumPy decoder"]


def spoiled(**changes: Callable[[np.ndarray], np.ndarray] | None) -> Callable[[Arrays], Arrays]:
    """What changes some arrays, and leaves out those for which there is no change."""

    def spoil(arrays: Arrays) -> Arrays:
        kept = {name: array for name, array in arrays.items() if changes.get(name, ()) is not None}
        return {name: change(array) if (change := changes.get(name)) else array for name, array in kept.items()}

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoiled(logits=None), "has no array 'logits' \\(it has: tokens\\)"),
        (spoiled(tokens=None), "has no array 'tokens'"),
        (spoiled(logits=lambda a: a[:, :, :-1]), "is of 319 tokens and tiny has 320; the file was made from another"),
        (spoiled(tokens=lambda a: a + 300), "is for the tokens .* and tiny has 320; the file was made from another"),
        (spoiled(tokens=lambda a: a[0]), "has shape .* expected"),
        (spoiled(tokens=lambda a: a[:3]), "has shape .* expected"),
        (spoiled(tokens=lambda a: a[:, :0], logits=lambda a: a[:, :0]), "has shape .* expected"),
        (spoiled(tokens=lambda a: a / 2), "tokens holds float64 and not integer numbers"),
        (spoiled(logits=lambda a: a.astype(np.int64)), "logits holds int64 and not floating numbers"),
        (spoiled(logits=lambda a: a[:, -2:]), "has 2 positions in rows of 48 tokens; expected 4 or more"),
        (spoiled(logits=lambda a: np.where(a > 2, np.nan, a)), "not finite"),
        (spoiled(tokens=lambda a: np.array([[object()]])), "is not an archive of numeric arrays"),
        (lambda arrays: {**arrays, "model": np.zeros(32, np.uint8)}, "from another checkpoint than tiny"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    model: StoredModel, arrays: Arrays, tmp_path: Path, spoil: Callable[[Arrays], Arrays], message: str
) -> None:
    np.savez(tmp_path / "file.npz", **spoil(arrays))  # type: ignore[arg-type]  # allow_pickle is not among them
    with pytest.raises(VerifyError, match=message):
        from_file(tmp_path / "file.npz", model, "int8")


@pytest.mark.parametrize("name", ["file.npz", "file.safetensors"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04\x95" + b"\0" * 40])
def test_a_damaged_file_is_refused_by_its_name(
    chatapp: Run, model: StoredModel, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(VerifyError, match=f"{name} is not a reference file .*; to make one: ") as refused:
        from_file(tmp_path / name, model, "int8")
    assert "pickle" not in str(refused.value)


def test_a_place_that_is_not_there_is_refused_before_anything_is_computed(chatapp: Run, home: Path) -> None:
    done = chatapp("verify", "builtin", "--write", str(home / "nowhere" / "file.npz"))
    assert done.returncode == 1
    assert f"there is no folder {home / 'nowhere'}" in done.stderr
    assert not list(home.glob("models/*/onnx-*"))


def test_a_file_that_is_not_there_is_named(chatapp: Run, model: StoredModel) -> None:
    done = chatapp("verify", "tiny", "--against", "nowhere.npz")
    assert done.returncode == 1
    assert done.stderr == "Error: no such file or directory: nowhere.npz\n"


# What a verdict changes


@pytest.fixture
def fail(store: Store, model: StoredModel, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a precision of the model, once it has been measured, have failed on the only backend."""
    monkeypatch.setattr(backends, "NAMES", ("onnx",))

    def do(precision: str) -> None:
        measure_all(store, model, PlacementOptions(precision=precision))
        variant = store.lowered(model, "onnx", precision)
        store.keep_verdict(variant, "cpu", {"passed": False, "failures": ["decode: far off"]})

    return do


def test_what_failed_is_not_chosen_and_the_user_is_told(
    store: Store, model: StoredModel, fail: Callable[[str], None]
) -> None:
    fail("int8")
    told: list[str] = []
    for wish in PlacementOptions("onnx"), PlacementOptions():
        engine = open_engine(store, "tiny", wish, on_fallback=told.append)
        assert engine.placement.precision == "int8-128"
    fail("int8-128")
    assert open_engine(store, "tiny", PlacementOptions("onnx"), on_fallback=told.append).placement.precision == "f32"
    other, last = (
        f"tiny fails at int8 here and runs at {name}; to see why: chatapp show tiny" for name in ("int8-128", "f32")
    )
    assert told == [other, other, last]


def test_who_names_the_precision_gets_it(store: Store, model: StoredModel, fail: Callable[[str], None]) -> None:
    fail("int8")
    for wish in PlacementOptions("onnx", precision="int8"), PlacementOptions(precision="int8"):
        assert open_engine(store, "tiny", wish).placement.precision == "int8"


def test_where_everything_failed_nothing_is_chosen(
    store: Store, model: StoredModel, fail: Callable[[str], None]
) -> None:
    for precision in "int8", "int8-128", "f32":
        fail(precision)
    with pytest.raises(BackendError, match="failed verification on onnx cpu at int8, int8-128, f32; chatapp show tiny"):
        choose_on_backend(store, model, PlacementOptions(), "onnx")
    for _ in "measured", "verified alone":
        with pytest.raises(BackendError, match="decode: far off; --precision int8 runs it all the same"):
            open_engine(store, "tiny", PlacementOptions())
        (store.folder("tiny") / RECORD).unlink(missing_ok=True)
    store.keep_verdict(store.lowered(model, "onnx", "int4"), "cpu", {"passed": True})
    for wish in PlacementOptions("onnx"), PlacementOptions():
        with pytest.raises(BackendError, match=r"failed verification.*; .*--backend onnx --precision int4 passed it"):
            open_engine(store, "tiny", wish)


def test_another_device_is_another_verdict(store: Store, model: StoredModel) -> None:
    store.keep_verdict(store.lowered(model, "onnx", "int8"), "npu", {"passed": False, "failures": []})
    assert choose_on_backend(store, model, PlacementOptions(), "onnx").precision == "int8"


def test_what_will_run_is_what_is_verified(store: Store, model: StoredModel, fail: Callable[[str], None]) -> None:
    fail("int8")
    assert str(expect(store, model, PlacementOptions())) == "onnx cpu int8"  # once more: it may be right by now
    assert str(expect(store, model, PlacementOptions(precision="int4"))) == "onnx cpu int4"
    assert str(expect(store, model, PlacementOptions("onnx", "cpu"))) == "onnx cpu int8"
    with pytest.raises(BackendError, match="no backend has a device 'tpu'"):
        expect(store, model, PlacementOptions(device="tpu"))


def test_lowering_anew_forgets_the_verdict(store: Store, model: StoredModel, fail: Callable[[str], None]) -> None:
    fail("int8")
    path = store.lowered(model, "onnx", "int8").folder / "variant.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "signature": "onnxruntime 0.1, abacus"}))
    assert store.find_variant(model, "onnx", "int8") is None
    assert store.lowered(model, "onnx", "int8").verdicts == {}


def test_a_verdict_stands_beside_those_of_other_devices(store: Store, model: StoredModel) -> None:
    variant = store.lowered(model, "onnx", "int8")
    for device, passed in ("cpu", False), ("npu", True), ("cpu", True):
        store.keep_verdict(variant, device, {"passed": passed})
    kept = store.lowered(model, "onnx", "int8").verdicts
    assert kept == {"cpu": {"passed": True}, "npu": {"passed": True}}


@pytest.mark.parametrize("verdicts", [[], {"cpu": True}, {"cpu": {"passed": "yes"}}])
def test_an_altered_verdict_is_refused_by_its_path(store: Store, model: StoredModel, verdicts: object) -> None:
    path = store.lowered(model, "onnx", "int8").folder / "variant.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "verdicts": verdicts}))
    with pytest.raises(StoreError, match=r"onnx-int8/variant\.json was altered"):
        store.get(model.name)
    assert "variant.json was altered" in store.survey()[1][model.name]


def test_a_verdict_says_what_it_was_compared_with_and_what_that_tells(
    checkpoint: MakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = checkpoint(), tmp_path / "reference.npz"
    ours = "NumPy decoder: the rounding and the runtime; not our reading of config.json"
    assert main(["verify", str(folder), "--precision", "f32", "--write", str(file)]) == 0
    assert f"verified against {ours}\n" in capsys.readouterr().out
    assert main(["show", str(folder)]) == 0
    assert f"  against {ours}\n" in capsys.readouterr().out
    assert main(["verify", str(folder), "--precision", "f32", "--against", str(file)]) == 0
    assert f"verified against reference.npz ({ours.replace(':', '):', 1)}\n" in capsys.readouterr().out
    arrays = dict(np.load(file))
    for maker, tells in (
        ("torch 2, transformers 5", "): the rounding, the runtime and our reading of config.json\n"),
        ("", "reference.npz: the rounding and the runtime; our reading of config.json, if others made that file\n"),
    ):
        made: dict[str, Any] = arrays | {"made_by": np.frombuffer(maker.encode(), np.uint8)}  # Any: as of np.savez
        np.savez(file, **made)
        assert main(["verify", str(folder), "--precision", "f32", "--against", str(file)]) == 0
        assert tells in capsys.readouterr().out
