"""Run a lowered decoder whose caches are states of the runtime."""

from pathlib import Path

import numpy as np
import openvino
from openvino import Tensor

from backends.buffers import give_back_file
from backends.cached import CachedSession
from backends.openvino.runtime import WEIGHTS, compile_model, infer, placement, properties, read_facts

HIDDEN = 1 << 30
"""The position of a hidden token in the cache."""
SPARE = 256
"""Hidden tokens that are tolerated in the cache, however few are visible."""


class StatefulSession(CachedSession):
    """A loaded decoder; rewound tokens stay in the runtime's cache, hidden, until compacting pays off.

    An encoder reads each prompt once; the keys and values that it returns are kept until the next prompt.
    """

    def __init__(self, folder: Path, device: str):
        facts, name = read_facts(folder), device.lower()
        config = properties(device, facts)
        self.whole_prompts = facts.start_token is not None
        self.start_token = facts.start_token or 0
        change = only_decoder if self.whole_prompts else None
        compiled = compile_model(folder, device, config, name=name, change=change)
        self.request = compiled.create_infer_request()
        if self.whole_prompts:
            encoder = compile_model(folder, device, config, name=name + "-encoder", change=only_encoder)
            self.encoder = encoder.create_infer_request()
        self.context_length, self.vocab_size = facts.context_length, facts.vocab_size
        self.placement = placement(compiled, facts)
        self.border, self.long = facts.border, False
        self.memory: dict[str, np.ndarray] = {}
        """The encoder's keys and values of the prompt."""
        self.parents = np.zeros(1, np.int32)
        """The row of the runtime's cache that each row continues."""
        self.slots = np.empty(0, np.int64)
        """The position of every token in the runtime's cache."""
        self.forward(np.zeros((1, 1), np.int64))  # packs the weights before anyone waits
        give_back_file(folder / WEIGHTS)  # the packed weights are copies
        self.token_bytes = sum(int(each.state.byte_size) for each in self.request.query_state())
        self.rewind(0)

    def read(self, prompt: np.ndarray) -> None:
        infer(self.encoder, {"prompt": prompt})
        ports = self.encoder.model_outputs
        self.remember({port.any_name: self.encoder.get_tensor(port).data.copy() for port in ports})

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        batch, count = tokens.shape
        if not self.cached:
            self.parents, self.slots = np.arange(batch, dtype=np.int32), self.slots[:0]
            self.request.reset_state()
        positions = np.arange(self.cached, self.cached + count)
        slots = np.concatenate([self.slots, positions])
        feeds = dict(tokens=tokens, positions=positions, key_positions=slots, parents=self.parents)
        if self.border:
            feeds["long"] = np.array([self.long], np.int64)
        infer(self.request, {**feeds, "wanted": np.arange(count - last, count)})
        self.slots, self.parents = slots, np.arange(batch, dtype=np.int32)
        logits: np.ndarray = self.request.get_tensor("logits").data
        return logits

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self.slots[self.slots >= self.cached] = HIDDEN
        if self.cached and len(self.slots) > 2 * self.cached + SPARE:
            self.compact()

    def compact(self) -> None:
        """Drop hidden tokens from the cache: a copy, which takes as long as reading a few tokens."""
        seen = np.flatnonzero(self.slots != HIDDEN)
        for state in self.request.query_state():
            state.state = Tensor(np.ascontiguousarray(state.state.data[:, :, seen]))
        self.slots = self.slots[seen]

    def take_rows(self, parents: list[int]) -> None:
        self.parents = self.parents[parents]
        self.remember({name: values[parents] for name, values in self.memory.items()})

    def remember(self, memory: dict[str, np.ndarray]) -> None:
        """Set the keys and values that the decoder cross-attends to; the encoder calls them `read_...`."""
        self.memory = memory
        for name, values in memory.items():
            self.request.set_tensor(name.replace("read_", "memory_"), Tensor(values, shared_memory=True))


def only_decoder(model: openvino.Model) -> None:
    """Remove the encoder from a model."""
    for result in model.get_results():
        if not result.input_value(0).get_names() & {"logits"}:
            model.remove_result(result)
    model.remove_parameter(next(node for node in model.get_parameters() if node.get_friendly_name() == "prompt"))


def only_encoder(model: openvino.Model) -> None:
    """Remove the decoder from a model."""
    for sink in model.get_sinks():
        model.remove_sink(sink)
    for result in model.get_results():
        if result.input_value(0).get_names() & {"logits"}:
            model.remove_result(result)
    for node in model.get_parameters():
        if node.get_friendly_name() != "prompt":
            model.remove_parameter(node)
