"""Describe a decoder in a GGUF file: its keys, tensors' names and order, and what cannot be expressed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.decoder import Decoder, ExpertMatrices, Experts, Layer, Rope, Weight, Weights
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.tensor import Tensor, Told
from model_store.checkpoint.weights import Stored as Names
from model_store.checkpoint.weights import transforms_of, written
from model_store.errors import UnsupportedCheckpoint
from model_store.exports import Source
from model_store.gguf.architectures import ARCHITECTURES, GgufFamily
from model_store.gguf.config import config_of
from model_store.gguf.reader import Header
from model_store.gguf.vocabulary_keys import vocabulary_keys
from model_store.gguf.writer import Value

NAMES = {
    "gemma3": "gemma3", "granitemoeshared": "granitemoe", "ministral": "llama", "mistral": "llama", "mixtral": "llama",
    "olmo3": "olmo2", "qwen2_5_vl": "qwen2", "qwen2_vl": "qwen2", "qwen3_vl": "qwen3",
}  # fmt: skip
"""Families that are written as another architecture."""
ONLY_READ = (
    "bitnet", "deepseek_v2", "deepseek_v3", "exaone_moe", "falcon_h1", "gemma3n", "gemma3n_text", "gemma4",
    "gemma4_text", "gemma4_unified", "glm4_moe_lite", "jamba", "lfm2", "lfm2_moe", "minicpm3",
    "ministral3", "mistral3", "mpt", "nemotron_h", "phimoe", "qwen3_5_moe_text", "qwen3_5_text",
    "t5", "youtu",
)  # fmt: skip
"""Families whose files are read but not written: the tables here have no place for what is theirs alone."""
JOINED_QKV = ("bloom", "falcon", "gpt2", "gptneox", "phi2", "phi3", "starcoder")
JOINED_FFN = ("glm4", "phi3")
"""Architectures with joined matrices."""
WINDOWS = ("afmoe", "cohere2", "exaone-moe", "exaone4", "gemma2", "gemma3", "gpt-oss", "olmo2")
"""Architectures with windows in llama.cpp."""
BIASED = ("bloom", "gpt-oss", "gpt2", "gptneox", "llama", "phi2", "starcoder", "starcoder2")
"""Architectures with biases after attention and in the feed-forward in llama.cpp."""
GELU = ("gelu", "gelu_tanh")
"""Activations that llama.cpp does not distinguish."""
SQUARE = ("phi3",)
"""Architectures whose heads together must be as wide as the embedding."""
UNGROUPED = ("olmoe",)
"""Architectures without shared key-value heads."""
STRETCHED = ("apertus", "arcee", "exaone", "exaone4", "llama")
"""Architectures for which llama.cpp reads a rotary factor for each element."""
LEARNED = "xielu"
"""What no tensor has, but keys."""
EXPERT = re.compile(r"experts\.\d+\.")
"""An expert's number in the name of its weight."""


def planned(*shape: int, values: object = None) -> Tensor:
    """A tensor of this shape that is not in a file, with values if they will be needed."""
    return Told(Path(), 0, 0, np.dtype(np.float32), shape, numbers=values)


@dataclass(frozen=True)
class Shortened(Source):
    """A model with a shorter context; windows that would then hide nothing are dropped if llama.cpp has none."""

    context: int

    @property
    def decoder(self) -> Decoder:
        """The decoder with the shorter context."""
        whole = super().decoder
        layers = list(whole.layers)
        if architecture_of(self) not in WINDOWS:
            layers = [replace(layer, window=0 if layer.window >= self.context else layer.window) for layer in layers]
        if self.context <= whole.border:
            layers = [replace(layer, rope=layer.rope and replace(layer.rope, long=(), border=0)) for layer in layers]
        return replace(whole, layers=tuple(layers), context_length=self.context)


def shortened(source: Source, context: int) -> Source:
    """The model for a context of this length; unchanged for 0."""
    return Shortened(source.model, source.tokenizer, context) if context else source


def architecture_of(source: Source) -> str:
    """llama.cpp's name of the family."""
    family = source.model.family
    if family == "gpt2" and source.config.get("attention_head_type") == "multiquery":
        return "starcoder"  # SantaCoder as first published
    if family in ONLY_READ:
        raise ValueError(f"GGUF files of the family {family} can be read here, and not written")
    known = {one.model_type: name for name, one in ARCHITECTURES.items()} | NAMES
    if family not in known:
        written = ", ".join(sorted(known.keys() - set(ONLY_READ)))
        raise ValueError(f"GGUF files of the family {family} are not written here, only of: {written}")
    return known[family]


