"""ONNX Runtime as a backend of Triton that is written in Python, where the server has none of its own.

It loads the same config.pbtxt and the same files as the server's own backend.
"""

from __future__ import annotations  # Triton has no such types yet while it completes a configuration

import json
import os
from collections.abc import Sequence
from pathlib import Path

import onnxruntime
import triton_python_backend_utils as pb


class TritonPythonModel:
    """A graph."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load it; its inputs must be those of config.pbtxt."""
        config = json.loads(args["model_config"])
        file = config.get("default_model_filename") or "model.onnx"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = max(1, len(os.sched_getaffinity(0)))
        path = Path(args["model_repository"], args["model_version"], file)
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs, self.outputs = ([one["name"] for one in config[field]] for field in ("input", "output"))
        known = {one.name for one in self.session.get_inputs()}
        if known != set(self.inputs):
            raise ValueError(f"the graph has the inputs {sorted(known)}, config.pbtxt has {sorted(self.inputs)}")

    def execute(self, requests: Sequence[pb.InferenceRequest]) -> list[pb.InferenceResponse]:
        """Compute the outputs for each request."""
        return [self.compute(request) for request in requests]

    def compute(self, request: pb.InferenceRequest) -> pb.InferenceResponse:
        feeds = {name: pb.get_input_tensor_by_name(request, name).as_numpy() for name in self.inputs}
        found = self.session.run(self.outputs, feeds)
        return pb.InferenceResponse([pb.Tensor(*pair) for pair in zip(self.outputs, found, strict=True)])
