"""Sampling on the screen: the drawer, presets, and system prompts."""
