"""Talk with a model line by line."""

import sys
from contextlib import suppress

from chatapp.answer import Form, note, print_answer
from chatapp.errors import one_line
from chatapp.generation import Engine, Message, Options

FENCE = '"""'
HELP = """\
/clear   forget what was said
/bye     leave; so do Ctrl+D, and Ctrl+C where the model is not writing
\"\"\"      begins and ends a text of several lines"""


def talk(engine: Engine, options: Options, form: Form) -> int:
    """Answer every line until the user leaves, and return the exit code."""
    with suppress(ImportError):  # arrow keys and a history, where the system has them
        import readline  # noqa: F401
    note("/? for help, /bye to leave")
    said: list[Message] = []
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
                said = []
            case "/?" | "/help":
                note(HELP)
            case "":
                pass
            case command if command.startswith("/"):
                note(f"Error: there is no command {command.split()[0]}; /? lists them")
            case _:
                said = reply(engine, said, text, options, form)


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


def reply(engine: Engine, said: list[Message], text: str, options: Options, form: Form) -> list[Message]:
    """Print what the model says to `text`, and return the conversation as it stands then."""
    asked = [*said, Message("user", text)]
    try:
        deltas = engine.chat(asked, options) if engine.can_chat else engine.complete(text, options)
        answer = print_answer(engine, deltas, options.n, form)
    except Exception as error:
        if not (message := one_line(error)):
            raise
        note(f"Error: {message}")
        return said
    return [*asked, Message("assistant", answer.completions[0].text)]
