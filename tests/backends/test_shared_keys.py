"""Layers that attend to the keys and values of others: of a prompt, they are computed for the wanted tokens alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends import reference
from backends.decoder import Layer, Norms, Weight
from backends.forward import forward
from support.arrays import near
from support.checkpoints import HERE
from support.golden_logits import TOLERANCE, golden, open_case, open_golden

CASES = "gemma3n_text", "gemma4_text", "gemma4_unified"


@pytest.mark.parametrize("backend", ["reference", *HERE])
@pytest.mark.parametrize("case", CASES)
def test_the_last_logits_of_a_prompt_and_of_its_parts_are_those_among_others(
    case: str, backend: str, tmp_path: Path
) -> None:
    session, (tokens, logits) = open_case(case, backend, tmp_path), golden(case)
    assert session.forward(tokens[:1, :13]) == near(logits[:1, 12:13], abs=TOLERANCE)
    assert session.forward(tokens[:1, 13:20], last=2) == near(logits[:1, 18:20], abs=TOLERANCE)
    assert session.forward(tokens[:1, 20:21]) == near(logits[:1, 20:21], abs=TOLERANCE)
    session.rewind(0)
    assert session.forward(tokens[:, :16]) == near(logits[:, 15:16], abs=TOLERANCE)
    assert session.forward(tokens[:, 16:19], last=2) == near(logits[:, 17:19], abs=TOLERANCE)


class Counting(reference.Ops):
    """Operations that count the queries of each layer."""

    queries: list[int]

    def attention(
        self, qkv: np.ndarray, layer: int, norms: Norms, bias: Weight | None, sinks: Weight | None
    ) -> np.ndarray:
        self.queries.append(qkv.shape[1])
        return super().attention(qkv, layer, norms, bias, sinks)


def test_only_tokens_whose_logits_are_wanted_are_computed_where_nothing_reads_the_others() -> None:
    decoder, weights = open_golden("gemma4_text")
    ops = Counting(decoder, golden("gemma4_text")[0][:1, :9], reference.empty(decoder, 1), 2)
    ops.queries = []
    assert forward(decoder, weights, ops).shape == (1, 2, 96)
    assert ops.queries == [9, 9, 9, 9, 2, 2]


def test_layers_can_only_share_what_another_one_before_them_has_made_alike() -> None:
    decoder, _ = open_golden("gemma4_text")
    first: Layer = decoder.layers[0]
    for layers in (
        (first, replace(first, kv_layer=1)),
        (first, replace(first, kv_layer=2)),
        (first, replace(first, kv_layer=0, window=0)),
        (first, replace(first, kv_layer=0), replace(first, kv_layer=1)),
    ):
        with pytest.raises(ValueError, match="cannot attend to the keys and values of layer"):
            replace(decoder, layers=layers)
