"""Models as the user sees them: catalogue, details, background jobs, the offer at the start."""
