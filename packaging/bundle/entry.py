"""Where the program without a Python begins: as chatapp, or as the Python that chatapp starts for parts of its own."""

import runpy
import sys

OURS = {"backends", "chatapp"}


def main() -> None:
    """Run `-P -m MODULE ...` as a Python would, of our own modules; anything else is for chatapp."""
    words = sys.argv[2:] if sys.argv[1:2] == ["-P"] else sys.argv[1:]
    if words[:1] == ["-m"] and len(words) > 1 and words[1].partition(".")[0] in OURS:
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_module("chatapp", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
