"""Text, files, threads and processes: what every room may use, and what knows none of them."""
