"""The forward pass, written once over the operations that each backend supplies."""

from itertools import takewhile
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

import numpy as np

from backends.decoder import (
    Activation,
    Decoder,
    ExpertMatrices,
    Mamba,
    Norms,
    SelectiveState,
    ShortConvolution,
    StateWeights,
    Weight,
    Weights,
)
from backends.errors import BackendError

Tensor = TypeVar("Tensor")
NO_STATES = "layers that keep a state (short convolutions, delta nets, Mamba) run on ONNX Runtime only"


class Ops(Protocol[Tensor]):
    """The operations a backend supplies, each as coarse as its fused kernels allow; `i` is the index of the layer.

    Shapes: B rows, T tokens, S keys, H elements of the residual.
    """

    @property
    def tokens(self) -> Tensor:
        """(B, T)"""

    @property
    def positions(self) -> Tensor:
        """(B, T)"""

    def embed(self, table: Weight, index: Tensor) -> Tensor: ...
    def scale(self, x: Tensor, factor: float) -> Tensor: ...
    def add(self, x: Tensor, y: Tensor) -> Tensor: ...
    def norm(self, x: Tensor, weight: Weight) -> Tensor: ...
    def add_norm(self, x: Tensor, y: Tensor, weight: Weight) -> tuple[Tensor, Tensor]:
        """Return `norm(x + y)` and `x + y`."""

    def linear(self, x: Tensor, weight: Weight) -> Tensor: ...
    def concat(self, x: Tensor, y: Tensor) -> Tensor:
        """Concatenate the elements: (B, T, X), (B, T, Y) -> (B, T, X + Y)."""

    def chunk(self, x: Tensor, index: int, count: int) -> Tensor:
        """Part `index` of the elements, divided into `count` equal parts: (B, T, count X) -> (B, T, X)."""

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply element by element, or each token by one number: (B, T, X), (B, T, X or 1) -> (B, T, X)."""

    def match_rms(self, x: Tensor, like: Tensor) -> Tensor:
        """Scale each token of `x` so that its root mean square is that of the token of `like`."""

    def attention(self, qkv: Tensor, i: int, norms: Norms, bias: Weight | None, sinks: Weight | None) -> Tensor:
        """Split, normalise and rotate heads, extend the cache, attend: (B, T, Q + K + V) -> (B, T, Q).

        Where `Layer.kv_layer` names another layer, `qkv` holds queries only, (B, T, Q), and that layer's cache is read.
        `bias` is the table (buckets, heads) that `Layer.buckets` chooses from, added to the scaled scores; `sinks`
        (heads,) are the scores of an extra key whose value is 0.
        """

    def cross_attention(self, q: Tensor, i: int) -> Tensor:
        """Attend to the layer's keys and values of the prompt, from `encode`: (B, T, Q) -> (B, T, Q).

        Called only where there is an encoder.
        """

    def short_convolution(self, x: Tensor, i: int, kernel: Weight) -> Tensor:
        """Gate, convolve and gate again: (B, T, 3 H) -> (B, T, H).

        The thirds of `x` are the gate before the convolution, the gate after it, and its input. `kernel` (H, width)
        weights each channel's newest tokens; those that the next call needs are kept in the state.
        """

    def convolve(self, x: Tensor, i: int, kernel: Weight) -> Tensor:
        """Convolve each channel causally with its row of `kernel` (channels, width); older tokens are in the state."""

    def selective_state(
        self, x: Tensor, steps: Tensor, keys: Tensor, queries: Tensor, i: int, decay: Weight, skip: Weight
    ) -> Tensor:
        """Run the selective state space: `x` and `steps` (B, T, channels) -> (B, T, channels).

        `keys` and `queries` (B, T, size) are Mamba's B and C. The steps go through softplus; `decay` (channels, size)
        holds logarithms of the rates, and `skip` is the factor of `x` that is added to the output.
        """

    def delta_net(self, x: Tensor, rates: Tensor, i: int, weights: StateWeights) -> Tensor:
        """Run the gated delta rule: queries, keys, values and gates (B, T, channels + V) -> (B, T, V).

        `rates` (B, T, 2 value_heads) hold the share of a value that is written, and the decay of the state. First comes
        a convolution with silu; at the end each head is normalised, and multiplied by the silu of its gate.
        """

    def mamba(self, x: Tensor, steps: Tensor, i: int, weights: StateWeights) -> Tensor:
        """Run Mamba-2: queries, keys, values and gates (B, T, channels + V) -> (B, T, V).

        `steps` (B, T, value_heads) control writing and decay. First comes a convolution with silu; at the end the skip
        is added, multiplied by the silu of the gate, and normalised over the heads that share keys.
        """

    def clip(self, x: Tensor, most: float) -> Tensor:
        """Clamp queries, keys and values to [-most, most]."""

    def activate(self, x: Tensor, kind: Activation) -> Tensor:
        """Apply any activation but xielu."""

    def gate(self, gate_up: Tensor, kind: Activation, cutoff: float | None = None) -> Tensor:
        """The activated first half times the second half: (B, T, 2 F) -> (B, T, F).

        With a cutoff, mean + `cutoff` standard deviations are first subtracted from the first half, and what is
        negative becomes 0.
        """

    def experts(
        self, x: Tensor, logits: Tensor, bias: Weight | None, gate_up: ExpertMatrices, down: ExpertMatrices
    ) -> Tensor:
        """The weighted sum of the outputs of each token's experts: (B, T, H) -> (B, T, H).

        `logits` (B, T, count) are the router's; `bias` (count,) is added to the scores only for choosing.
        """

    def sigmoid_gate(self, x: Tensor, logit: Tensor) -> Tensor:
        """Multiply by the sigmoid of `logit`: one for each token, (B, T, 1), or one for each element."""

    def gate_heads(self, x: Tensor, logits: Tensor, size: int) -> Tensor:
        """Multiply each head of `size` elements by the sigmoid of its logit (B, T, heads)."""

    def narrow(self, x: Tensor) -> Tensor:
        """Keep the tokens whose logits are wanted, or all: an optimisation for layers that only read others' caches.

        `attention` then has as many queries as tokens are left.
        """

    def last(self, x: Tensor) -> Tensor:
        """Keep the tokens whose logits are wanted."""

    def softcap(self, x: Tensor, cap: float) -> Tensor: ...


def refuse_states(decoder: Decoder) -> None:
    """Raise BackendError if layers keep a state, for backends that cannot compute those."""
    if decoder.recurrent:
        raise BackendError(NO_STATES)


class AttentionOnly(Generic[Tensor]):
    """Base of the operations of backends without recurrent layers, which are refused."""

    def short_convolution(self, x: Tensor, i: int, kernel: Weight) -> Tensor:
        raise BackendError(NO_STATES)

    def convolve(self, x: Tensor, i: int, kernel: Weight) -> Tensor:
        raise BackendError(NO_STATES)

    def selective_state(
        self, x: Tensor, steps: Tensor, keys: Tensor, queries: Tensor, i: int, decay: Weight, skip: Weight
    ) -> Tensor:
        raise BackendError(NO_STATES)

    def delta_net(self, x: Tensor, rates: Tensor, i: int, weights: StateWeights) -> Tensor:
        raise BackendError(NO_STATES)

    def mamba(self, x: Tensor, steps: Tensor, i: int, weights: StateWeights) -> Tensor:
        raise BackendError(NO_STATES)

    def gate_heads(self, x: Tensor, logits: Tensor, size: int) -> Tensor:  # LFM3's, most of whose layers keep states
        raise BackendError(NO_STATES)


def forward(decoder: Decoder, weights: Weights, ops: Ops[Tensor]) -> Tensor:
    """Return the logits (B, last, vocab) of `ops.tokens`."""
    layers = Layers(decoder, weights, ops)
    x, branch = layers.run()
    normed, _ = layers.add_norm(ops.last(x), None if branch is None else ops.last(branch), "norm")
    if "project_out" in weights:
        normed = layers.linear(normed, "project_out")
    if decoder.output_scale != 1:
        normed = ops.scale(normed, decoder.output_scale)
    logits = layers.linear(normed, "lm_head")  # (B, last, vocab)
    return ops.softcap(logits, decoder.logit_softcap) if decoder.logit_softcap else logits


def encode(decoder: Decoder, weights: Weights, ops: Ops[Tensor]) -> list[Tensor]:
    """Run the encoder: return what each decoder layer cross-attends to, (B, T, K + V) for the prompt `ops.tokens`.

    `ops` are those of `decoder.as_encoder`, with no cache.
    """
    layers = Layers(decoder.as_encoder, weights, ops, "encoder.")
    normed, _ = layers.add_norm(*layers.run(), "encoder.norm")
    return [layers.linear(normed, f"layers.{i}.cross_kv_proj") for i in range(len(decoder.layers))]


class Layers(Generic[Tensor]):
    """The layers of a decoder, or of its encoder, over the operations of a backend."""

    def __init__(self, decoder: Decoder, weights: Weights, ops: Ops[Tensor], part: str = ""):
        """`part` is the prefix of the layers' names: "" or "encoder."."""
        self.decoder, self.weights, self.ops, self.part = decoder, weights, ops, part

    def run(self) -> tuple[Tensor, Tensor | None]:
        """Run all layers on `ops.tokens`, and return the residual `x` and the `branch` still to be added to it.

        The two stay apart so that adding and normalising can be one kernel.
        """
        decoder, weights, ops = self.decoder, self.weights, self.ops
        looked_up = ops.embed(weights["embedding"], ops.tokens)  # (B, T, hidden)
        inputs = None
        if decoder.per_layer_size:  # each layer has its own embedding of the tokens
            own = ops.scale(ops.embed(weights["per_layer_embedding"], ops.tokens), decoder.per_layer_scale)
            inputs = own, self.linear(looked_up, "per_layer_proj")  # (B, T, layers per_layer_size) each
        x = self.make_residual(looked_up)
        branch = ops.embed(weights["position_embedding"], ops.positions) if "position_embedding" in weights else None
        others = self.split_streams(x)

        for i in range(len(decoder.layers)):
            layer = f"{self.part}layers.{i}."
            if i == decoder.sharing_start:
                x, branch, others = ops.narrow(self.add(x, branch)), None, [ops.narrow(each) for each in others]
                inputs = inputs and (ops.narrow(inputs[0]), ops.narrow(inputs[1]))
            if others:
                x, *others = self.predict_streams([self.add(x, branch), *others], layer)
                y, branch = self.compute_layer(x, None, i)
                x, *others = self.correct_streams([x, *others], self.add(y, branch), layer)
                branch = None
            else:
                x, branch = self.compute_layer(x, branch, i)
            if inputs:
                x = self.add(x, branch)
                branch = self.per_layer_input(x, inputs, i)
            if others:  # with AltUp, added to the other streams only
                others, branch = [self.add(each, branch) for each in others], None
            if layer + "scalar" in weights:
                x, branch = ops.scale(self.add(x, branch), float(np.asarray(weights[layer + "scalar"].values)[0])), None
        return self.merge_streams(x, others) if others else x, branch

    def compute_layer(self, x: Tensor, branch: Tensor | None, i: int) -> tuple[Tensor, Tensor | None]:
        """Compute one layer; takes and returns the residual and the branch still to be added to it."""
        ops, layer = self.ops, f"{self.part}layers.{i}."
        normed, x = self.add_norm(x, branch, layer + "attention_norm")
        mixed = self.mix_tokens(normed, i)
        if self.decoder.parallel:
            normed = self.norm(x, layer + "ffn_norm") if layer + "ffn_norm" in self.weights else normed
            return x, ops.add(mixed, self.feed_forward(normed, x, i))
        mixed = self.norm_if(mixed, layer + "post_attention_norm")
        if layer + "cross_q_proj" in self.weights:
            x, mixed = self.attend_to_prompt(x, mixed, i)
        if layer + "laurel_down" in self.weights:
            mixed = ops.add(mixed, self.laurel(normed, layer))
            x, branch = ops.scale(ops.add(x, mixed), 0.5**0.5), None
        else:
            x, branch = self.norm_sum(x, mixed, layer + "attention_sum_norm")
        if not self.decoder.layers[i].feeds:
            return x, branch
        normed, x = self.add_norm(x, branch, layer + "ffn_norm")
        fed = self.norm_if(self.feed_forward(normed, x, i), layer + "post_ffn_norm")
        return self.norm_sum(x, fed, layer + "ffn_sum_norm")

    def make_residual(self, x: Tensor) -> Tensor:
        """Make the residual from the tokens' embeddings: (B, T, width) -> (B, T, hidden)."""
        if self.decoder.embedding_scale != 1:
            x = self.ops.scale(x, self.decoder.embedding_scale)
        if "project_in" in self.weights:
            x = self.linear(x, "project_in")
        return self.norm_if(x, "embedding_norm")

    def mix_tokens(self, x: Tensor, i: int) -> Tensor:
        """Compute a layer's token mixing: attention, a recurrence, or the sum of both: (B, T, hidden)."""
        weights, ops, layer = self.weights, self.ops, f"{self.part}layers.{i}."
        recurrence = self.decoder.layers[i].recurrence
        if isinstance(recurrence, ShortConvolution):
            mixed = ops.short_convolution(self.linear(x, layer + "in_proj"), i, weights[layer + "convolution"])
        elif isinstance(recurrence, SelectiveState):
            mixed = self.selective_scan(x, i)
        elif recurrence:
            kernel, decay, bias = (weights[layer + name] for name in ("convolution", "decay", "decay_bias"))
            beside = StateWeights(kernel, decay, bias, weights.get(layer + "value_norm"), weights.get(layer + "skip"))
            rates, qkvz = (self.linear(x, layer + name) for name in ("rates_proj", "qkvz_proj"))
            compute = ops.mamba if isinstance(recurrence, Mamba) else ops.delta_net
            mixed = compute(qkvz, rates, i, beside)
        else:
            mixed = self.attend(x, i)
        mixed = self.norm_if(mixed, layer + "attention_sub_norm")
        if self.decoder.layers[i].beside:
            attended = self.linear(self.attend(x, i), layer + "o_proj")
            return ops.add(attended, self.linear(mixed, layer + "state_o_proj"))
        return self.linear(mixed, layer + "o_proj")

    def selective_scan(self, x: Tensor, i: int) -> Tensor:
        """Compute a Mamba layer, whose steps, keys and queries are projected from its channels: (B, T, channels)."""
        weights, ops, layer = self.weights, self.ops, f"{self.part}layers.{i}."
        both = self.linear(x, layer + "in_proj")
        x = ops.activate(ops.convolve(ops.chunk(both, 0, 2), i, weights[layer + "convolution"]), "silu")
        low, keys, queries = (
            self.norm_if(self.linear(x, f"{layer}{role}_proj"), f"{layer}{role}_norm")
            for role in ("steps_down", "keys", "queries")
        )
        steps = self.linear(low, layer + "steps_proj")
        answers = ops.selective_state(x, steps, keys, queries, i, weights[layer + "decay"], weights[layer + "skip"])
        return ops.multiply(answers, ops.activate(ops.chunk(both, 1, 2), "silu"))

    def attend(self, x: Tensor, i: int) -> Tensor:
        """Compute a layer's attention, gated where it has gates: (B, T, hidden) -> (B, T, Q)."""
        weights, ops, layer = self.weights, self.ops, f"{self.part}layers.{i}."
        latent = layer + "kv_down_proj" in weights
        qkv = self.expand_latents(x, layer) if latent else self.linear(x, layer + "qkv_proj")
        if self.decoder.qkv_clip:
            qkv = ops.clip(qkv, self.decoder.qkv_clip)
        given = takewhile(weights.__contains__, (f"{layer}{name}" for name in ("q_norm", "k_norm", "v_norm")))
        norms = tuple(weights[name] for name in given)  # a prefix of the three
        bias = weights.get(layer + "relative_bias") or weights.get(self.part + "relative_bias")
        attended = ops.attention(qkv, i, norms, bias, weights.get(layer + "sinks"))
        if layer + "attention_gate" in weights:
            gates, how = self.linear(x, layer + "attention_gate"), self.decoder.layers[i]
            if how.gates == "head":
                return ops.gate_heads(attended, gates, how.head_dim)
            return ops.sigmoid_gate(attended, gates)
        return attended

    def expand_latents(self, x: Tensor, layer: str) -> Tensor:
        """Multi-head latent attention: project the latents up: (B, T, hidden) -> (B, T, Q + K + V)."""
        latent = self.norm(self.linear(x, layer + "kv_down_proj"), layer + "kv_down_norm")
        shared = self.ops.concat(latent, self.linear(x, layer + "k_turning_proj"))
        if layer + "q_down_proj" in self.weights:
            x = self.norm(self.linear(x, layer + "q_down_proj"), layer + "q_down_norm")
        queries = self.linear(x, layer + "q_proj")
        return self.ops.concat(queries, self.linear(shared, layer + "kv_up_proj"))

    def attend_to_prompt(self, x: Tensor, branch: Tensor, i: int) -> tuple[Tensor, Tensor]:
        """Cross-attend to the prompt; returns `x` plus the branch, and the new branch."""
        layer = f"{self.part}layers.{i}."
        normed, x = self.ops.add_norm(x, branch, self.weights[layer + "cross_norm"])
        attended = self.ops.cross_attention(self.linear(normed, layer + "cross_q_proj"), i)
        return x, self.linear(attended, layer + "cross_o_proj")

    def feed_forward(self, normed: Tensor, x: Tensor, i: int) -> Tensor:
        """Compute one layer's feed-forward: the experts, where it has them, and the shared feed-forward.

        The router and the experts may read the residual `x` through norms of their own.
        """
        weights, ops, layer = self.weights, self.ops, f"{self.part}layers.{i}."
        if layer + "router" not in weights:
            return self.shared_forward(normed, i)
        assert self.decoder.experts  # a router implies experts
        router_norm, experts_norm = (weights.get(layer + name) for name in ("router_norm", "experts_norm"))
        logits = self.linear(ops.norm(x, router_norm) if router_norm else normed, layer + "router")
        read, count = ops.norm(x, experts_norm) if experts_norm else normed, self.decoder.experts.count
        gate_up = ExpertMatrices(weights, layer, "gate_up_proj", count)
        down = ExpertMatrices(weights, layer, "down_proj", count, weights.get(layer + "expert_scale"))
        mixed = ops.experts(read, logits, weights.get(layer + "choice_bias"), gate_up, down)
        mixed = self.norm_if(mixed, layer + "post_experts_norm")
        if not self.decoder.experts.shared:
            return mixed
        shared = self.shared_forward(normed, i)
        if layer + "shared_gate" in weights:
            shared = ops.sigmoid_gate(shared, self.linear(normed, layer + "shared_gate"))
        return ops.add(mixed, self.norm_if(shared, layer + "post_shared_norm"))

    def shared_forward(self, x: Tensor, i: int) -> Tensor:
        """Compute the feed-forward that all tokens go through."""
        ops, layer, activation = self.ops, f"{self.part}layers.{i}.", self.decoder.activation
        if layer + "gate_up_proj" in self.weights:
            gate_up = self.linear(x, layer + "gate_up_proj")
            hidden = ops.gate(gate_up, activation, self.decoder.layers[i].cutoff)
        else:
            hidden = self.linear(x, layer + "up_proj")
            learned = activation == "xielu"
            hidden = self.xielu(hidden, layer + "xielu") if learned else ops.activate(hidden, activation)
        return self.linear(self.norm_if(hidden, layer + "ffn_sub_norm"), layer + "down_proj")

    def xielu(self, x: Tensor, name: str) -> Tensor:
        """The activation xIELU, https://arxiv.org/abs/2411.13010: relu2, elu and identity with learned factors."""
        ops, (square, bent, straight) = self.ops, np.asarray(self.weights[name].values).tolist()
        curve = ops.add(ops.scale(ops.activate(x, "relu2"), square), ops.scale(ops.activate(x, "elu"), bent))
        return ops.add(curve, ops.scale(x, straight))

    def laurel(self, x: Tensor, layer: str) -> Tensor:
        """LAuREL, https://arxiv.org/abs/2411.07501: `x` plus a low-rank projection of it."""
        low = self.linear(self.linear(x, layer + "laurel_down"), layer + "laurel_up")
        return self.ops.add(x, self.norm(low, layer + "laurel_norm"))

    def per_layer_input(self, x: Tensor, inputs: tuple[Tensor, Tensor], i: int) -> Tensor:
        """Gemma 3n and 4: a layer's own embedding of the tokens, gated by the residual: (B, T, hidden)."""
        ops, layer = self.ops, f"{self.part}layers.{i}."
        looked_up, projected = (ops.chunk(each, i, len(self.decoder.layers)) for each in inputs)
        own = ops.add(self.norm(projected, "per_layer_norm"), looked_up)  # (B, T, per_layer_size)
        gate = ops.activate(self.linear(x, layer + "per_layer_gate"), self.decoder.activation)
        return self.norm(self.linear(ops.multiply(gate, own), layer + "per_layer_out"), layer + "post_per_layer_norm")

    def split_streams(self, x: Tensor) -> list[Tensor]:
        """AltUp: make the other residual streams, projected from `x`; none if there is one stream."""
        if self.decoder.residuals == 1:
            return []
        made, count = self.linear(x, "altup_proj"), self.decoder.residuals - 1
        return [self.ops.match_rms(self.ops.chunk(made, i, count), x) for i in range(count)]

    def merge_streams(self, x: Tensor, others: list[Tensor]) -> Tensor:
        """AltUp: the mean of all streams, the others projected back and scaled to the size of the first."""
        ops, matrices, size, total = self.ops, self.weights["altup_out"], self.decoder.hidden_size, x
        for i, each in enumerate(others):
            matrix = matrices.with_rows(itemgetter(slice(i * size, (i + 1) * size)), f".{i}")
            total = ops.add(total, ops.match_rms(ops.linear(each, matrix), x))
        return ops.scale(total, 1 / self.decoder.residuals)

    def predict_streams(self, residuals: list[Tensor], layer: str) -> list[Tensor]:
        """AltUp: predict all streams after a layer from those before it."""
        ops, count = self.ops, len(residuals)
        shares = self.linear(self.route_streams(residuals[0], layer), layer + "altup_prediction")
        found = []
        for i, total in enumerate(residuals):
            for j, each in enumerate(residuals):
                total = ops.add(total, ops.multiply(each, ops.chunk(shares, i * count + j, count**2)))
            found.append(total)
        return found

    def correct_streams(self, predicted: list[Tensor], x: Tensor, layer: str) -> list[Tensor]:
        """AltUp: correct the predicted streams by how far the layer's output `x` is from the first one's prediction."""
        ops, count = self.ops, len(predicted)
        missed = ops.add(x, ops.scale(predicted[0], -1))
        shares = self.linear(self.route_streams(x, layer), layer + "altup_correction")
        missed_by = (ops.add(missed, ops.multiply(missed, ops.chunk(shares, i, count))) for i in range(count))
        return [ops.add(each, more) for each, more in zip(predicted, missed_by, strict=True)]

    def route_streams(self, x: Tensor, layer: str) -> Tensor:
        """AltUp: the router, which the mixing coefficients are projected from: (B, T, hidden) -> (B, T, residuals)."""
        return self.ops.softcap(self.linear(self.norm(x, layer + "altup_norm"), layer + "altup_router"), 1.0)

    def linear(self, x: Tensor, name: str) -> Tensor:
        return self.ops.linear(x, self.weights[name])

    def norm(self, x: Tensor, name: str) -> Tensor:
        return self.ops.norm(x, self.weights[name])

    def norm_if(self, x: Tensor, name: str) -> Tensor:
        """Normalise `x` if the model has this norm."""
        return self.norm(x, name) if name in self.weights else x

    def add_norm(self, x: Tensor, branch: Tensor | None, name: str) -> tuple[Tensor, Tensor]:
        """Return the norm of `x + branch`, and the sum itself; without a norm, the sum twice."""
        if name in self.weights:
            return (self.norm(x, name), x) if branch is None else self.ops.add_norm(x, branch, self.weights[name])
        total = self.add(x, branch)
        return total, total

    def add(self, x: Tensor, branch: Tensor | None) -> Tensor:
        """Return `x + branch`."""
        return x if branch is None else self.ops.add(x, branch)

    def norm_sum(self, x: Tensor, branch: Tensor | None, name: str) -> tuple[Tensor, Tensor | None]:
        """Normalise the sum where the model normalises after adding; returns residual and branch."""
        return (self.add_norm(x, branch, name)[0], None) if name in self.weights else (x, branch)
