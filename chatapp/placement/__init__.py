"""Choose where a model runs, by measurement on this machine."""
