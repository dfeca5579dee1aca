"""A checkpoint's tokenizer: read, made where there is none, and refused where it could not be trusted."""
