"""No test reaches the network: connections other than to this machine, and name lookups, are refused."""

import socket
from typing import Any

LOCAL = ("127.", "::1", "localhost")


class NetworkUsed(Exception):
    """Something tried to reach another machine."""


def refuse() -> None:
    """Refuse the network in this process, from now on."""
    connect, connect_ex, lookup = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(host: object) -> None:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if host is not None and not name.startswith(LOCAL):
            raise NetworkUsed(f"a connection to {name}")

    def checked_connect(self: socket.socket, address: Any) -> None:  # Any: each family has its own form
        if isinstance(address, tuple):
            check(address[0])
        connect(self, address)

    def checked_connect_ex(self: socket.socket, address: Any) -> int:  # Any: as above
        if isinstance(address, tuple):
            check(address[0])
        return connect_ex(self, address)

    def checked_lookup(host: Any, *rest: Any, **options: Any) -> Any:  # Any: handed on as they are
        check(host)
        return lookup(host, *rest, **options)

    for name, checked in (("connect", checked_connect), ("connect_ex", checked_connect_ex)):
        setattr(socket.socket, name, checked)
    setattr(socket, "getaddrinfo", checked_lookup)  # noqa: B010  # mypy refuses the plain assignment
