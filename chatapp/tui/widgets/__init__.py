"""Widgets and small screens that any screen may use."""
