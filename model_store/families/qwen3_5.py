"""Qwen3.5 as published, with vision; only its language model runs."""

from model_store.families.qwen3_5_text import LAYER, MODEL, PREFIX, TIED, UNUSED, decoder
