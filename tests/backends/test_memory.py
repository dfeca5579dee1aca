"""Weights that are larger than the memory are mapped and not packed, and give the same logits."""

from pathlib import Path

import numpy as np
import pytest

from backends.memory import memory, overflows_memory
from backends.onnx import lower
from backends.onnx.session import Session
from support.golden_logits import golden, open_golden


@pytest.mark.parametrize("precision", ["f32", "int8", "int4"])
@pytest.mark.parametrize("case", ["mixtral", "qwen3_moe", "llama"])
def test_weights_that_are_larger_than_the_memory_are_computed_with_as_they_lie(
    tmp_path: Path, case: str, precision: str
) -> None:
    decoder, weights = open_golden(case)
    lower(decoder, weights, tmp_path, precision=precision)
    tokens = golden(case)[0][:1]
    packed = Session(tmp_path).forward(tokens, last=8)
    assert np.median(np.abs(Session(tmp_path, unpacked=True).forward(tokens, last=8) - packed)) < 0.06 * packed.std()


def test_what_does_not_fit_the_memory_is_known_by_its_size() -> None:
    assert overflows_memory(memory()) and not overflows_memory(memory() // 2)
