"""How fast a model is and how right: timing, comparison, verification."""
