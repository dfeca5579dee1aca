"""Screens about the probability and the latency of each token."""
