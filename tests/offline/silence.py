"""Whatever touches the network, this machine's own included, is noted and fails: for what must not need it at all."""

import os
import sys

REACHING = ("socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
NETWORKING = ("huggingface_hub", "httpx2", "requests")
"""Libraries that have no business where the network has none."""


def note(event: str, details: tuple[object, ...]) -> None:
    """Note an event that reaches for the network, this machine's own included."""
    library = event == "import" and str(details[0]) in NETWORKING
    if event in REACHING or library:
        what = f"{event} {details[0] if library else details}"
        with open(os.environ["NETWORK_NOTES"], "a", encoding="utf-8") as notes:
            notes.write(f"{' '.join(sys.argv)}: {what}\n")
        raise PermissionError(f"the network was touched: {what}")


def refuse() -> None:
    """Refuse even the thought of a network in this process, from now on."""
    sys.addaudithook(note)
