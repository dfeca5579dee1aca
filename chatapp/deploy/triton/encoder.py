"""The ensemble's model `encoder`: takes a text and returns tokens and empty caches."""

from __future__ import annotations  # Triton's module lacks these types while it completes a model's configuration

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb

from chatapp.deploy.triton.session import empty_caches, read_facts, token_inputs
from chatapp.generation.text.tokenizer import open_tokenizer


class TritonPythonModel:
    """The model class for Triton's Python backend."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the tokenizer."""
        folder = Path(args["model_repository"], args["model_version"])
        self.tokenizer, self.facts = open_tokenizer(folder), read_facts(folder)

    def execute(self, requests: Sequence[pb.InferenceRequest]) -> list[pb.InferenceResponse]:
        """Encode the text of each request; an error if it does not fit the context."""
        return [self.encode(pb.get_input_tensor_by_name(request, "TEXT").as_numpy()[0]) for request in requests]

    def encode(self, text: bytes) -> pb.InferenceResponse:
        tokens = self.tokenizer.encode_prompt(text.decode(errors="replace"))
        if not 0 < len(tokens) <= self.facts.context_length:
            message = f"the text is {len(tokens)} tokens, of which 1 to {self.facts.context_length} fit the context"
            return pb.InferenceResponse(error=pb.TritonError(message))
        feeds = {**token_inputs(np.array([tokens]), 0), **empty_caches(self.facts.layers, 1)}
        return pb.InferenceResponse([pb.Tensor(name, values) for name, values in feeds.items()])
