"""What processes asked of the system, by strace: whom they reached, and what they wrote."""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

CALLS = (
    "connect,bind,sendto,sendmsg,sendmmsg,open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,"
    "symlink,symlinkat,truncate"
)
RESOLVER = "/etc/resolv.conf"
"""Read by whoever is about to ask for the address of a name."""
ADDRESS = re.compile(r"sa_family=AF_INET6?, sin6?_port=htons\((\d+)\).*?\"([0-9a-fA-F.:]+)\"")
OPENED = re.compile(r"open(?:at)?\((?:AT_FDCWD|\d+)?(?:<([^>]*)>, )?\"([^\"]*)\", ([A-Z_|]+)")
MADE = re.compile(r"(creat|mkdir|mkdirat|rename\w*|link\w*|symlink\w*|truncate)\(")
PLACE = re.compile(r"(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?\"([^\"]*)\"")


def strace(folder: Path) -> list[str]:
    """The words before a command whose calls, and those of the processes it starts, are to be written to `folder`."""
    assert shutil.which("strace"), "strace is not installed, and these tests read what it tells: apt-get install strace"
    folder.mkdir(parents=True)
    told = ["-ff", "-qq", "-y", "--seccomp-bpf", "-e", "signal=none", "-e", f"trace={CALLS}"]
    return ["strace", *told, "-o", str(folder / "calls"), "--"]


def read(folder: Path) -> list[str]:
    """All calls that `strace` has written to `folder`."""
    return [line for path in sorted(folder.iterdir()) for line in path.read_text(errors="replace").splitlines()]


def reached(calls: Iterable[str]) -> set[str]:
    """The addresses, as host:port, that calls reached for, and the list of name servers where that was read."""
    found = set()
    for call in calls:
        if call.startswith(("connect(", "bind(", "send")) and (address := ADDRESS.search(call)):
            found.add(f"{address[2]}:{address[1]}")
        elif (opened := OPENED.match(call)) and opened[2] == RESOLVER:
            found.add(RESOLVER)
    return found


def written(calls: Iterable[str]) -> set[Path]:
    """The files and folders that calls made or opened to write to them."""
    found = set()
    for call in calls:
        if re.search(r"\) += -1 ", call):
            continue
        if opened := OPENED.match(call):
            if re.search("O_WRONLY|O_RDWR|O_CREAT", opened[3]):
                found.add(Path(opened[1] or "", opened[2]))
        elif MADE.match(call):
            folder, name = PLACE.findall(call)[-1]
            found.add(Path(folder, name))
    return found
