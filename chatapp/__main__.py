"""python -m chatapp, and the command chatapp."""

import sys


def start() -> int:
    """Run the command line; Ctrl+C also exits quietly while modules are still being imported."""
    try:
        from chatapp.cli import main

        return main.start()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    if sys.argv[1:] == ["--render-templates"]:  # a frozen build starts itself to render templates: rendering.FLAG
        from chatapp.generation.text.sandbox import serve

        serve(sys.stdin.buffer)
    else:
        sys.exit(start())
