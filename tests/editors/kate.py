"""Kate under Xvfb: the list appears while one types, and Return takes its first entry."""

import argparse
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from editors.sample import BEFORE, BEYOND, CALL, REST

SETTINGS = """\
[lspclient]
AllowedServerCommandLines={chatapp} lsp

[Kate Plugins]
lspclientplugin=true
"""
"""Kate asks before it starts a server; here it has been answered, and the plug-in is on."""
KEYS = """\
kate -n "$1" & sleep 8
xdotool windowfocus "$(xdotool search --onlyvisible --name words.py | tail -1)"; sleep 1
xdotool key ctrl+End type --delay 120 {call}; sleep 8  # until the model is open
xdotool key BackSpace type r; sleep 3
import -window root "$2"
xdotool key Return; sleep 1; xdotool key ctrl+s; sleep 2
"""


def main() -> None:
    """Give a Kate of its own the configuration, and drive it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chatapp", type=Path, default=shutil.which("chatapp"), help="the command to be tried")
    parser.add_argument("--prefix", default="", help="what comes before every command, such as chroot FOLDER")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for what the editor writes")
    given = parser.parse_args()
    work = given.work.resolve()
    (work / ".config").mkdir(parents=True)
    environment = os.environ | {"HOME": str(work), "LANG": "C.UTF-8"}
    subprocess.run([given.chatapp, "editor", "kate", "--write"], check=True, env=environment)
    (work / ".config/katerc").write_text(SETTINGS.format(chatapp=given.chatapp))
    file = work / "words.py"
    file.write_text(BEFORE + BEYOND)
    script = work / "keys.sh"
    script.write_text(KEYS.format(call=CALL))
    command = ["dbus-run-session", "--", "xvfb-run", "-a", "-s", "-screen 0 620x340x24", "bash", script, file]
    command = [*shlex.split(given.prefix), *command, work / "list.png"]
    subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, timeout=120)
    last = file.read_text().rstrip("\n").split("\n")[-1]
    print("taken:", repr(last), "picture:", work / "list.png")
    assert last == BEYOND + CALL + REST


if __name__ == "__main__":
    main()
