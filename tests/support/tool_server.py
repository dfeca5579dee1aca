"""A server of tools written with the protocol's own package: over standard input and output, or on a socket."""

import os
import socket
import sys
import time

import uvicorn
from mcp.server.mcpserver import MCPServer


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def variables() -> list[str]:
    """The names of all variables of the environment."""
    return sorted(os.environ)


def fail() -> str:
    """Fail."""
    raise ValueError("it does not work today")


def flood() -> str:
    """Say very much."""
    return "x" * 6_000_000


def hang() -> str:
    """Take very long."""
    time.sleep(1000)
    return ""


def die() -> str:
    """End with an error."""
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    app = MCPServer("demo")
    for tool in (add, variables, fail, flood, hang, die):
        app.add_tool(tool)
    if len(sys.argv) > 1:
        listening = socket.socket(fileno=int(sys.argv[1]))
        uvicorn.Server(uvicorn.Config(app.streamable_http_app(), log_level="error")).run([listening])
    else:
        app.run("stdio")
