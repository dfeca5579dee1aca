"""Messages in, prompt text out: the template of the model's publisher, in a sandbox."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.generation.errors import GenerationError
from chatapp.generation.message import Message
from chatapp.generation.tokenizer import Tokenizer
from model_store.chat_template import chat_template
from model_store.special_tokens import special_tokens

if TYPE_CHECKING:
    import jinja2

    from chatapp.generation.sandbox import Sandbox

STAND_IN = re.compile("\ue000([0-9]+)\ue001")
"""What stands for a message's text while the template's own text is looked at: private-use characters."""


class ChatTemplate:
    """How a model wants a conversation to be written."""

    def __init__(self, folder: Path):
        """Read the template of the checkpoint in `folder`."""
        source = chat_template(folder)
        if source is None:
            raise GenerationError(
                f"there is no chat template in {folder}: the model continues text, but cannot converse"
            )
        self.source = source
        self.special = special_tokens(folder)

    def encode(self, messages: Sequence[Message], tokenizer: Tokenizer) -> list[int]:
        """Tokens of the rendered conversation, where only the template can make control tokens.

        Where a message spells one, marks are put into its spelling before the template sees it. The control tokens
        must then be those of the template alone, rendered without the messages' texts. If they are not (it changes
        letters, or decides by the content), the texts are put into that rendering: then the template has seen no
        content, only that there is some.
        """
        frame = self.render([_stand_in(place, message) for place, message in enumerate(messages)])
        parts = STAND_IN.split(frame)  # text, place of a message, text, ...
        expected = _control(tokenizer.encode_template("".join(parts[::2])), tokenizer)
        tokens = tokenizer.encode_template(self.render([_guarded(message, tokenizer) for message in messages]))
        if _control(tokens, tokenizer) == expected:
            return tokens
        for i in range(1, len(parts), 2):
            parts[i] = tokenizer.guard(messages[int(parts[i])].text.strip(), tokenizer.control)
        return tokenizer.encode_template("".join(parts))

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as text, up to where the model's turn begins."""
        turns = [{"role": message.role, "content": message.text} for message in messages]
        names = {"tools": None, "documents": None, **self.special}
        try:
            sandbox, template = self._compiled
            return sandbox.render(template, messages=turns, add_generation_prompt=True, **names)
        except Exception as error:  # a template is foreign code, which may fail in any way
            raise GenerationError(f"the model's chat template refuses this conversation: {error}") from error

    @cached_property
    def _compiled(self) -> "tuple[Sandbox, jinja2.Template]":
        from chatapp.generation.sandbox import Sandbox

        sandbox = Sandbox()
        return sandbox, sandbox.from_string(self.source)


def _guarded(message: Message, tokenizer: Tokenizer) -> Message:
    """A message that spells no control token; an assistant's <think> and <tool_call> are its own, and stay."""
    forbidden = tokenizer.hidden if message.role == "assistant" else tokenizer.control
    return Message(message.role, tokenizer.guard(message.text, forbidden))


def _stand_in(place: int, message: Message) -> Message:
    """A message with a mark for its text, in the same white space, for templates that strip it."""
    text = message.text.strip()
    return Message(message.role, message.text.replace(text, f"\ue000{place}\ue001", 1) if text else message.text)


def _control(tokens: list[int], tokenizer: Tokenizer) -> list[int]:
    return [token for token in tokens if token in tokenizer.control - tokenizer.unknown]
