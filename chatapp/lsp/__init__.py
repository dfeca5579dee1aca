"""The language server: completion for editors, over standard input and output."""
