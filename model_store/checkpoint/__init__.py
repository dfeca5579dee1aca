"""A checkpoint: the publisher's config.json and tensors, read without torch."""
