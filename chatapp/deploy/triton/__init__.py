"""Model repositories for Triton Inference Server, and the Python models that run in them."""
