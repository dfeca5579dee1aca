"""How fast and how right a model is: timing, comparison, verification."""
