"""`chatapp mcp`: add, list and remove tool servers, and list their tools."""

import json
import shutil
from argparse import Namespace
from typing import Any

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import note, print_json, warn
from chatapp.settings import tool_servers
from chatapp.settings.tool_servers import ToolServer, ToolServerError
from chatapp.text.errors import InputError, UsageError, UserError
from chatapp.text.files import read_input
from chatapp.text.printable import printable
from chatapp.text.units import table
from chatapp.workspace import Workspace

DETAILS = """\
  add NAME [--] COMMAND...  add a program, which starts when a conversation uses it
  add NAME URL              add a server at a streamable HTTP address
  import FILE               add the servers of an mcp.json of Claude Desktop, LM Studio, Cursor or VS Code
  list                      list the servers, without starting any
  tools [NAME]              start the servers and list their tools
  remove NAME               remove a server

Servers speak the Model Context Protocol (MCP). They are saved as tables [mcp.NAME] in settings.toml.
/tools on NAME lets a conversation use one, if the model's chat template supports tools. You are asked before each call.

A program gets only PATH, HOME and the like from the environment, and the variables of --env and --pass.
It runs with your rights and may use the network, even with --offline. Put its own options after --:
chatapp mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/papers
"""
ACTIONS = ("add", "import", "list", "tools", "remove")
SHOWN = 100
"""Characters of a description in the list."""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp mcp add NAME [--] COMMAND | add NAME URL | import FILE | list | tools [NAME] | remove NAME"
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS)
    parser.set_defaults(option_hint="; put the program's own options after --")
    group = parser.add_argument_group("options of add")
    group.add_argument("--env", metavar="NAME=VALUE", action="append", help="set a variable; repeatable")
    group.add_argument("--pass", dest="passed", metavar="NAME", action="append", help="pass a variable; repeatable")
    group.add_argument("--key-variable", metavar="NAME", help="the environment variable that holds the key")
    group.add_argument("--tool", dest="tools", metavar="NAME", action="append", help="use only this tool; repeatable")
    group.add_argument("--seconds", metavar="N", type=float, help="time limit of a call (default: 60)")
    parser.add_argument("--json", action="store_true", help="print JSON (list and tools)")


def name_words(parser: Parser, given: Namespace, words: list[str]) -> list[str]:
    """Assign the name, and the command or URL, from the words; returns the surplus."""
    given.name, given.place = (words[0] if words else ""), words[1:]
    return [] if given.action == "add" else words[1:] if given.action != "list" else words


def run(given: Namespace) -> int:
    """Carry out the action."""
    workspace = Workspace()
    settings = workspace.home / "settings.toml"
    match given.action:
        case "list":
            list_servers(workspace, as_json=given.json)
        case "tools":
            return list_tools(workspace, given.name, as_json=given.json)
        case "import":
            return import_servers(workspace, given.name)
        case _ if not given.name:
            raise UsageError(f"no server given; run: chatapp mcp {given.action} NAME")
        case "remove":
            workspace.read_settings()  # raises for invalid settings before the file is changed
            tool_servers.remove(settings, given.name)
            print(printable(f"Removed {given.name}"))
        case "add":
            add_server(workspace, read_server(given))
    return 0


def read_server(given: Namespace) -> ToolServer:
    """The tool server that the arguments describe."""
    name, place = given.name, given.place
    if not place:
        raise UsageError(
            f"no command or URL given; run: chatapp mcp add {name} COMMAND... or chatapp mcp add {name} http://HOST/mcp"
        )
    at = "://" in place[0]
    if at and place[1:]:
        raise UsageError(f"unexpected argument {place[1]!r} after the URL")
    pairs = [pair.partition("=") for pair in given.env or ()]
    if wrong := next((name for name, equals, _ in pairs if not equals), ""):
        raise UsageError(f"--env {wrong} has no value; write --env {wrong}=VALUE, or --pass {wrong} to pass your own")
    lines = {
        "url" if at else "command": place[0] if at else place,
        "env": {variable: value for variable, _, value in pairs},
        "pass": given.passed,
        "key_variable": given.key_variable,
        "tools": given.tools,
        "seconds": given.seconds,
    }
    written = {line: value for line, value in lines.items() if value not in (None, {})}
    return tool_servers.read({name: written}, "settings.toml")[name]


