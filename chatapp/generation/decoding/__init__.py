"""From logits to tokens: sampling, beam search, constraints, stop strings, and the loop."""
