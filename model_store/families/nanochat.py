"""nanochat: norms without weights, also of the embedding; a squared ReLU; reversed rotation."""

from dataclasses import replace

import numpy as np

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import arcee, llama
from model_store.families.llama import PREFIX, TIED, UNUSED

MODEL = {**llama.MODEL, "embedding_norm": np.ones, "norm": np.ones}
LAYER = arcee.LAYER | {
    **dict.fromkeys(("attention_norm", "ffn_norm", "q_norm", "k_norm"), np.ones),
    "up_proj": "layers.{}.mlp.fc1",
    "down_proj": "layers.{}.mlp.fc2",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; a norm without weights may be before or after the rotation."""
    same = llama.decoder({"hidden_act": "relu2", **config})
    rope = same.layers[0].rope
    assert rope is not None
    turned = replace(rope, inverse_frequencies=tuple(-each for each in rope.inverse_frequencies))
    layers = tuple(replace(layer, rope=turned) for layer in same.layers)
    return replace(same, layers=layers, logit_softcap=config.get("final_logit_softcapping", 15.0) or 0.0)
