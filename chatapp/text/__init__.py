"""Text, files and processes: what every room may use and that knows nothing of ours."""
