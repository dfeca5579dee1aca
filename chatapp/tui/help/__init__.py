"""What makes the screen pleasant: help, themes, jumping, vim-like keys."""
