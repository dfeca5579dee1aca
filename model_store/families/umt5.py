"""UMT5 is mT5 with relative biases in each layer."""

from model_store.families import t5
from model_store.families.mt5 import PREFIX, TIED, UNUSED, decoder

MODEL = {name: source for name, source in t5.MODEL.items() if not name.endswith("relative_bias")}
LAYER = {
    **t5.LAYER,
    "encoder.relative_bias": "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias",
    "relative_bias": "decoder.block.{}.layer.0.SelfAttention.relative_attention_bias",
}
