"""Keyboard input: key order, the user's keys, and what was typed before the screen opened."""