def import_servers(workspace: Workspace, file: str) -> int:
    """Keep the servers of another program's file, each whole or not at all; 1 where one cannot be."""
    if not file:
        raise UsageError("no file given; run: chatapp mcp import mcp.json")
    try:
        content = json.loads(read_input(file))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not valid JSON ({error})") from error
    found = content.get("mcpServers", content.get("servers")) if isinstance(content, dict) else None
    if not isinstance(found, dict):
        raise InputError(f"{file} has no MCP servers: neither mcpServers nor servers is there")
    wrong = 0
    for name, one in found.items():
        try:
            add_server(workspace, tool_servers.read({name: translate(one, f"{name} in {file}")}, file)[name])
        except UserError as error:
            note(f"Error: {error}")
            wrong = 1
    return wrong


def translate(one: Any, where: str) -> Any:  # Any: JSON
    """A server as other programs describe it, by our names; what is none is left to be refused."""
    if not isinstance(one, dict) or not isinstance(one.get("args", []), list):
        return one
    if kept := [field for field in ("headers", "cwd") if one.get(field)]:
        raise ToolServerError(f"{where} has {kept[0]}, which chatapp lacks; use mcp add, and --key-variable for a key")
    if "${" in json.dumps(one):
        raise ToolServerError(f"{where} has a placeholder (${{...}}); write its value, or use chatapp mcp add --pass")
    if left := [field for field in one if field not in ("command", "args", "env", "url", "type")]:
        note(f"{where}: {', '.join(left)} left out")
    lines = {"command": [one["command"], *one.get("args", [])]} if "command" in one else {}
    return lines | {line: one[line] for line in ("url", "env") if one.get(line)}


def add_server(workspace: Workspace, server: ToolServer) -> None:
    """Save a server; it is not started."""
    from chatapp.conversation.tools.http import find_remote, leaves

    elsewhere = leaves(server)
    if server.key_variable:
        find_remote(server).refuse_readable_key()
    workspace.read_settings()  # raises for invalid settings before the file is changed
    tool_servers.add(workspace.home / "settings.toml", server)
    if server.command and not shutil.which(server.command[0]):
        warn(f"program {server.command[0]!r} not found")
    print(printable(f"{server.name} is {server.place}; /tools on {server.name} enables it in a conversation"))
    if elsewhere:
        note(f"Arguments of its tools go to {elsewhere}.")


def list_servers(workspace: Workspace, *, as_json: bool) -> None:
    """Print the servers in the settings."""
    from chatapp.conversation.tools.http import leaves

    servers = workspace.read_settings().mcp.values()
    if as_json:
        return print_json([{**vars(one), "env": dict(one.env), "leaves": bool(leaves(one))} for one in servers])
    if not servers:
        return note("No MCP servers yet; to add one: chatapp mcp add NAME COMMAND...")
    rows = [(one.name, f"goes to {away}" if (away := leaves(one)) else "stays here", one.place) for one in servers]
    print(printable(table(("NAME", "TEXT", "COMMAND OR ADDRESS"), rows)))


def list_tools(workspace: Workspace, name: str, *, as_json: bool) -> int:
    """Start servers and print their tools; returns 1 if one failed."""
    troubles = list[str]()

    def keep(text: str) -> None:
        troubles.append(text)
        warn(text)

    toolset = workspace.open_tools(keep)
    servers = toolset.find_servers([name] if name else [])
    if not servers:
        note("No MCP servers yet; to add one: chatapp mcp add NAME COMMAND...")
    tools = toolset.look([one.name for one in servers])
    if as_json:
        print_json([{"server": one.server.name, **one.function.describe()["function"]} for one in tools])
    elif tools:
        rows = [(one.server.name, one.name, first_line(one.function.description or "")) for one in tools]
        print(printable(table(("SERVER", "TOOL", "DOES"), rows)))
    return 1 if troubles else 0


def first_line(text: str) -> str:
    """The first line of a description, shortened."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"{line[: SHOWN - 1]}…" if len(line) > SHOWN else line
