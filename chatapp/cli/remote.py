"""`chatapp remote`: add, list and remove model servers."""

import getpass
from argparse import Namespace
from collections.abc import Callable

from chatapp.cli.arguments import Parser, read_secret
from chatapp.cli.printing import note, print_json
from chatapp.text.errors import UsageError
from chatapp.text.printable import printable
from chatapp.text.units import table
from chatapp.workspace import Workspace

DETAILS = """\
  add NAME URL   save a server under a name, after asking it for its protocol and models
  list           list the saved servers, without contacting any
  rm NAME        remove a server and its key

A server is another chatapp, vLLM, OVMS, llama-server, LM Studio, Ollama, or one with KServe's protocol such as Triton.
Use MODEL@NAME wherever a model is named; @NAME is the server's first model.

A key is read without echo, or from standard input, and saved in a file that only you can read; with --key-variable it
stays in the environment. Redirects are not followed, and text is sent only when you send it.
"""
ACTIONS = ("add", "list", "rm")


def add(parser: Parser) -> None:
    """Add the arguments."""
    from chatapp.remote.remotes import PROTOCOLS

    parser.usage = "chatapp remote add NAME URL | list | rm NAME [options]"
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS)
    parser.add_argument("name", metavar="NAME", nargs="?")
    parser.add_argument("url", metavar="URL", nargs="?")
    group = parser.add_argument_group("options of add")
    group.add_argument("--protocol", choices=PROTOCOLS, help="(default: detected)")
    group.add_argument("--model", metavar="NAME", dest="models", action="append", help="only this one; repeatable")
    group.add_argument("--context", metavar="N", type=int, help="context length, if the server does not report it")
    key = group.add_mutually_exclusive_group()
    key.add_argument("--key", action="store_true", help="prompt for a key, or read it from standard input")
    key.add_argument("--key-variable", metavar="NAME", help="the environment variable that holds the key")
    parser.add_argument("--json", action="store_true", help="print JSON (list)")


def run(given: Namespace, read: Callable[[str], str] = getpass.getpass) -> None:
    """Carry out the action."""
    from chatapp.remote import remotes

    workspace = Workspace()
    if extra := given.name if given.action == "list" else given.url if given.action == "rm" else None:
        raise UsageError(f"unexpected argument {extra!r}")
    if given.action == "list":
        list_servers(workspace, as_json=given.json)
    elif not given.name:
        raise UsageError(f"no server given; run: chatapp remote {given.action} NAME")
    elif given.action == "rm":
        remotes.remove(workspace.home, given.name)
        print(printable(f"Removed {given.name}"))
    else:
        add_server(workspace, given, read)


def add_server(workspace: Workspace, given: Namespace, read: Callable[[str], str]) -> None:
    """Ask a server for its protocol and models, and save it under its name."""
    from chatapp.remote import opening, remotes
    from chatapp.remote.address import NAME, Remote, parse_url

    if not given.url:
        raise UsageError(f"no URL given; run: chatapp remote add {given.name} http://HOST:PORT")
    if not NAME.fullmatch(given.name):
        raise UsageError(f"invalid name {given.name!r}; use up to 40 letters, digits, dots, - and _")
    remote = Remote(
        given.name,
        parse_url(given.url),
        given.protocol or "",
        tuple(given.models or ()),
        given.key_variable or "",
        given.context or 0,
    )
    key = read_secret("key", read) if given.key else ""
    if key:
        remote.refuse_readable_key()
    found = opening.look_at(workspace.home, remote, key)
    remotes.add(workspace.home, found, key)
    listed = ", ".join(found.models[:5]) or f"it lists none; use MODEL@{found.name}"
    print(printable(f"{found.name} is {found.url}; its models ({len(found.models)}): {listed}"))
    if found.elsewhere:
        note(f"Text for MODEL@{found.name} goes to {found.elsewhere}.")


def list_servers(workspace: Workspace, *, as_json: bool) -> None:
    """Print the saved servers."""
    servers = workspace.read_remotes()
    if as_json:
        return print_json([{**vars(one), "models": list(one.models), "leaves": not one.is_here} for one in servers])
    if not servers:
        return note("No servers yet; to add one: chatapp remote add NAME URL")
    rows = [
        (one.name, one.url, one.protocol, "stays here" if one.is_here else f"goes to {one.host}", ", ".join(one.models))
        for one in servers
    ]
    print(printable(table(("NAME", "ADDRESS", "PROTOCOL", "TEXT", "MODELS"), rows)))
