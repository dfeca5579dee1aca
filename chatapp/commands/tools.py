"""/tools: which tool servers a conversation uses, what they offer, and which tools run without asking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backends.suggest import suggest
from chatapp.commands.commands import Act, Command
from chatapp.text.errors import InputError

if TYPE_CHECKING:
    from chatapp.commands.run import View
    from chatapp.conversation import Dialogue
    from chatapp.conversation.tools.toolset import Tool

NONE = "No MCP servers in settings.toml; to add one: chatapp mcp add NAME COMMAND..."
USAGE = "use /tools, /tools on [SERVER], /tools off [SERVER], /tools allow TOOL or /tools ask"


def read_tools(rest: str) -> Command:
    """Parse the arguments of /tools."""
    said, *names = rest.split() or ["list"]
    word = said.lower()
    acts: dict[str, Act] = {"list": show, "on": begin, "off": end, "allow": allow, "ask": ask}
    if word not in acts:
        raise InputError(f"there is no /tools {said}; {suggest(word, acts, USAGE)}")
    if (word == "allow") != bool(names) and word in ("allow", "ask", "list"):
        raise InputError(USAGE)
    return Command(acts[word], (names,) if word in ("on", "off", "allow") else ())


def show(view: View) -> None:
    """Show the servers, and the tools of those in use."""
    view.show_text("Tools", describe(view))


def describe(view: View) -> str:
    """The configured servers, and the tools already listed by those in use."""
    from chatapp.conversation.tools.http import leaves

    toolset, used = view.find_tools(), view.dialogue.setup.tools
    lines = list[str]()
    for server in toolset.servers().values():
        away = leaves(server)
        state = ("on" if server.name in used else "off") + (f"; text goes to {away}" if away else "")
        lines.append(f"{server.name}  {state}  {server.place}")
        if server.name in used:
            tools = [one for one in toolset.offered if one.server == server]
            lines += [f"  {one.name}: {describe_tool(one, allowed=toolset.is_allowed(one))}" for one in tools]
    return "\n".join(lines) or NONE


def find_destinations(dialogue: Dialogue) -> str:
    """The other machines that the conversation's tool calls send text to."""
    from chatapp.conversation.tools.http import leaves

    known = dialogue.toolset.servers() if dialogue.toolset else {}
    used = [known[name] for name in dialogue.setup.tools if name in known]
    return ", ".join(dict.fromkeys(filter(None, map(leaves, used))))


def describe_tool(tool: Tool, *, allowed: bool) -> str:
    """What a tool does, and whether it runs without asking."""
    does = " ".join((tool.function.description or "").split())
    return f"{'runs without asking' if allowed else 'asks before each call'}{'; ' + does[:100] if does else ''}"


def begin(view: View, names: Sequence[str]) -> None:
    """Use these servers, or all of them, in the conversation; starts them and shows their tools."""
    if not view.engine.knows_tools:
        raise InputError(f"{view.model} cannot call tools: its chat template lacks them; choose another model")
    toolset = view.find_tools()
    wanted = [one.name for one in toolset.find_servers(names)]
    if not wanted:
        raise InputError(NONE)
    dialogue = view.dialogue
    dialogue.change(replace(dialogue.setup, tools=tuple(dict.fromkeys([*dialogue.setup.tools, *wanted]))))
    toolset.retry_failed()

    def look() -> str:
        offered, away = toolset.look(dialogue.setup.tools), find_destinations(dialogue)
        listed = ", ".join(one.name for one in offered)
        told = f"{len(offered)} tool{'s' * (len(offered) != 1)}: {listed}." if listed else "No tools."
        return f"{told} Text goes to {away} with each call." if away else told

    view.work(look)


def end(view: View, names: Sequence[str]) -> None:
    """Stop using these servers, or any."""
    used = view.dialogue.setup.tools
    if unknown := [name for name in names if name not in used]:
        raise InputError(f"this conversation does not use {unknown[0]!r}; {suggest(unknown[0], used, 'see /tools')}")
    gone = names or used
    view.dialogue.change(replace(view.dialogue.setup, tools=tuple(name for name in used if name not in gone)))
    view.find_tools().close(gone)
    view.say(f"{', '.join(gone)}: off." if gone else "This conversation uses no tools.")


def allow(view: View, names: Sequence[str]) -> None:
    """Let tools run without asking in this conversation."""
    toolset = view.find_tools()
    for name in names:
        if (tool := toolset.find(name)) is None:
            known = [one.name for one in toolset.offered]
            raise InputError(f"there is no tool {name!r} here; {suggest(name, known, '/tools on lists them')}")
        toolset.allow(tool)
    view.say(f"{', '.join(names)}: runs without asking in this conversation.")


def ask(view: View) -> None:
    """Ask again before each call."""
    view.find_tools().forget()
    view.say("You are asked before each call again.")
