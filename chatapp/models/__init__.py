"""Models as the user sees them: catalogue, details, suggestion, jobs."""
