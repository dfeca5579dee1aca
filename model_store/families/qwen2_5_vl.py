"""The language model of Qwen2.5-VL: the same as Qwen2-VL's."""

from model_store.families.qwen2_vl import LAYER, MODEL, PREFIX, TIED, UNUSED, decoder
