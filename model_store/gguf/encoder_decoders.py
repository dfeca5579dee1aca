"""T5 in GGUF files: names of weights, and keys as fields of config.json."""

from collections.abc import Collection, Mapping
from typing import Any

from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import Family, Source, renamed

KEYS = {
    "decoder_block_count": "num_decoder_layers",
    "decoder_start_token_id": "decoder_start_token_id",
    "attention.relative_buckets_count": "relative_attention_num_buckets",
}
NAMES = {
    "shared=encoder.embed_tokens=decoder.embed_tokens": "token_embd",
    "encoder.final_layer_norm": "enc.output_norm",
    "decoder.final_layer_norm": "dec.output_norm",
    "lm_head": "output",
    "encoder.block.{0}.layer.1.layer_norm": "enc.blk.{0}.ffn_norm",
    "decoder.block.{0}.layer.1.layer_norm": "dec.blk.{0}.cross_attn_norm",
    "decoder.block.{0}.layer.2.layer_norm": "dec.blk.{0}.ffn_norm",
    "encoder.block.": "enc.blk.",
    "decoder.block.": "dec.blk.",
    "layer.0.SelfAttention.relative_attention_bias": "attn_rel_b",
    "layer.1.EncDecAttention.relative_attention_bias": "cross_attn_rel_b",
    "layer.0.layer_norm": "attn_norm",
    "layer.0.SelfAttention.": "attn_",
    "layer.1.EncDecAttention.": "cross_attn_",
    "layer.1.DenseReluDense.": "ffn_",
    "layer.2.DenseReluDense.": "ffn_",
    "ffn_wi_0": "ffn_gate",
    "ffn_wi_1": "ffn_up",
    "ffn_wi": "ffn_up",
    "ffn_wo": "ffn_down",
}
"""Parts of the publisher's names, with llama.cpp's."""

Table = Mapping[str, Source]
"""Sources by canonical name."""


def tables(family: Family, config: Config) -> tuple[Table, Table, tuple[str, ...]]:
    """A family's MODEL, LAYER and UNUSED with the names of GGUF files, where gates are beside the other matrix."""
    gated = config["feed_forward_proj"] != "relu"
    layer = {name: source for name, source in family.LAYER.items() if gated or not name.endswith("gate_up_proj?")}
    return renamed_all(family.MODEL), renamed_all(layer), tuple(str(renamed(one, NAMES)) for one in family.UNUSED)


def renamed_all(table: Table) -> Table:
    """Replace the publisher's names in a table."""
    return {name: source if callable(source) else renamed(source, NAMES) for name, source in table.items()}


def seen(names: Collection[str]) -> dict[str, Any]:
    """What only the tensors' names tell: the activation, and whether each layer has relative biases, as UMT5's.

    No key tells whether logits are scaled. T5's first models, without gates, tie the head to the embedding and scale,
    even if a file has a copy of it; those with gates have a head of their own.
    """
    gated = "dec.blk.0.ffn_gate.weight" in names
    kind = {"model_type": "umt5"} if "dec.blk.1.attn_rel_b.weight" in names else {}
    scaled = not gated or "output.weight" not in names
    return {**kind, "feed_forward_proj": "gated-gelu" if gated else "relu", "scale_decoder_outputs": scaled}


def adjust(config: dict[str, Any]) -> None:
    """Use T5's names of sizes."""
    config |= {
        "d_model": config["hidden_size"],
        "d_kv": config["head_dim"],
        "num_heads": config["num_attention_heads"],
        "num_layers": config["num_hidden_layers"],
        "n_positions": config["max_position_embeddings"],
        "layer_norm_epsilon": config.get("rms_norm_eps"),
    }
