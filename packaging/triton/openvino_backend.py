"""OpenVINO as a backend of Triton that is written in Python, where the server has none of its own.

It loads the same config.pbtxt and the same files as the server's own backend.
"""

from __future__ import annotations  # Triton has no such types yet while it completes a configuration

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import triton_python_backend_utils as pb

sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]  # it reports what it does
import openvino  # noqa: E402


class TritonPythonModel:
    """A graph."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load it; its inputs must be those of config.pbtxt."""
        config = json.loads(args["model_config"])
        file = config.get("default_model_filename") or "model.xml"
        path = Path(args["model_repository"], args["model_version"], file)
        self.model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self.inputs, self.outputs = ([one["name"] for one in config[field]] for field in ("input", "output"))
        known = {port.any_name for port in self.model.inputs}
        if known != set(self.inputs):
            raise ValueError(f"the graph has the inputs {sorted(known)}, config.pbtxt has {sorted(self.inputs)}")
        self.request = self.model.create_infer_request()

    def execute(self, requests: Sequence[pb.InferenceRequest]) -> list[pb.InferenceResponse]:
        """Compute the outputs for each request."""
        return [self.compute(request) for request in requests]

    def compute(self, request: pb.InferenceRequest) -> pb.InferenceResponse:
        feeds = {name: pb.get_input_tensor_by_name(request, name).as_numpy() for name in self.inputs}
        found = self.request.infer(feeds)
        return pb.InferenceResponse([pb.Tensor(name, found[name].copy()) for name in self.outputs])
