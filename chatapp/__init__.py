"""A terminal chat and code completion app whose models run on this machine."""

__version__ = "0.1.0"
