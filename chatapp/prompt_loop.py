"""Talk with a model line by line."""

import sys
from contextlib import suppress

from chatapp.answer import Form, note, print_answer
from chatapp.dialogue import Dialogue
from chatapp.errors import one_line

FENCE = '"""'
HELP = """\
/clear   begin another conversation
/bye     leave; so do Ctrl+D, and Ctrl+C where the model is not writing
\"\"\"      begins and ends a text of several lines"""


def talk(dialogue: Dialogue, form: Form) -> int:
    """Answer every line until the user leaves, and return the exit code."""
    with suppress(ImportError):  # arrow keys and a history, where the system has them
        import readline  # noqa: F401
    note("/? for help, /bye to leave")
    while True:
        try:
            text = read()
        except EOFError:
            print()
            return 0
        except KeyboardInterrupt:
            print()
            return 130
        match text.strip():
            case "/bye":
                return 0
            case "/clear":
                dialogue.begin_anew()
            case "/?" | "/help":
                note(HELP)
            case "":
                pass
            case command if command.startswith("/"):
                note(f"Error: there is no command {command.split()[0]}; /? lists them")
            case _:
                reply(dialogue, text, form)


def read() -> str:
    """A line, or the lines between two fences."""
    text = ask(">>> ")
    if not text.startswith(FENCE):
        return text
    text = text.removeprefix(FENCE)
    while not text.endswith(FENCE):
        text += "\n" + ask("... ")
    return text.removesuffix(FENCE)


def ask(mark: str) -> str:
    """A line of input after `mark`, which is no part of the output where that goes to a file."""
    if sys.stdout.isatty():
        return input(mark)
    sys.stderr.write(mark)
    sys.stderr.flush()
    return input()


def reply(dialogue: Dialogue, text: str, form: Form) -> None:
    """Print what the model says to `text`."""
    try:
        print_answer(dialogue.engine, dialogue.ask(text), dialogue.options.n, form)
    except Exception as error:
        if not (message := one_line(error)):
            raise
        note(f"Error: {message}")
