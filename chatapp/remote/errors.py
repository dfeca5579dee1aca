"""What can go wrong with a server that answers elsewhere."""

from chatapp.generation.errors import GenerationError


class RemoteError(GenerationError):
    """A server that cannot be asked, refuses, or breaks off; what it had written by then stays."""
