"""Models where others serve them: exports for other programs."""
