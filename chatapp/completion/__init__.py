"""Code completion: offers for a place in code, from files and from a model, with their probabilities."""
