"""Qwen3.5 as it is published, with the sight that is not used: its text."""

from model_store.families.qwen3_5_text import LAYER, MODEL, PREFIX, TIED, UNUSED, decoder
