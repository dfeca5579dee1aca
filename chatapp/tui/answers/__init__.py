"""Several answers side by side, of one model or of several."""
