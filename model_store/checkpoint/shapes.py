"""The shapes of weights, as far as known before reading, by role."""

from backends.decoder import Decoder, Layer, Mamba, MatrixState, SelectiveState, ShortConvolution

Shapes = dict[str, tuple[int, ...]]


def shapes_of(decoder: Decoder, layer: Layer, *, inner: int, width: int) -> Shapes:
    """The shapes of weights outside of layers, and of a layer like `layer` with `inner` feed-forward elements.

    `width` is the size of an embedding that is projected, 0 if it is not.
    """
    size, width = decoder.hidden_size, width or decoder.hidden_size
    q, kv = layer.heads * layer.head_dim, 2 * layer.kv_heads * layer.head_dim
    count = decoder.experts.count if decoder.experts else 0
    return {
        "embedding": (decoder.vocab_size, width),
        "lm_head": (decoder.vocab_size, width),
        "position_embedding": (decoder.context_length, size),
        "project_in": (size, width),
        "project_out": (width, size),
        "qkv_proj": (q + kv if layer.kv_layer is None else q, size),
        "cross_q_proj": (q, size),
        "cross_kv_proj": (kv, size),
        "relative_bias": (max(layer.buckets, default=0) + 1, layer.heads),
        "q_norm": (q if layer.qk_norm == "heads" else layer.head_dim,),
        "k_norm": (kv // 2 if layer.qk_norm == "heads" else layer.head_dim,),
        "v_norm": (layer.head_dim,),
        "o_proj": (size, q),
        "cross_o_proj": (size, q),
        "up_proj": (inner, size),
        "gate_up_proj": (2 * inner, size),
        "down_proj": (size, inner),
        "attention_sub_norm": (q,),
        "ffn_sub_norm": (inner,),
        "xielu": (3,),
        "sinks": (layer.heads,),
        "attention_gate": (q if layer.gates == "element" else layer.heads, size),
        **latent_shapes(layer, size),
        **state_shapes(layer, size),
        **input_shapes(decoder),
        **altup_shapes(decoder.residuals, size),
        "router": (count, size),
        "choice_bias": (count,),
        "expert_scale": (count,),
        "shared_gate": (1, size),
        "scalar": (1,),
    }


def latent_shapes(layer: Layer, size: int) -> Shapes:
    """The shapes of a layer's latent attention weights."""
    latent, q = layer.latent, layer.heads * layer.head_dim
    if latent is None:
        return {}
    return {
        "kv_down_proj": (latent.rank, size),
        "kv_down_norm": (latent.rank,),
        "k_turning_proj": (latent.turning, size),
        "kv_up_proj": (2 * layer.kv_heads * layer.head_dim, latent.rank + latent.turning),
        "q_down_proj": (latent.queries, size),
        "q_down_norm": (latent.queries,),
        "q_proj": (q, latent.queries or size),
    }


def state_shapes(layer: Layer, size: int) -> Shapes:
    """The shapes of a layer's recurrence weights."""
    how = layer.recurrence
    if isinstance(how, ShortConvolution):
        return {"in_proj": (3 * size, size), "convolution": (size, how.width), "o_proj": (size, size)}
    if isinstance(how, SelectiveState):
        return {
            "in_proj": (2 * how.channels, size),
            "convolution": (how.channels, how.width),
            "steps_down_proj": (how.rank, how.channels),
            "steps_down_norm": (how.rank,),
            "steps_proj": (how.channels, how.rank),
            **dict.fromkeys(("keys_proj", "queries_proj"), (how.size, how.channels)),
            **dict.fromkeys(("keys_norm", "queries_norm"), (how.size,)),
            "decay": (how.channels, how.size),
            "skip": (how.channels,),
            "o_proj": (size, how.channels),
        }
    if not isinstance(how, MatrixState):
        return {}
    return {
        "qkvz_proj": (how.channels + how.value_elements, size),
        "rates_proj": (how.rates, size),
        "convolution": (how.channels, how.width),
        "decay": (how.value_heads,),
        "decay_bias": (how.value_heads,),
        "value_norm": (how.value_elements if isinstance(how, Mamba) else how.value_size,),
        "skip": (how.value_heads,),
        "state_o_proj" if layer.beside else "o_proj": (size, how.value_elements),
    }


def input_shapes(decoder: Decoder) -> Shapes:
    """The shapes of weights for per-layer embeddings."""
    own, size = decoder.per_layer_size, decoder.hidden_size
    return {
        "per_layer_embedding": (decoder.vocab_size, len(decoder.layers) * own),
        "per_layer_proj": (len(decoder.layers) * own, size),
        "per_layer_norm": (own,),
        "per_layer_gate": (own, size),
        "per_layer_out": (size, own),
    }


def altup_shapes(count: int, size: int) -> Shapes:
    """The shapes of AltUp's weights."""
    return {
        "altup_proj": ((count - 1) * size, size),
        "altup_out": ((count - 1) * size, size),
        "altup_router": (count, size),
        "altup_prediction": (count * count, count),
        "altup_correction": (count, count),
    }
