"""Conversations on the screen: what is said, how fast, and where one writes."""
