"""The user's settings, presets, system prompts and keys."""
