"""A tool server at a URL: bounded answers, no redirects, and only the key meant for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chatapp.conversation.tools import ToolError
from chatapp.conversation.tools.flow import Flow
from chatapp.remote.address import Remote, check_online, parse_url
from chatapp.remote.errors import RemoteError
from chatapp.settings.tool_servers import ToolServer

if TYPE_CHECKING:
    import httpx2

REACHING = 10.0
"""Seconds to connect."""
STALL = 300.0
"""Seconds without a byte; the time limit of a whole call is in `connection.py`."""


def find_remote(server: ToolServer) -> Remote:
    """The address of a server; ToolError if it is invalid."""
    try:
        return Remote(server.name, parse_url(server.url))
    except RemoteError as error:
        raise ToolError(f"{server.name}: {error}") from error


def leaves(server: ToolServer) -> str:
    """The machine that calls are sent to; empty if they stay on this one."""
    return find_remote(server).elsewhere if server.url else ""


def open_client(server: ToolServer, flow: Flow) -> httpx2.AsyncClient:
    """An HTTP client for a server; refused if it is on another machine and chatapp is offline."""
    import httpx2

    from chatapp.conversation.tools.bounded import Bounded

    remote = find_remote(server)
    check_online(remote)
    headers = {"User-Agent": "chatapp", "Accept-Encoding": "identity"}
    if server.key_variable:
        if not (key := os.environ.get(server.key_variable, "").strip()):
            raise ToolError(f"the key of {server.name} should be in {server.key_variable}, which is not set")
        remote.refuse_readable_key()
        headers["Authorization"] = f"Bearer {key}"

    return httpx2.AsyncClient(
        headers=headers,
        timeout=httpx2.Timeout(STALL, connect=REACHING),
        follow_redirects=False,
        trust_env=False,
        transport=Bounded(flow, verify=httpx2.create_ssl_context() if remote.is_encrypted else False),
    )
