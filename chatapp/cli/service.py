"""`chatapp service`: start the server when its user logs in."""

import os
import plistlib
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import note
from chatapp.settings import running
from chatapp.settings.settings import user_folder
from chatapp.text.errors import InputError
from chatapp.text.files import write_whole
from chatapp.text.printable import printable
from chatapp.text.units import size
from chatapp.workspace import Workspace

DETAILS = """\
  install [-- ARGUMENTS]  start `chatapp serve ARGUMENTS` now and at each login
  status                  show whether it is installed and running, and which models are in memory
  remove                  stop it and no longer start it at login

Installs a systemd user unit on Linux, a launchd agent on macOS, a scheduled task on Windows; no administrator rights
needed. The screen, run, complete and lsp then use the models that the server has in memory.
"""
ACTIONS = ("install", "status", "remove")
LABEL = "chatapp.server"
UNIT = "chatapp.service"


@dataclass(frozen=True)
class Service:
    """A service for the system's service manager: its definition file and the commands that control it."""

    path: Path
    """Where the definition belongs."""
    text: str
    start: Sequence[Sequence[str]]
    """Commands to run once the file is written."""
    stop: Sequence[Sequence[str]]
    """Commands to run before it is deleted."""
    encoding: str = "utf-8"


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp service install [-- ARGUMENTS] | status | remove [options]"
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")


def name_words(parser: Parser, given: Namespace, words: list[str]) -> list[str]:
    """Assign the action and the arguments of `chatapp serve` from the words."""
    if not words or words[0] not in ACTIONS:
        parser.error(f"no action given; choose from {', '.join(ACTIONS)}")
    given.action, given.arguments = words[0], words[1:]
    return [] if given.action == "install" else words[1:]


def run(given: Namespace) -> int:
    """Carry out the action."""
    workspace = Workspace()
    check(workspace, given.arguments)
    service = describe(sys.platform, user_folder(), workspace.home, given.arguments)
    if given.action == "status":
        return status(service, workspace)
    if given.dry_run:
        print(f"{printable(str(service.path))}:\n\n{printable(service.text)}")
        for command in service.start if given.action == "install" else service.stop:
            print(printable(" ".join(command)))
        return 0
    if given.action == "install":
        install(service)
    else:
        remove(service)
    return 0


def check(workspace: Workspace, arguments: Sequence[str]) -> None:
    """Refuse arguments that `chatapp serve` would refuse at every start."""
    from chatapp.cli.main import parse
    from chatapp.cli.serve import read_server

    for name in read_server(parse(["serve", *arguments])).models:
        workspace.open_store().get(name)


def describe(platform: str, user: Path, home: Path, arguments: Sequence[str]) -> Service:
    """The service for this platform, serving the models of `home`."""
    command = [sys.executable, "-m", "chatapp", "serve", *arguments]
    if wrong := [word for word in [*command, str(home)] if "\n" in word or "\0" in word]:
        raise InputError(f"{wrong[0]!r} contains a line break, which a service cannot have")
    if platform == "darwin":
        return describe_agent(user, home, command)
    if platform == "win32":
        return describe_task(home, command)
    return describe_unit(user, home, command)


def describe_unit(user: Path, home: Path, command: Sequence[str]) -> Service:
    """A systemd user unit."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or user / ".config") / "systemd" / "user"
    text = f"""\
[Unit]
Description=chatapp serves the models of this machine

[Service]
ExecStart={" ".join(map(quote, command))}
Environment={quote(f"CHATAPP_HOME={home}", variables=False)}
Restart=on-failure
RestartSec=5
TimeoutStopSec=45
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""
    manage = ("systemctl", "--user")
    start = ((*manage, "daemon-reload"), (*manage, "enable", UNIT), (*manage, "restart", UNIT))
    return Service(folder / UNIT, text, start, ((*manage, "disable", "--now", UNIT),))


