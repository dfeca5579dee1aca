"""Text, files, threads and processes: what every room may use and that knows nothing of ours."""
