"""An app that a window shows in tests: it draws what is typed, repeats what it is told, and leaves when asked to."""

import json
import os
import sys


def write(kind: bytes, payload: bytes) -> None:
    """One packet of Textual's web driver."""
    os.write(1, kind + len(payload).to_bytes(4, "big") + payload)


def main() -> None:
    os.write(1, b"what a runtime prints\n__GANGLION__\n")
    size = os.environ["COLUMNS"] + "x" + os.environ["ROWS"]
    write(b"D", f"{size} {os.environ['TERM']} {'TMUX' in os.environ}".encode())
    for argument in sys.argv[1:]:
        write(b"M", argument.encode())
    source = sys.stdin.buffer
    while head := source.read(5):
        payload = source.read(int.from_bytes(head[1:], "big"))
        if head[:1] == b"D":
            write(b"D", payload)
        elif (message := json.loads(payload))["type"] == "close":
            return
        elif message["type"] == "blur":
            sys.exit("broken on purpose")
        else:
            write(b"M", json.dumps({"type": "announce", "text": payload.decode()}).encode())


if __name__ == "__main__":
    main()
