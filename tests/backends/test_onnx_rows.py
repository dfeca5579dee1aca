"""ONNX Runtime's attention of a single token, in which heads that share keys are computed together."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from backends.decoder import Layer
from backends.onnx import rows
from backends.onnx import session as onnx_session
from support.any_order import read_and_take_back
from support.arrays import near
from support.golden_logits import TOLERANCE, cases_of, golden, open_case, open_golden

GROUPED = [case for case in cases_of("onnx") if any(a.kv_heads < a.heads for a in open_golden(case)[0].layers)]


def branches(folder: Path) -> int:
    """How many layers have two ways."""
    nodes = onnx.load(folder / "model.onnx", load_external_data=False).graph.node
    return sum(node.op_type == "If" for node in nodes)


@pytest.mark.parametrize(("case", "cores"), [*((case, 1) for case in GROUPED), ("falcon", 2)])
def test_a_token_sees_what_it_sees_among_others(
    case: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "LONG", 14)
    monkeypatch.setattr(rows, "cores", lambda: cores)
    session, (tokens, logits) = open_case(case, "onnx", tmp_path), golden(case)
    session.forward(tokens[:1, :10])
    for i in range(10, 24):  # both ways, and from one to the other
        assert session.forward(tokens[:1, i : i + 1]) == near(logits[:1, i : i + 1], abs=TOLERANCE)
    session.rewind(15)
    assert session.forward(tokens[:1, 15:20], last=5) == near(logits[:1, 15:20], abs=TOLERANCE)
    session.reorder([0, 0])
    assert session.forward(tokens[[0, 0], 20:21]) == near(logits[[0, 0], 20:21], abs=TOLERANCE)


def test_layers_have_two_ways_where_heads_share_keys_and_see_all_of_them(tmp_path: Path) -> None:
    for case, two_ways in ("gpt2", 0), ("mistral", 0), ("gemma2", 0), ("gemma3_text", 1), ("llama", 2), ("qwen3", 2):
        open_case(case, "onnx", tmp_path)
        assert branches(tmp_path) == two_ways, case


@pytest.mark.parametrize(
    ("heads", "kv_heads", "cores", "expected"),
    [(14, 2, 2, 1), (14, 2, 4, 7), (32, 8, 8, 1), (32, 8, 16, 2), (32, 8, 64, 4), (12, 12, 2, 1)],
)
def test_a_group_is_cut_so_that_each_core_has_a_part(
    heads: int, kv_heads: int, cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "cores", lambda: cores)
    assert rows.parts(Layer(heads, kv_heads, 64, 0.125)) == expected


def test_where_the_system_does_not_tell_how_many_cores_there_are_each_processor_counts_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "cores", lambda: 0)
    most = os.cpu_count() or 1
    assert rows.parts(Layer(8 * most, most, 64, 0.125)) == 1
    assert rows.parts(Layer(3, 1, 64, 0.125)) == (1 if most == 1 else 3)


@pytest.mark.parametrize("spare", [0, 64 << 20])
@pytest.mark.parametrize("seed", range(6))
def test_rows_come_and_go_within_the_buffers(
    seed: int, spare: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_session, "SPARE", spare)
    session, reference = (open_case("llama", backend, tmp_path) for backend in ("onnx", "reference"))

    def expected(read: np.ndarray) -> np.ndarray:
        reference.rewind(0)
        return reference.forward(read)

    vocab_size = session.vocab_size
    read_and_take_back(session, expected, vocab_size, seed, parts=(2, 5), branches=0.4, calls=60)
