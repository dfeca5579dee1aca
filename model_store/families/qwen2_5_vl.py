"""Qwen2.5-VL, of which the language model runs: the same as Qwen2-VL's."""

from model_store.families.qwen2_vl import LAYER, MODEL, PREFIX, TIED, UNUSED, decoder
