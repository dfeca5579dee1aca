"""Drills: kills, faults, damage and hostile files by the hundred, each repeatable by its seed."""
