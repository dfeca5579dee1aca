"""A checkpoint's tokenizer: read, converted if need be, and refused if it cannot be trusted."""
