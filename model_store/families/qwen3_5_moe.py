"""Qwen3.5 with experts as published, with vision; only its language model runs."""

from model_store.families.qwen3_5_moe_text import LAYER, MODEL, PREFIX, TIED, UNUSED, decoder
