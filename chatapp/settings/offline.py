"""Offline mode: connections to other machines are refused, whichever library attempts them."""

import os
import sys
from typing import Any

from backends.errors import UserError

VARIABLE = "CHATAPP_OFFLINE"
EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg")


class Offline(UserError):
    """The network was needed, but is forbidden."""


def wanted() -> bool:
    """Whether the environment asks for offline mode."""
    return os.environ.get(VARIABLE, "").lower() not in ("", "0", "false", "no", "off")


def enforce() -> None:
    """Refuse the network in this process, and in the processes it starts."""
    os.environ[VARIABLE] = "1"
    sys.addaudithook(refuse)


def require_network(command: str) -> None:
    """Raise Offline for a command that needs the network, if offline mode is on."""
    if wanted():
        raise Offline(f"{command} needs the network, which --offline or {VARIABLE} forbids")


def refuse(event: str, details: tuple[Any, ...]) -> None:  # Any: each event has its own
    """An audit hook that raises Offline for an event that would reach another machine."""
    if event not in EVENTS:
        return
    target = details[0] if event in ("socket.getaddrinfo", "socket.gethostbyname") else details[1]
    host = target[0] if isinstance(target, tuple) else target
    if isinstance(target, tuple) or event in ("socket.getaddrinfo", "socket.gethostbyname"):
        name = host.decode() if isinstance(host, bytes) else host
        if name and not is_loopback(str(name)):
            raise Offline(f"something tried to reach {name}, which --offline or {VARIABLE} forbids; nothing was sent")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    import ipaddress  # late, because every command imports this module

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
