"""What makes the golden files, with the reference libraries."""
