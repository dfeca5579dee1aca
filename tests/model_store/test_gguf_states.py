"""Layers that keep a state in GGUF files: their sizes, what each block is, and the order of their heads."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends import quantize
from backends.decoder import DeltaNet
from model_store import UnsupportedCheckpoint
from model_store.convert import open_checkpoint
from model_store.gguf import open_gguf
from model_store.gguf.states import columns_by_key
from support.gguf_conversion import converted
from support.golden_logits import GOLDEN


@pytest.mark.parametrize("bits", [4, 8])
def test_columns_of_heads_change_places_as_integers_as_they_do_as_numbers(bits: int) -> None:
    layer = open_checkpoint(GOLDEN / "qwen3_5_text")[2].layers[0]
    assert isinstance(layer.recurrence, DeltaNet)
    layer = replace(layer, recurrence=replace(layer.recurrence, value_size=64))
    matrix = np.random.default_rng(0).normal(size=(6, 4 * 64)).astype(np.float32)
    held = quantize.rounded(matrix, quantize.precision(f"int{bits}-32"))
    moved = replace(held, values=columns_by_key(held.values, layer), scales=columns_by_key(held.scales, layer))
    assert np.array_equal(quantize.dequantize(moved), columns_by_key(quantize.dequantize(held), layer))


@pytest.mark.parametrize(
    ("case", "key", "says"),
    [
        ("qwen3_5_text", "qwen35.ssm.inner_size", "the sizes of its states .ssm.inner_size"),
        ("qwen3_5_text", "qwen35.ssm.time_step_rank", "the sizes of its states .ssm.time_step_rank"),
        ("granitemoehybrid-mamba", "granitehybrid.ssm.group_count", "the sizes of its states .ssm.group_count"),
        ("nemotron_h", "nemotron_h.ssm.state_size", "the sizes of its states .ssm.state_size"),
        ("nemotron_h", "nemotron_h.feed_forward_length", "what each block is"),
        ("nemotron_h", "nemotron_h.attention.head_count_kv", "what each block is"),
    ],
)
def test_a_file_that_does_not_tell_of_its_states_is_refused(case: str, key: str, says: str, tmp_path: Path) -> None:
    path, other = tmp_path / "model.gguf", key[::-1]
    path.write_bytes(converted(GOLDEN / case).replace(key.encode(), other.encode()))
    with pytest.raises(UnsupportedCheckpoint, match=f"does not tell {says}"):
        open_gguf(path)
