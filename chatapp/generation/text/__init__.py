"""Text to tokens and back: tokenizer, chat template, infill prompts."""
