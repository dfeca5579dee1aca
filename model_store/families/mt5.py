"""mT5 and its likes: T5 with a gate in each feed-forward, and a head of its own."""

from model_store.families import t5, with_defaults
from model_store.families.t5 import LAYER, MODEL, PREFIX, UNUSED

TIED = False
decoder = with_defaults(t5.decoder, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False})
