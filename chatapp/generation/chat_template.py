"""Messages in, prompt text out: transformers' Jinja environment, sandboxed, without transformers."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from chatapp.generation.errors import GenerationError
from chatapp.generation.message import Message
from chatapp.generation.tokenizer import Tokenizer, read_json, special_tokens

if TYPE_CHECKING:
    import jinja2

STAND_IN = re.compile("\ue000([0-9]+)\ue001")
"""What stands for a message's text while the template's own text is looked at: private-use characters."""


class ChatTemplate:
    """How a model wants a conversation to be written."""

    def __init__(self, folder: Path):
        """Read a checkpoint's chat_template.jinja, or what its tokenizer_config.json says."""
        self.source = _read(folder)
        self.special = special_tokens(folder)

    def encode(self, messages: Sequence[Message], tokenizer: Tokenizer) -> list[int]:
        """Tokens of the rendered conversation, where only the template can make control tokens.

        The whole text is encoded at once, as transformers does, and that is the result if its control
        tokens are those of the template alone. If not (a message spells one, or the template decides
        by the messages' content), the template's text is encoded around the messages' texts, each of
        them for itself and as plain text; then the template has seen no content, only that there is some.
        """
        template = self.render([_stand_in(place, message) for place, message in enumerate(messages)])
        parts = STAND_IN.split(template)  # text, place of a message, text, ...
        expected = _control(tokenizer.encode_template("".join(parts[::2])), tokenizer)
        tokens = tokenizer.encode_template(self.render(messages))
        if _control(tokens, tokenizer) == expected:
            return tokens
        tokens = []
        for i, part in enumerate(parts):
            plain = i % 2 == 1
            tokens += tokenizer.encode(messages[int(part)].text.strip()) if plain else tokenizer.encode_template(part)
        return tokens

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as text, up to where the model's turn begins."""
        turns = [{"role": message.role, "content": message.text} for message in messages]
        names = {"tools": None, "documents": None, **self.special}
        try:
            return self._template.render(messages=turns, add_generation_prompt=True, **names)
        except Exception as error:  # a template is foreign code, which may fail in any way
            raise GenerationError(f"the model's chat template refuses this conversation: {error}") from error

    @cached_property
    def _template(self) -> "jinja2.Template":
        return _environment().from_string(self.source)


def _read(folder: Path) -> str:
    path = folder / "chat_template.jinja"
    try:
        source = path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, ValueError) as error:
        raise GenerationError(f"cannot read {path}: {error}") from error
    source = source or read_json(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(source, list):  # several, each with its name
        named = {entry["name"]: entry["template"] for entry in source}
        source = named.get("default") or next(iter(named.values()), None)
    if not isinstance(source, str):
        raise GenerationError(f"there is no chat template in {folder}: the model continues text, but cannot converse")
    return source


def _stand_in(place: int, message: Message) -> Message:
    """A message with a mark for its text, in the same white space, for templates that strip it."""
    text = message.text.strip()
    return Message(message.role, message.text.replace(text, f"\ue000{place}\ue001", 1) if text else message.text)


def _control(tokens: list[int], tokenizer: Tokenizer) -> list[int]:
    return [token for token in tokens if token in tokenizer.control]


def _environment() -> "jinja2.Environment":
    """The names and filters that chat templates are written for (transformers, utils/chat_template_utils.py)."""
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %} marks the assistant's words for training; here it is only its body."""

        tags = {"generation"}

        def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, **options: Any) -> str:  # Any: whatever a template holds
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    def strftime_now(form: str) -> str:
        return datetime.now().strftime(form)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    return environment
