"""Refusals: a status, a message for the user, and the option to blame."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Mapping, Sequence

from backends.errors import UserError
from chatapp.generation import GenerationError, OptionError, PromptTooLong
from chatapp.text.errors import describe_defect, one_line
from model_store import ModelNotFound

PATH = re.compile(r"(?<![\w.:/])(?!/(?:v1|v2|api|chat)/)(?:~|[A-Za-z]:)?[\\/](?:[^\\/\s'\"]+[\\/])+(?=[^\\/\s'\"]*)")
"""The folders of an absolute path, unless it is one of the server's own URL paths."""
UNPROCESSABLE, BUSY, UNAVAILABLE = 422, 429, 503


class Refusal(UserError):
    """A request that is refused, with an HTTP status."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry_after: int = 0
    ):
        """`param` names the option to blame; `retry_after` is the number of seconds before retrying makes sense."""
        super().__init__(without_folders(message))
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after

    @property
    def message(self) -> str:
        """What happened, and what to do."""
        return str(self)

    def spell(self, raw: bytes) -> Refusal:
        """The same refusal, calling the option by the name used in the request's body."""
        name = self.param or ""
        other = next((one for one in OTHER_NAMES.get(name, ()) if f'"{one}"'.encode() in raw), name)
        message = re.sub(rf"\b{name}\b", other, str(self), count=1) if other != name else str(self)
        return Refusal(self.status, message, param=other or None, code=self.code, retry_after=self.retry_after)


def unknown_model(name: str, hint: str) -> Refusal:
    """The refusal of an unknown model name."""
    shown = name if len(name) <= 100 else f"{name[:100]}..."
    return Refusal(404, f"there is no model {shown!r}; {hint}", param="model", code="model_not_found")


def unsupported(name: str, why: str) -> Refusal:
    """The refusal of a known option that cannot be honoured."""
    return Refusal(400, f"{name}: {why}", param=name, code="unsupported_parameter")


KNOWN = "This model's maximum context length is {} tokens."
"""OpenAI's words, by which clients recognise that a conversation must be shortened."""


def refuse_length(message: str) -> Refusal:
    """The refusal of a prompt that is too long."""
    return Refusal(400, message, param="prompt", code="context_length_exceeded")


OTHER_NAMES: Mapping[str, Sequence[str]] = {
    "max_tokens": ("max_completion_tokens", "max_output_tokens", "num_predict", "n_predict"),
    "repetition_penalty": ("repeat_penalty",),
    "typical_p": ("typ_p",),
    "logprobs": ("top_logprobs", "n_probs"),
    "json_schema": ("response_format", "output_config", "tool_choice", "format"),
    "stop": ("stop_sequences", "stop_words"),
}
"""Options of Options under the names that protocols use."""


def explain(error: BaseException) -> Refusal:
    """An error as a refusal; of an internal error only its type and place are revealed."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, PromptTooLong):
        return refuse_length(f"{error}. {KNOWN.format(error.context_length)}")
    if isinstance(error, ModelNotFound):
        return Refusal(404, str(error), param="model", code="model_not_found")
    if isinstance(error, OptionError):
        return Refusal(400, str(error), param=next(iter(error.names), None), code="invalid_value")
    if isinstance(error, GenerationError):
        return Refusal(400, str(error))
    if isinstance(error, CancelledError):
        return Refusal(UNAVAILABLE, "the server stopped during the answer; try again in a moment", retry_after=10)
    if isinstance(error, MemoryError):
        return Refusal(UNAVAILABLE, one_line(error) or "", retry_after=10)
    return Refusal(500, one_line(error) or f"the server failed: {describe_defect(error)}", code="server_error")


def without_folders(text: str) -> str:
    """A message without folders of this machine."""
    return PATH.sub("", text)