def names_of(source: Source) -> Iterator[tuple[str, Names]]:
    """Yield each weight's canonical name and llama.cpp's, which is the same for all experts of a layer."""
    name, weights = architecture_of(source), source.weights()
    there = {"blk.0.attn_qkv.weight"} if name in JOINED_QKV else set()
    if "layers.0.gate_up_proj" in weights and name not in JOINED_FFN:
        there.add("blk.0.ffn_gate.weight")
    kind = source.model.family if source.decoder.experts else ARCHITECTURES[name].model_type
    family = GgufFamily(ARCHITECTURES[name], {"model_type": kind}, dict.fromkeys(there))
    rows = {known.rstrip("?"): found for known, found in {**family.MODEL, **family.LAYER}.items()}
    for canonical in dict.fromkeys(EXPERT.sub("experts.", one) for one in weights):
        role = role_of(canonical)
        if role not in rows:
            raise ValueError(f"llama.cpp's {name} has no {role}")
        if role != LEARNED and not callable(names := rows[role]):  # llama.cpp computes those too
            yield canonical, names


def role_of(canonical: str) -> str:
    """A weight's role in its layer, or outside of layers."""
    return re.sub(r"layers\.\d+\.", "", canonical)


def layer_of(canonical: str) -> int:
    """The index of a weight's layer; 0 outside of layers."""
    return int(canonical.split(".")[1]) if canonical.startswith("layers.") else 0


