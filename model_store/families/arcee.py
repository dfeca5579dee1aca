"""Arcee is Llama with a squared ReLU, and no gate."""

from model_store.families import llama, with_defaults
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {name: source for name, source in llama.LAYER.items() if name != "gate_up_proj"} | {
    "up_proj": "layers.{}.mlp.up_proj"
}
decoder = with_defaults(llama.decoder, {"hidden_act": "relu2", "rms_norm_eps": 1e-5})
