"""Errors of remote servers."""

from chatapp.generation.errors import GenerationError


class RemoteError(GenerationError):
    """A server cannot be reached, refuses, or breaks off; text received before stays."""
