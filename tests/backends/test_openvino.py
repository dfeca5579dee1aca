"""OpenVINO: fixed shapes, what the plugin fuses and keeps compressed, rewinding, the cache of compiled models."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import backends
from model_store import Store
from model_store.convert import open_checkpoint
from support.arrays import near
from support.checkpoints import ROOT, MakeCheckpoint
from support.golden_logits import GOLDEN, cases_of, every_feature, golden

pytest.importorskip("openvino", reason="OpenVINO has no package for this machine")

import openvino
from openvino import opset15 as op

from backends.openvino.fixed import CHUNK, FixedSession
from backends.openvino.runtime import Facts, properties
from backends.openvino.session import SPARE, StatefulSession
from backends.openvino.weights_file import WeightsFile
from support.openvino_models import compiled, kinds, lower


@pytest.mark.parametrize("case", every_feature(cases_of("openvino")))
def test_fixed_shapes_give_the_same_logits(case: str, tmp_path: Path) -> None:
    session = FixedSession(lower(GOLDEN / case, tmp_path), "CPU")
    tokens, logits = golden(case)
    assert session.forward(tokens[:1, :10], last=2) == near(logits[:1, 8:10], abs=1e-4)
    session.rewind(3)
    assert session.forward(tokens[:1, 3:16]) == near(logits[:1, 15:16], abs=1e-4)
    assert session.forward(tokens[:1, 16:17]) == near(logits[:1, 16:17], abs=1e-4)
    session.rewind(0)
    session.forward(tokens[1:, :7])
    session.reorder([1, 0, 1])
    assert session.forward(tokens[[2, 1, 2], 7:9]) == near(logits[[2, 1, 2], 8:9], abs=1e-4)


def test_a_prompt_longer_than_a_chunk_is_read_in_parts(checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = lower(checkpoint(max_position_embeddings=300), tmp_path)
    fixed, stateful = FixedSession(folder, "CPU"), StatefulSession(folder, "CPU")
    tokens = np.random.default_rng(0).integers(0, 320, (2, 2 * CHUNK + 20))
    assert fixed.forward(tokens, last=3) == near(stateful.forward(tokens, last=3), abs=1e-4)
    assert fixed.length == tokens.shape[1]
    for request in fixed.requests.values():
        nodes = request.get_compiled_model().get_runtime_model().get_ops()
        assert not any(output.get_partial_shape().is_dynamic for node in nodes for output in node.outputs())


@pytest.mark.parametrize("case", ["gpt2", "llama", "bloom", "mistral", "gemma3_text"])
def test_caches_and_rotations_are_fused_into_the_attention(case: str, tmp_path: Path) -> None:
    session = StatefulSession(lower(GOLDEN / case, tmp_path), "CPU")
    decoder = open_checkpoint(GOLDEN / case)[2]
    found = kinds(session)
    assert found["ScaledDotProductAttention"] == len(decoder.layers)
    assert found["RoPE"] == 2 * sum(layer.rope is not None for layer in decoder.layers)
    rotations = {layer.rope for layer in decoder.layers if layer.rope}
    assert found["Concatenation"] == 1 + len(rotations)  # of shapes and angles: none is left of a cache
    assert found["Subgraph"] + found["Softmax"] == 0


def test_an_attention_with_softcap_is_not_fused(tmp_path: Path) -> None:
    session = StatefulSession(lower(GOLDEN / "gemma2", tmp_path), "CPU")
    found, layers = kinds(session), len(open_checkpoint(GOLDEN / "gemma2")[2].layers)
    assert found["ScaledDotProductAttention"] == 0
    assert found["Concatenation"] >= 2 * layers


@pytest.mark.parametrize(
    ("precision", "held", "most"),
    [
        ("f32", "f32", 4.1),
        ("f16", "f16", 2.1),
        ("int8", "u8", 1.3),
        ("int8-asym-32", "u8", 1.4),
        ("int4-32", "i4", 0.9),
        ("int4-asym", "u4", 0.8),
        ("mxfp4", "f4e2m1", 0.8),
        ("mxfp6-e2m3", "u8", 1.4),
        ("mx9", "f32", 4.1),
    ],
)
def test_matrices_stay_as_they_are_held(
    precision: str, held: str, most: float, checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    folder = lower(checkpoint(), tmp_path, precision)
    found = kinds(StatefulSession(folder, "CPU"))
    assert {kind for kind in found if kind.startswith("FullyConnected")} == {f"FullyConnected {held}"}
    numbers = sum(tensor.size for tensor in open_checkpoint(tmp_path / "tiny")[0].tensors.values())
    assert (folder / "model.bin").stat().st_size < most * numbers  # the head is the embedding
    carrier = backends.get("openvino").carrier(precision)
    assert carrier == {"mxfp6-e2m3": "int8", "mx9": "f32"}.get(precision, "")


def test_exact_means_exact(tmp_path: Path) -> None:
    model = compiled(StatefulSession(lower(GOLDEN / "gpt2", tmp_path), "CPU"))
    assert model.get_property("INFERENCE_PRECISION_HINT").get_type_name() == "f32"
    assert model.get_property("KV_CACHE_PRECISION").get_type_name() == "f32"
    assert model.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE") == 0


@pytest.mark.parametrize("precision", ["f16", "int8", "int4-32", "mxfp4", "mx9"])
@pytest.mark.parametrize("case", ["gpt2", "llama", "bloom", "gemma2"])
def test_rows_that_read_several_tokens_at_once_get_what_each_gets_alone(
    case: str, precision: str, tmp_path: Path
) -> None:
    session = StatefulSession(lower(GOLDEN / case, tmp_path, precision), "CPU")
    tokens, logits = golden(case)
    parts = (0, 8), (8, 16), (16, 17), (17, 24)
    alone = np.empty_like(logits)
    for row in range(3):
        session.rewind(0)
        for start, end in parts:
            alone[row, start:end] = session.forward(tokens[row : row + 1, start:end], last=end - start)[0]
    session.rewind(0)
    for start, end in parts:
        together = session.forward(tokens[:, start:end], last=end - start)
        assert np.abs(together - alone[:, start:end]).mean() < 0.05 * logits.std()


@pytest.mark.parametrize(
    ("precision", "pages", "states"),
    [("f32", ("f32", "f32"), ("f32", "f32")), ("f16", ("f32", "f16"), ("f32", "f16")), ("mx9",) + 2 * (("f32", "f16"),)]
    + [(precision, ("", "u8"), ("f32", "f16")) for precision in ("int8", "int4-32", "mxfp4")],
)
def test_a_processor_computes_in_16_bits_only_with_pages_and_integers(
    precision: str, pages: tuple[str, str], states: tuple[str, str]
) -> None:
    facts = Facts(64, 320, precision, None, None, 0)
    for paged, (computed, kept) in (True, pages), (False, states):
        chosen = properties("CPU", facts, pages=paged)
        assert chosen.get("INFERENCE_PRECISION_HINT", "") == computed
        assert chosen["KV_CACHE_PRECISION"] == kept
        shared = properties("CPU", replace(facts, grouped=True), pages=paged)
        assert shared["KV_CACHE_PRECISION"] == ("f16" if kept == "u8" else kept)
    assert ("INFERENCE_PRECISION_HINT" in properties("GPU", facts)) == (precision == "f32")


def test_what_is_rewound_again_and_again_leaves_the_cache(tmp_path: Path) -> None:
    session = StatefulSession(lower(GOLDEN / "gpt2", tmp_path), "CPU")
    tokens, logits = golden("gpt2")
    session.forward(tokens[:2, :5])
    session.reorder([1, 0])
    most = 0
    for _ in range(40):
        session.forward(tokens[[1, 0], 5:20])
        session.rewind(5)
        most = max(most, len(session.slots))
    assert SPARE < most < SPARE + 40
    assert len(session.slots) < SPARE
    found = session.forward(tokens[[1, 0], 5:12])
    assert found == near(logits[[1, 0], 11:12], abs=1e-4)


def test_a_failure_is_told_and_after_it_the_session_can_begin_anew(tmp_path: Path) -> None:
    session = StatefulSession(lower(GOLDEN / "gpt2", tmp_path), "CPU")
    tokens, logits = golden("gpt2")
    session.forward(tokens[:1, :5])
    with pytest.raises(backends.BackendError, match="OpenVINO failed: "):
        session.forward(np.zeros((1, 2), np.float32))
    session.rewind(0)
    assert session.forward(tokens[:1, :6]) == near(logits[:1, 5:6], abs=1e-4)


def test_a_compiled_model_is_kept_in_the_folder_of_its_variant(checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    store = Store(tmp_path / "models")
    model = store.get(str(checkpoint()))
    variant = store.lowered(model, "openvino", "int8")
    session = StatefulSession(variant.folder, "CPU")
    assert not compiled(session).get_property("LOADED_FROM_CACHE")
    [blob] = (variant.folder / "compiled-cpu").iterdir()
    with_cache = store.get(model.name).variants[0].size
    assert with_cache >= variant.size + blob.stat().st_size
    again = StatefulSession(variant.folder, "CPU")
    assert compiled(again).get_property("LOADED_FROM_CACHE")
    assert again.forward(np.array([[5, 6]])).tolist() == session.forward(np.array([[5, 6]])).tolist()
    assert store.remove(model.name) > with_cache
    assert not blob.exists()


@pytest.mark.parametrize("damage", ["truncated", "empty", "of another version"])
def test_a_compiled_model_that_does_not_fit_is_compiled_anew(damage: str, tmp_path: Path) -> None:
    tokens, logits = golden("llama")
    StatefulSession(lower(GOLDEN / "llama", tmp_path), "CPU")
    [blob] = (tmp_path / "compiled-cpu").iterdir()
    whole = blob.read_bytes()
    damaged = {"truncated": whole[: len(whole) // 2], "empty": b"", "of another version": older(whole)}[damage]
    blob.unlink()  # it is read-only
    blob.write_bytes(damaged)
    session = StatefulSession(tmp_path, "CPU")
    assert not compiled(session).get_property("LOADED_FROM_CACHE")
    assert session.forward(tokens[:1, :9]) == near(logits[:1, 8:9], abs=1e-4)
    [replaced] = (tmp_path / "compiled-cpu").iterdir()
    assert replaced.stat().st_size >= len(whole)
    assert compiled(StatefulSession(tmp_path, "CPU")).get_property("LOADED_FROM_CACHE")


def older(blob: bytes) -> bytes:
    """The same compiled model as an older version would have marked it."""
    version = blob.partition(b'ie_version="')[2].partition(b"-")[0]
    return blob.replace(version, b"2025" + version[4:])


def test_compiled_models_of_other_properties_are_deleted(tmp_path: Path) -> None:
    lower(GOLDEN / "llama", tmp_path)
    (tmp_path / "compiled-cpu").mkdir()
    stale = tmp_path / "compiled-cpu" / "123.blob"
    stale.write_bytes(b"stale")
    StatefulSession(tmp_path, "CPU")
    [blob] = (tmp_path / "compiled-cpu").iterdir()
    assert blob != stale


def test_where_nothing_can_be_kept_it_is_compiled_each_time(tmp_path: Path) -> None:
    lower(GOLDEN / "llama", tmp_path)
    (tmp_path / "compiled-cpu").write_text("a file where the folder would be")
    tokens, logits = golden("llama")
    session = StatefulSession(tmp_path, "CPU")
    assert session.forward(tokens[:1, :9]) == near(logits[:1, 8:9], abs=1e-4)


def test_a_runtime_that_cannot_compile_says_why(tmp_path: Path) -> None:
    folder = lower(GOLDEN / "llama", tmp_path)
    (folder / "model.xml").write_text((folder / "model.xml").read_text().replace('type="MatMul"', 'type="MatMuk"', 1))
    with pytest.raises(backends.BackendError, match=rf"cannot load {tmp_path} on CPU: .*MatMuk") as caught:
        StatefulSession(folder, "CPU")
    assert "Exception from" not in str(caught.value)


def test_only_devices_that_are_there_are_opened(tmp_path: Path) -> None:
    backend = backends.get("openvino")
    assert backend.devices()[0] == "cpu"
    assert backend.load(lower(GOLDEN / "gpt2", tmp_path), device="cpu").placement.device == "cpu"
    with pytest.raises(backends.BackendError, match="openvino has no device 'tpu' here; choose from cpu"):
        backend.load(tmp_path, device="tpu")


def test_the_runtime_is_imported_without_its_converter_and_telemetry(tmp_path: Path) -> None:
    lower(GOLDEN / "gpt2", tmp_path)
    code = "import sys; from pathlib import Path; import backends; "
    code += f"backends.get('openvino').load(Path({str(tmp_path)!r}), device='cpu'); "
    code += "print([name for name, module in sys.modules.items() if module])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "openvino" in done.stdout
    assert "ovc" not in done.stdout and "openvino_telemetry" not in done.stdout


RELEASED = """
import gc, os, signal, sys
from pathlib import Path
import backends
first, second = (backends.get("openvino").load(Path(sys.argv[1]), device="cpu") for _ in range(2))
signal.signal(signal.SIGINT, lambda number, frame: print("Ctrl+C"))
del first
gc.collect()
del second
gc.collect()
os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_a_signal_is_survived_after_two_models_were_released_in_the_order_they_were_loaded(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RELEASED, str(lower(GOLDEN / "gpt2", tmp_path))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Ctrl+C\n", "")


def test_constants_may_grow_from_one_to_the_next(tmp_path: Path) -> None:
    file, sizes = WeightsFile(tmp_path, "model"), (1 << 20, 40 << 20, 48 << 20)
    parts = ((np.full(size // 2, place, np.uint8) for place in (1, 2)) for size in sizes)
    nodes = [file.stack(part, openvino.Type.u8, (2, size // 2)) for part, size in zip(parts, sizes, strict=True)]
    file.finish(openvino.Model([op.result(node) for node in nodes], [], "model"))
    read = openvino.Core().read_model(tmp_path / "model.xml")
    found = [one.input_value(0).get_node().data for one in read.get_results()]
    assert [(one.nbytes, int(one[0, 0]), int(one[1, -1])) for one in found] == [(size, 1, 2) for size in sizes]
