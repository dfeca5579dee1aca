"""python -m chatapp"""

import sys

if __name__ == "__main__":
    if sys.argv[1:] == ["--render-templates"]:  # a program without a Python beside it starts itself: rendering.FLAG
        from chatapp.generation.text.sandbox import serve

        serve(sys.stdin.buffer)
    else:
        from chatapp.cli.main import start

        sys.exit(start())
