"""Code completion: what may stand at a place, found in files and said by a model, with its probability."""
