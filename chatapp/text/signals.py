"""The signals that ask a program to end."""

import signal

ENDING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name))
"""That of a closed terminal, which Windows does not have, and the one that other programs send."""
