"""Offline means offline: whatever asks for another machine is refused, whichever library it is in."""

import os
import sys
from typing import Any

from backends.errors import UserError

VARIABLE = "CHATAPP_OFFLINE"
EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg")


class Offline(UserError):
    """The network was asked for, and must not be used."""


def wanted() -> bool:
    """Whether the user has said so by the environment."""
    return os.environ.get(VARIABLE, "").lower() not in ("", "0", "false", "no", "off")


def enforce() -> None:
    """Refuse the network in this process, for good, and in those that it starts."""
    os.environ[VARIABLE] = "1"
    sys.addaudithook(refuse)


def require_network(command: str) -> None:
    """Raise Offline where a command that needs the network must not use it."""
    if wanted():
        raise Offline(f"{command} needs the network, and --offline or {VARIABLE} forbids it")


def refuse(event: str, details: tuple[Any, ...]) -> None:  # Any: each event has its own
    """Raise Offline for an event that reaches for another machine."""
    if event not in EVENTS:
        return
    target = details[0] if event in ("socket.getaddrinfo", "socket.gethostbyname") else details[1]
    host = target[0] if isinstance(target, tuple) else target
    if isinstance(target, tuple) or event in ("socket.getaddrinfo", "socket.gethostbyname"):
        name = host.decode() if isinstance(host, bytes) else host
        if name and not is_loopback(str(name)):
            raise Offline(f"something asked for {name}, and --offline or {VARIABLE} forbids it; nothing was sent")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    import ipaddress  # here, because every command imports this module

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