def tensors_of(
    decoder: Decoder, weight: Weight, canonical: str, names: Names, factor: float
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors for a weight, in llama.cpp's order, and split if they are separate there.

    Query projections are multiplied by `factor`.
    """
    layer, role = layer_of(canonical), role_of(canonical)
    a, written = decoder.layers[layer], written_names(decoder, names, layer)
    for end, given in (".weight", weight.values), (".bias", weight.bias):
        if given is None:
            continue
        values = np.asarray(given, np.float32)
        if role == "position_embedding":
            values = values[: decoder.context_length]
        if role == "shared_gate":
            values = values[0]
        if role in ("qkv_proj", "q_norm", "k_norm") and transforms_of(names):
            values = turned_back(values, names, a)
        if factor != 1:
            values = values.copy()
            values[: a.heads * a.head_dim] *= factor  # all of a norm
        sizes = [a.heads * a.head_dim, a.kv_heads * a.head_dim] if len(written) == 3 else [len(values) // len(written)]
        parts = np.split(values, np.cumsum(sizes)) if len(written) > 1 else [values]
        ends = (end if "." not in name.removeprefix(f"blk.{layer}.") else "" for name in written)  # exp_probs_b.bias
        yield from ((name + end, part) for name, end, part in zip(written, ends, parts, strict=True))


def stacks_of(
    decoder: Decoder, weights: Weights, canonical: str, names: Names
) -> Iterator[tuple[str, Iterator[np.ndarray]]]:
    """Yield the tensors for a layer's experts, with an iterator over the part of each expert."""
    experts, layer = decoder.experts, layer_of(canonical)
    assert experts
    matrices = ExpertMatrices(weights, f"layers.{layer}.", role_of(canonical).removeprefix("experts."), experts.count)
    written = written_names(decoder, names, layer)
    for place, name in enumerate(written):
        biases: list[np.ndarray] = []
        yield f"{name}.weight", part_of_each(matrices, place, len(written), biases)
        if biases:
            yield f"{name}.bias", iter(biases)


def part_of_each(matrices: ExpertMatrices, place: int, count: int, biases: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the part at a place, of so many, of the matrix of each expert; those of the biases go into the list."""
    for one in matrices:
        if one.bias is not None:
            biases.append(np.split(np.asarray(one.bias, np.float32), count)[place])
        yield np.split(np.asarray(one.values, np.float32), count)[place]


def turned_back(values: np.ndarray, names: Names, layer: Layer) -> np.ndarray:
    """The rows of q, k and v in the order that the architecture's transform turns into ours."""
    order = np.arange(len(values))
    for transform in transforms_of(names):
        order = np.asarray(transform(order[:, None], layer))[:, 0]
    return values[np.argsort(order)]


def rescaled(source: Source, keys: dict[str, Value]) -> dict[str, float]:
    """Factors of query projections, by name, if the architecture scales scores differently."""
    weights, found = source.weights(), dict[str, float]()
    for i, (own, theirs) in enumerate(zip(source.decoder.layers, read_again(source, keys).layers, strict=True)):
        if abs(own.scale / theirs.scale - 1) > 1e-6:
            norm = f"layers.{i}.q_norm"
            found[norm if norm in weights else f"layers.{i}.qkv_proj"] = own.scale / theirs.scale
    return found


def facts(source: Source, kind: int) -> dict[str, Value]:
    """The keys for the kind of file."""
    return {
        "general.architecture": architecture_of(source),
        "general.type": "model",
        "general.name": source.model.name,
        "general.alignment": 32,
        "general.file_type": kind,
        **({"general.quantization_version": 2} if kind > 1 else {}),  # for rounded matrices
    }


def tokenizer_keys(source: Source) -> dict[str, Value]:
    """The keys of the tokenizer."""
    name, rows = architecture_of(source), source.decoder.vocab_size
    return vocabulary_keys(source.folder, source.tokenizer, architecture=name, rows=rows)


def decoder_keys(source: Source) -> dict[str, Value]:
    """The keys for the decoder."""
    decoder, name, experts = source.decoder, architecture_of(source), source.decoder.experts
    first = decoder.layers[0]
    norm = "layer_norm_epsilon" if decoder.norm == "layer" else "layer_norm_rms_epsilon"
    found: dict[str, Value | None] = {
        "context_length": decoder.context_length,
        "embedding_length": decoder.hidden_size,
        "block_count": len(decoder.layers),
        "feed_forward_length": experts.size if experts and 0 in experts.layers else inner_size(source),
        "attention.head_count": first.heads,
        "attention.head_count_kv": first.kv_heads,
        "attention.key_length": first.head_dim,
        "attention.value_length": first.head_dim,
        f"attention.{norm}": decoder.epsilon * branch_of(source) ** 2,
        "vocab_size": decoder.vocab_size,
        "tensor_data_layout": "jploski" if name == "falcon" else None,
        **rope_keys(source),
    }
    for key, value in own_keys(source).items():
        found[key] = found.get(key) or value
    return {f"{name}.{key}": value for key, value in found.items() if value is not None} | learned_keys(source)


def learned_keys(source: Source) -> dict[str, Value]:
    """The numbers of each layer's activation, of Apertus, as they were before it took their softplus."""
    weights = source.weights()
    rows = [weights[name].values for name in weights if role_of(name) == LEARNED]
    if not rows:
        return {}
    square, line, bent = np.array(rows, np.float64).T
    found = {"alpha_p": np.log(np.expm1(square)), "alpha_n": np.log(np.expm1(-bent)), "beta": line + bent}
    found["eps"] = np.full(len(rows), -1e-6)  # as transformers and we have it
    return {f"xielu.{key}": numbers.astype(np.float32) for key, numbers in found.items()}


def inner_size(source: Source, layer: int = 0) -> int | None:
    """The intermediate size of a layer's feed-forward for all tokens; None if it has none."""
    weights = source.weights()
    if (name := f"layers.{layer}.down_proj") not in weights:
        return None
    values = weights[name].values
    assert isinstance(values, np.ndarray)  # never rounded
    return int(values.shape[1])


def branch_of(source: Source) -> float:
    """The factor of branches, which our decoder has in other factors."""
    return float(source.config.get("residual_multiplier") or 1.0)


def own_keys(source: Source) -> dict[str, Value | None]:
    """The keys of this architecture only."""
    decoder, branch, experts = source.decoder, branch_of(source), source.decoder.experts
    first, near = decoder.layers[0], next((layer.rope for layer in decoder.layers if layer.window and layer.rope), None)
    known: dict[str, Value | None] = {
        "sliding_window": max(layer.window for layer in decoder.layers) or None,
        "sliding_window_pattern": pattern_of(decoder),
        "clip_qkv": decoder.qkv_clip or None,
        "attn_logit_softcapping": first.softcap,
        "final_logit_softcapping": decoder.logit_softcap,
        "logit_scale": decoder.output_scale,
        "logits_scaling": 1 / decoder.output_scale,
        "attention_multiplier": first.scale,
        "embedding_multiplier": decoder.embedding_scale * branch,
        "residual_multiplier": branch,
        "use_parallel_residual": decoder.parallel,
        "rope_local_base_freq": theta_of(near) if near else None,
    }
    if experts:
        known |= expert_fields(source, experts)
    return {key: known.get(field) for key, field in ARCHITECTURES[architecture_of(source)].keys.items()}


def expert_fields(source: Source, experts: Experts) -> dict[str, Value | None]:
    """The fields of config.json about experts, under all names that families use."""
    shared = inner_size(source, experts.layers[0]) if experts.shared else None
    many = shared // experts.size if shared else None
    found: dict[str, Value | None] = {
        "gating": {"softmax": 1, "sigmoid": 2}.get(experts.scores),
        "moe_layer_interval": 1,  # other values are found when keys are read again
        "norm_topk_prob": experts.normalised,
        "n_group": experts.groups if experts.groups > 1 else None,
        "topk_group": experts.chosen_groups if experts.groups > 1 else None,
    }
    alike: dict[tuple[str, ...], Value | None] = {
        ("num_experts", "n_routed_experts", "moe_num_experts"): experts.count,
        ("num_experts_per_tok", "moe_k", "moe_topk"): experts.chosen,
        ("moe_intermediate_size", "intermediate_size"): experts.size,
        ("shared_expert_intermediate_size", "shared_size_that_tensors_show"): shared,
        ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"): many,
        ("routed_scaling_factor", "route_scale"): experts.scale,
        ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"): experts.layers[0],
    }
    return found | {name: value for names, value in alike.items() for name in names}


def pattern_of(decoder: Decoder) -> int | None:
    """The period of layers without a window, if not six."""
    period = next((i + 1 for i, layer in enumerate(decoder.layers) if not layer.window), 0)
    return period if period not in (0, 6) else None


def rope_keys(source: Source) -> dict[str, Value | None]:
    """The keys for rotary positions."""
    twice = architecture_of(source) in ("gemma3", "gpt-oss", "olmo2")  # windowed layers have another base
    ropes = [layer.rope for layer in source.decoder.layers if layer.rope and not (layer.window and twice)]
    if not ropes:
        return {}
    rope, scaling, config = ropes[0], scaling_of(source.config), source.config
    kind = scaling.get("rope_type") or scaling.get("type")
    found: dict[str, Value | None] = {
        "rope.dimension_count": 2 * sum(one != 0 for one in rope.inverse_frequencies),
        "rope.freq_base": theta_of(rope)
        if scaling.get("alpha")
        else float(scaling.get("rope_theta") or config.get("rope_theta") or theta_of(rope)),
    }
    if kind in ("linear", "yarn"):
        found |= {"rope.scaling.type": kind, "rope.scaling.factor": float(scaling["factor"])}
    if kind == "yarn" or rope.border:
        original = scaling.get("original_max_position_embeddings") or config.get("original_max_position_embeddings")
        found["rope.scaling.original_context_length"] = int(original or 0) or None
    if architecture_of(source) == "phi3" and stretches_each(source):
        found["rope.scaling.attn_factor"] = rope.amplitude
    return found


def scaling_of(config: Config) -> dict[str, Any]:  # Any: config.json's
    """The scaling of positions, in layers without a window."""
    config = config.get("text_config") or config
    found = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return dict(found.get("full_attention", found))


def theta_of(rope: Rope) -> float:
    """The base of rotary positions that are unscaled, or all scaled by the same factor."""
    turning = [one for one in rope.inverse_frequencies if one]
    return float((turning[0] / turning[1]) ** len(turning)) if len(turning) > 1 else 10_000.0


def stretches_each(source: Source) -> bool:
    """Whether each rotary element has a factor of its own, for which there is no key."""
    scaling = scaling_of(source.config)
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    turns = any(layer.rope for layer in source.decoder.layers)
    return turns and (kind not in ("default", "dynamic", "linear", "mrope", "yarn") or bool(source.decoder.border))


def stretches(source: Source) -> dict[str, np.ndarray]:
    """The small tensors with the divisors of rotary frequencies."""
    if not stretches_each(source):
        return {}
    name, rope = architecture_of(source), next(layer.rope for layer in source.decoder.layers if layer.rope)
    turning = np.array([one for one in rope.inverse_frequencies if one])
    plain = float(str(rope_keys(source)["rope.freq_base"])) ** (-np.arange(len(turning)) / len(turning))
    short = (plain / turning).astype(np.float32)
    if name in STRETCHED and not rope.border and rope.amplitude == 1:
        return {"rope_freqs.weight": short}
    if name != "phi3":
        raise ValueError(f"llama.cpp's {name} has no positions of which each is stretched by a factor of its own")
    long = (plain / np.array([one for one in rope.long if one])).astype(np.float32) if rope.border else short
    return {"rope_factors_long.weight": long, "rope_factors_short.weight": short}


def read_again(source: Source, keys: dict[str, Value]) -> Decoder:
    """The decoder that the file's keys describe."""
    named = (written_names(source.decoder, names, 0) for _, names in names_of(source))
    tensors = {f"{name}.weight": planned() for names in named for name in names}
    tensors |= {f"blk.{i}.attn_norm.weight": planned() for i in range(len(source.decoder.layers))}
    tensors["token_embd.weight"] = planned(source.decoder.vocab_size, source.decoder.hidden_size)
    tensors |= {name: planned(*values.shape, values=values) for name, values in stretches(source).items()}
    header = Header(Path(f"{source.model.name}.gguf"), {"general.architecture": architecture_of(source), **keys}, {})
    try:
        config = config_of(header, tensors)
    except UnsupportedCheckpoint as error:  # its message is for readers of a file
        raise ValueError(str(error.__cause__ or error)) from error
    return GgufFamily(ARCHITECTURES[architecture_of(source)], config, tensors).decoder(config)


def written_names(decoder: Decoder, names: Names, layer: int) -> list[str]:
    """A source's tensor names for a layer: the second one if a layer with experts has another."""
    found = written(names).replace("[{1}]", "").format(layer).split()
    chooses = decoder.experts is not None and layer in decoder.experts.layers
    return [name.split("=")[-1 if chooses else 0] for name in found]


def compare(source: Source) -> None:
    """Raise ValueError for differences between the decoder and the file's description, scores' scale aside."""
    own, theirs, architecture = source.decoder, read_again(source, decoder_keys(source)), architecture_of(source)
    if own.activation != theirs.activation and not {own.activation, theirs.activation} <= {*GELU}:
        raise ValueError(f"llama.cpp's {architecture} has the activation {theirs.activation!r}")
    for what in "norm", "parallel", "context_length", "vocab_size":
        if getattr(own, what) != getattr(theirs, what):
            raise ValueError(f"llama.cpp's {architecture} has the {what} {getattr(theirs, what)!r}")
    if own.experts != theirs.experts:
        raise ValueError(f"llama.cpp's {architecture} chooses experts, or weighs them, otherwise")
    for what in "epsilon", "embedding_scale", "output_scale", "logit_softcap", "qkv_clip":
        if abs(getattr(own, what) - getattr(theirs, what)) > 1e-5 * abs(getattr(own, what)):
            raise ValueError(f"llama.cpp's {architecture} has the {what} {getattr(theirs, what)!r}")
    for i, (a, b) in enumerate(zip(own.layers, theirs.layers, strict=True)):
        if architecture in SQUARE and a.heads * a.head_dim != own.hidden_size:
            raise ValueError(f"llama.cpp's {architecture} has heads of {own.hidden_size // a.heads}, not {a.head_dim}")
        if architecture in UNGROUPED and a.heads != a.kv_heads:
            raise ValueError(f"llama.cpp's {architecture} has keys of each head, and these are of {a.kv_heads} only")
        if replace(a, rope=None, scale=1, softcap=0.0) != replace(b, rope=None, scale=1, softcap=0.0):
            raise ValueError(f"llama.cpp's {architecture} has another attention in layer {i}")
        if a.window and a.window < own.context_length and architecture not in WINDOWS:
            raise ValueError(
                f"llama.cpp's {architecture} has no windows, and layer {i} has one of {a.window} tokens: "
                f"--context {a.window} would do"
            )
        if abs(a.softcap - b.softcap) > 1e-5 * a.softcap or not turn_alike(a.rope, b.rope):
            raise ValueError(f"llama.cpp's {architecture} turns positions or caps scores otherwise in layer {i}")


def turn_alike(own: Rope | None, theirs: Rope | None) -> bool:
    """Whether rotary positions are the same, to float32's precision."""
    if own is None or theirs is None:
        return own is theirs
    pairs = (own.inverse_frequencies, theirs.inverse_frequencies), (own.long, theirs.long)
    near = all(len(a) == len(b) and np.allclose(a, b, rtol=1e-5, atol=0) for a, b in pairs)
    return near and own.border == theirs.border and abs(own.amplitude - theirs.amplitude) < 1e-5


def refuse_biases(source: Source) -> None:
    """Raise ValueError for biases that the architecture lacks."""
    weights, name = source.weights(), architecture_of(source)
    for role in () if name in BIASED else ("o_proj", "down_proj"):
        if f"layers.0.{role}" in weights and weights[f"layers.0.{role}"].bias is not None:
            raise ValueError(f"llama.cpp's {name} has no bias of {role}")
