"""How replies are sampled: the drawer, its presets, and system prompts."""
