"""Logits to tokens: sampling, stop strings, and the loop that draws them."""
