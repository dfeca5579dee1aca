"""Stand between an editor and `chatapp lsp`, and write down what they say to each other.

python -m editors.record FILE FOLDER COMMAND... writes a line of JSON for each message: who said it, after how many
seconds, and what; a drill adds the text that its editor has in the end. FOLDER, where the drill works, becomes /drill
in it, and no other path of the machine stays.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

LOCK = threading.Lock()


def main() -> None:
    """Run the command, and pass on and write down both streams."""
    file, folder, *command = sys.argv[1:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin and server.stdout
    start = time.monotonic()
    with open(file, "a", encoding="utf-8") as out:

        def write(who: str, message: bytes) -> None:
            entry = {"from": who, "after": round(time.monotonic() - start, 2), "message": clean(json.loads(message))}
            with LOCK:
                out.write(json.dumps(entry, ensure_ascii=False).replace(folder, "/drill") + "\n")
                out.flush()

        def pass_on(who: str, source: IO[bytes], target: IO[bytes]) -> None:
            while message := read_message(source):
                write(who, message)
                target.write(b"Content-Length: %d\r\n\r\n%b" % (len(message), message))
                target.flush()

        editor = threading.Thread(target=pass_on, args=("editor", sys.stdin.buffer, server.stdin), daemon=True)
        editor.start()
        pass_on("server", server.stdout, sys.stdout.buffer)
    raise SystemExit(server.wait())


def read_message(source: IO[bytes]) -> bytes:
    """The next message; nothing at the end."""
    length = 0
    while header := source.readline().strip():
        if header.lower().startswith(b"content-length:"):
            length = int(header.partition(b":")[2])
    return source.read(length)


def clean(message: dict[str, Any]) -> dict[str, Any]:
    """A message without the number of the editor's process, which a replay would wait for."""
    if message.get("method") == "initialize":
        message["params"]["processId"] = None
    return message


def make_command(work: Path, chatapp: Path, record: Path | None) -> Path:
    """The command that a drill tries: chatapp itself, or a script that has it recorded."""
    if not record:
        return chatapp
    script = work / "bin/chatapp"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\n[ "$2" = --help ] && exec {chatapp} "$@"\n'
        f"PYTHONPATH={Path(__file__).parents[1]} exec {sys.executable} -m editors.record"
        f' {record.absolute()} {work} {chatapp} "$@"\n'
    )
    script.chmod(0o755)
    record.unlink(missing_ok=True)
    return script


def end_record(record: Path | None, file: Path) -> None:
    """Add, as a last line, the text that the editor has in the end."""
    if record:
        with open(record, "a", encoding="utf-8") as out:
            out.write(json.dumps({"from": "drill", "text": file.read_text()}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
