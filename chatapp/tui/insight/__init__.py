"""What only a model on this machine can show: the probability and the latency of every token."""
