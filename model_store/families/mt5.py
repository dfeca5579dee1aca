"""mT5 and similar: T5 with gated feed-forwards, and a head of its own."""

from model_store.families import t5, with_defaults
from model_store.families.t5 import LAYER, MODEL, PREFIX, UNUSED

TIED = False
decoder = with_defaults(t5.decoder, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False})
