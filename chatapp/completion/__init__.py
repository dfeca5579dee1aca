"""Code completion: lines from the file and from the model."""
