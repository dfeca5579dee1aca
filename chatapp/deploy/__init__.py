"""Serving models elsewhere: exports for other programs, and replicas on Ray."""
