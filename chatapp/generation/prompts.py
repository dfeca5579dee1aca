"""Prompts as tokens: of a conversation, a text, or the texts around a gap, with their checks."""

from collections.abc import Sequence

from backends import Session
from chatapp.generation.errors import GenerationError, PromptTooLong
from chatapp.generation.options import OptionError
from chatapp.generation.text import infill
from chatapp.generation.text.chat_template import ChatTemplate, count_beyond
from chatapp.generation.text.infill import Gap, Infill
from chatapp.generation.text.message import Message
from chatapp.generation.text.surroundings import Surroundings
from chatapp.generation.text.thinking import Think
from chatapp.generation.text.tokenizer import Tokenizer

BEYOND = 4
"""Prompts of more than this many contexts are refused without being encoded: no template drops that much."""


class Prompts:
    """The prompts of one model."""

    def __init__(self, session: Session, tokenizer: Tokenizer, chat_template: ChatTemplate | None):
        self.session, self.tokenizer, self.chat_template = session, tokenizer, chat_template
        self.gap: Infill | Gap | None = infill.find_gap(tokenizer) if session.whole_prompts else infill.find(tokenizer)
        """How the model fills gaps, if it can."""
        self.longest_gap = session.context_length
        """Most tokens of a gap's prompt; beyond, what is farthest from the gap is left out."""

    def of_chat(self, messages: Sequence[Message], think: Think | None = None, tools: Sequence[str] = ()) -> list[int]:
        """A conversation's prompt; one many times too long is refused before it is rendered."""
        template = self.check_template()
        self.check_length(messages)
        return template.encode(messages, self.tokenizer, think=think, tools=tools)

    def of_text(self, text: str, *, file_start: bool = False) -> list[int]:
        """A text's prompt, after the file-start token if `file_start`."""
        if not text:
            raise GenerationError("the prompt is empty; give the model some text")
        self.check_length([Message("user", text)])
        if self.session.whole_prompts:
            return self.tokenizer.encode_whole(text)
        if not file_start:
            return self.tokenizer.encode_prompt(text)
        if (mark := infill.find_file_start(self.tokenizer)) is None:
            message = "this model has no token for the start of a file, such as <file_sep>: leave file_start off"
            raise OptionError(message, "file_start")
        return [*self.tokenizer.start, mark, *self.tokenizer.encode(text)]

    def of_gap(
        self, prefix: str, suffix: str, around: Surroundings | None, max_tokens: int
    ) -> tuple[list[int], list[int]]:
        """The prompt for a gap of `max_tokens`, and the tokens taken off its end."""
        gap, length = self.check_gap(), self.session.context_length
        room = min(length - min(max_tokens, length // 2), self.longest_gap)
        prompt = gap.prompt(self.tokenizer, prefix, suffix, room, around)
        self.check(prompt)
        return gap.heal(self.tokenizer, prompt, prefix)

    def check_length(self, messages: Sequence[Message]) -> None:
        """Raise if messages have many times the context's tokens, without counting them all."""
        if found := count_beyond(messages, self.tokenizer, BEYOND * self.session.context_length):
            raise PromptTooLong(found, self.session.context_length, and_more=True)

    def check_template(self) -> ChatTemplate:
        """The chat template; raises if the model has none."""
        if self.chat_template is None:
            raise GenerationError("this model has no chat template: it continues text but cannot chat")
        return self.chat_template

    def check_gap(self) -> Infill | Gap:
        """How the model fills gaps; raises if it cannot."""
        if self.gap is None:
            raise GenerationError(
                "this model cannot fill gaps: its tokenizer has no fill-in-the-middle tokens, such as <extra_id_0>"
            )
        return self.gap

    def check(self, prompt: Sequence[int]) -> None:
        """Raise for a prompt with unknown tokens, or longer than the context."""
        if not prompt:
            raise GenerationError("the prompt is empty: the tokenizer made no tokens of it")
        if max(prompt) >= self.session.vocab_size:
            raise GenerationError(
                f"the tokenizer makes token {max(prompt):,} of this prompt and "
                f"the model knows {self.session.vocab_size:,}: they do not belong together; "
                "use the model's own tokenizer.json"
            )
        if len(prompt) > self.session.context_length:
            raise PromptTooLong(len(prompt), self.session.context_length)


def take_space(tokenizer: Tokenizer, prompt: list[int]) -> tuple[list[int], list[int]]:
    """Split a prompt's trailing white space off; returns both as tokens.

    In training data white space belongs to the token after it; at the end of a prompt, tokens for it would suggest that
    the text ends there.
    """
    end = len(prompt)
    while end > 1 and tokenizer.byte_level and (last := prompt[end - 1]) not in tokenizer.control:
        if tokenizer.content(last).strip():
            break
        end -= 1
    return prompt[:end], prompt[end:]
