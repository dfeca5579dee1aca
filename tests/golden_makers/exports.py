"""Export golden checkpoints as optimum does: ONNX with caches as inputs and outputs, OpenVINO with states.

PYTHONPATH=tests python -m golden_makers.exports, with `pip install '.[verify]'`.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from backends import telemetry

telemetry.silence()

import openvino  # noqa: E402
from openvino import opset13  # noqa: E402
from openvino._offline_transformations import apply_make_stateful_transformation  # noqa: E402

GOLDEN = Path(__file__).parents[1] / "golden"
EXPORTS = Path(__file__).parents[1] / "golden_exports"
CASE = "llama"


class Wrapped(torch.nn.Module):  # type: ignore[misc]  # torch is not followed
    """A model whose caches are ordinary inputs and outputs."""

    def __init__(self, model: Any):  # Any: transformers has no types
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any, *past: Any) -> Any:
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        found = self.model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache
        )
        present = [part for layer in found.past_key_values.layers for part in (layer.keys, layer.values)]
        return (found.logits, *present)


def export() -> None:
    """Write the ONNX export."""
    model = AutoModelForCausalLM.from_pretrained(GOLDEN / CASE, attn_implementation="eager").eval().float()
    config = model.config
    count, heads, size = config.num_hidden_layers, config.num_key_value_heads, config.head_dim
    past = [torch.randn(2, heads, 3, size) for _ in range(2 * count)]
    names = [f"{i}.{kind}" for i in range(count) for kind in ("key", "value")]
    inputs = (torch.ones(2, 4, dtype=torch.int64), torch.ones(2, 7, dtype=torch.int64), torch.arange(3, 7).tile(2, 1))
    axes = {
        "input_ids": {0: "batch_size", 1: "sequence_length"},
        "position_ids": {0: "batch_size", 1: "sequence_length"},
    }
    axes |= {"attention_mask": {0: "batch_size", 1: "total"}, "logits": {0: "batch_size", 1: "sequence_length"}}
    axes |= {f"past_key_values.{name}": {0: "batch_size", 2: "past_sequence_length"} for name in names}
    axes |= {f"present.{name}": {0: "batch_size", 2: "total"} for name in names}
    folder = EXPORTS / "onnx" / "onnx"
    folder.mkdir(parents=True, exist_ok=True)
    with torch.inference_mode():
        torch.onnx.export(
            Wrapped(model),
            (*inputs, *past),
            folder / "model.onnx",
            input_names=["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{name}" for name in names)],
            output_names=["logits", *(f"present.{name}" for name in names)],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    onnx.checker.check_model(folder / "model.onnx")
    shutil.copy(GOLDEN / CASE / "config.json", EXPORTS / "onnx")


def make_stateful() -> None:
    """Write the OpenVINO model: the caches become states, whose rows beam_idx picks."""
    model = openvino.convert_model(EXPORTS / "onnx" / "onnx" / "model.onnx")
    caches = [name for port in model.inputs for name in port.get_names() if name.startswith("past_key_values")]
    rows = opset13.parameter(shape=[-1], dtype=np.int32, name="beam_idx")
    rows.output(0).get_tensor().set_names({"beam_idx"})
    model.add_parameters([rows])
    for name in caches:
        port = model.input(name)
        users = port.get_target_inputs()
        picked = opset13.gather(port, rows, opset13.constant(0))
        for user in users:
            user.replace_source_output(picked.output(0))
    model.validate_nodes_and_infer_types()
    apply_make_stateful_transformation(model, {name: name.replace("past_key_values", "present") for name in caches})
    batch = opset13.gather(
        opset13.shape_of(model.input("input_ids"), output_type="i64"), opset13.constant([0]), opset13.constant(0)
    )
    for node in model.get_ops():
        if node.get_type_name() == "ReadValue":
            shape = node.get_output_partial_shape(0)
            rest = [opset13.constant(np.array([0 if dim.is_dynamic else dim.get_length()])) for dim in list(shape)[1:]]
            empty = opset13.broadcast(opset13.constant(0.0, dtype=np.float32), opset13.concat([batch, *rest], axis=0))
            node.set_arguments([empty])
    model.validate_nodes_and_infer_types()
    folder = EXPORTS / "openvino"
    folder.mkdir(parents=True, exist_ok=True)
    openvino.save_model(model, folder / "openvino_model.xml", compress_to_fp16=False)
    shutil.copy(GOLDEN / CASE / "config.json", folder)


if __name__ == "__main__":
    export()
    make_stateful()
