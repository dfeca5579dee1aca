"""Model repositories for Triton Inference Server, and the Python models that the server runs in them."""