def quote(word: str, *, variables: bool = True) -> str:
    """A word quoted for systemd; in commands, `$` is escaped too (`variables`)."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\t", "\\t")
    return f'"{word.replace("$", "$$") if variables else word}"'


def describe_agent(user: Path, home: Path, command: Sequence[str]) -> Service:
    """A launchd agent."""
    facts = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "EnvironmentVariables": {"CHATAPP_HOME": str(home)},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": 45,
        "Umask": 0o077,
        "StandardErrorPath": str(home / "server.log"),
    }
    path = user / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{os.getuid() if hasattr(os, 'getuid') else 0}"
    start = (("launchctl", "bootstrap", domain, str(path)),)
    return Service(path, plistlib.dumps(facts).decode(), start, (("launchctl", "bootout", f"{domain}/{LABEL}"),))


def describe_task(home: Path, command: Sequence[str]) -> Service:
    """A task of Windows' scheduler; tasks have no environment, so its program sets CHATAPP_HOME itself."""
    program = command[0].replace("python.exe", "pythonw.exe")  # without a window
    code = f"import os, runpy, sys; os.environ['CHATAPP_HOME'] = {str(home)!r}; sys.argv[1:] = {list(command[3:])!r}"
    words = subprocess.list2cmdline(["-c", f"{code}; runpy.run_module('chatapp', run_name='__main__')"])
    text = f"""\
<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>chatapp serves the models of this machine</Description></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled></LogonTrigger></Triggers>
  <Principals>
    <Principal id="Author"><LogonType>InteractiveToken</LogonType><RunLevel>LeastPrivilege</RunLevel></Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>3</Count></RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec><Command>{escape(program)}</Command><Arguments>{escape(words)}</Arguments></Exec>
  </Actions>
</Task>
"""
    path = home / f"{LABEL}.xml"
    start = (("schtasks", "/Create", "/TN", LABEL, "/XML", str(path), "/F"), ("schtasks", "/Run", "/TN", LABEL))
    stop = (("schtasks", "/End", "/TN", LABEL), ("schtasks", "/Delete", "/TN", LABEL, "/F"))
    return Service(path, text, start, stop, "utf-16")


# Actions


def install(service: Service) -> None:
    """Write the definition and start the service."""
    service.path.parent.mkdir(parents=True, exist_ok=True)
    if service.encoding == "utf-8":
        write_whole(service.path, service.text)
    else:
        service.path.write_text(service.text, service.encoding)
    if problem := run_all(service.start):
        left = " && ".join(" ".join(command) for command in service.start)
        raise InputError(f"{service.path} is written, but the system did not start it ({problem}); run: {left}")
    print(printable(f"{service.path} is installed and the server started"))


def remove(service: Service) -> None:
    """Stop the service and delete its definition."""
    if not service.path.exists():
        raise InputError(f"no service is installed: {service.path} does not exist")
    problem = run_all(service.stop)
    service.path.unlink()
    if problem:
        note(f"Could not stop the server ({problem}); it stops when you log out.")
    print(printable(f"{service.path} is removed"))


def run_all(commands: Sequence[Sequence[str]]) -> str:
    """Run commands until one fails; returns its error, or an empty string."""
    for command in commands:
        if not shutil.which(command[0]):
            return f"{command[0]} not found"
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            return said[0] if said else f"{command[0]} exited with code {done.returncode}"
    return ""


def status(service: Service, workspace: Workspace) -> int:
    """Print whether the service is installed and whether a server runs; returns 1 if none runs."""
    there = service.path.exists()
    print(printable(f"service: {service.path if there else 'not installed'}"))
    found = running.read(workspace.home)
    place = " ".join(filter(None, found.place)) if found else ""
    about = f"process {found.pid}, http://127.0.0.1:{found.port}{place and f', {place}'}" if found else "not running"
    print(printable(f"server: {about}"))
    if models := find_open(found.port) if found else "":
        print(printable(f"in memory: {models}"))
    return 0 if found else 1


def find_open(port: int) -> str:
    """The models that the server at a port has in memory, and their sizes; empty where it wants TLS or a key."""
    from chatapp.remote.address import Remote
    from chatapp.remote.connection import Connection
    from chatapp.remote.errors import RemoteError

    try:
        told = Connection(Remote("chatapp", f"http://127.0.0.1:{port}"), reaching=1.0).ask("/api/ps")
    except RemoteError:
        return ""
    return ", ".join(f"{one['name']} ({size(one['size'])})" for one in told["models"]) or "no model"
