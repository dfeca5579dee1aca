"""Models that are on this machine already: other programs' files, linked or copied into the store."""
