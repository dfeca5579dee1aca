"""The ensemble's model `decoder`: takes logits and returns the text of the likeliest next token."""

from __future__ import annotations  # Triton's module lacks these types while it completes a model's configuration

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb

from chatapp.generation.text.tokenizer import open_tokenizer


class TritonPythonModel:
    """The model class for Triton's Python backend."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the tokenizer."""
        self.tokenizer = open_tokenizer(Path(args["model_repository"], args["model_version"]))

    def execute(self, requests: Sequence[pb.InferenceRequest]) -> list[pb.InferenceResponse]:
        """The text of each request's next token; empty if the text ends."""
        return [
            self.decode(*(pb.get_input_tensor_by_name(request, name).as_numpy() for name in ("input_ids", "logits")))
            for request in requests
        ]

    def decode(self, tokens: np.ndarray, logits: np.ndarray) -> pb.InferenceResponse:
        detokenizer = self.tokenizer.detokenizer(tokens[0].tolist())
        text = detokenizer.add(int(logits[0, -1].argmax())) + detokenizer.flush()
        return pb.InferenceResponse([pb.Tensor("OUTPUT", np.array([text.encode()], np.object_))])
