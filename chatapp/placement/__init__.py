"""Where a model runs, and why: by measurement on this machine."""
