"""The contract of an engine: what a front end may ask of a loaded model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from chatapp.generation.delta import Deltas, Token, Usage
from chatapp.generation.options import Options
from chatapp.generation.text.message import Message
from chatapp.generation.text.surroundings import Around
from chatapp.generation.text.thinking import Think

if TYPE_CHECKING:
    from backends import Placement
    from chatapp.generation.decoding.lines import Line
    from chatapp.generation.decoding.preview import Distribution

Wanted = Callable[[], bool]
"""Called repeatedly while an answer is computed: whether anybody still waits for it."""
UNKNOWN_CONTEXT = 1 << 30
"""The context length of a remote model whose server does not tell it."""


def yes() -> bool:
    """Always wanted."""
    return True


class Engine(Protocol):
    """A loaded model: text in, deltas out; closing a stream cancels it."""

    context_length: int
    defaults: Options

    @property
    def placement(self) -> Placement: ...
    @property
    def origin(self) -> Mapping[str, str]:
        """What computes: the `digest` of the lowered model, and the `signature` of what lowered and runs it.

        Empty if unknown.
        """

    @property
    def can_chat(self) -> bool: ...
    @property
    def knows_tools(self) -> bool: ...
    @property
    def can_infill(self) -> bool: ...
    @property
    def sees_files(self) -> bool: ...
    @property
    def thinking_choices(self) -> tuple[Think, ...]: ...
    @property
    def last_usage(self) -> Usage | None: ...

    def count_tokens(self, text: str) -> int: ...
    def count_prompt(self, text: str | Sequence[int], options: Options) -> int: ...
    def count_chat(
        self,
        messages: Sequence[Message],
        begun: Sequence[int] = (),
        *,
        think: Think | None = None,
        tools: Sequence[str] = (),
    ) -> int: ...
    def encode_marked(self, text: str) -> Sequence[int] | None: ...
    def render_chat(self, messages: Sequence[Message]) -> str: ...
    def text_of(self, tokens: Sequence[int], think: Think | None = None) -> str: ...
    def tokens_of(self, text: str, think: Think | None = None) -> Sequence[Token]: ...

    def chat(self, messages: Sequence[Message], options: Options, begun: Sequence[int] = ()) -> Deltas: ...
    def complete(self, text: str | Sequence[int], options: Options) -> Deltas: ...
    def infill(self, prefix: str, suffix: str, options: Options, around: Around = None) -> Deltas: ...
    def find_lines(
        self, prefix: str, suffix: str, around: Around = None, *, width: int = 4, count: int = 4, wanted: Wanted = yes
    ) -> list[Line] | None: ...
    def score_lines(
        self, prefix: str, suffix: str, texts: Sequence[str], around: Around = None, *, wanted: Wanted = yes
    ) -> list[float] | None: ...
    def next_token(
        self, prompt: Sequence[Message] | str, wanted: Wanted = yes, *, file_start: bool = False
    ) -> Distribution | None: ...


@runtime_checkable
class Resuming(Protocol):
    """An engine that keeps the cached states of conversations on disk."""

    def recall(self, name: str) -> None:
        """Look for a conversation's cached state on disk."""

    def retain(self, name: str, messages: Sequence[Message]) -> None:
        """Mark these messages of a conversation as worth saving to disk."""

    def write_states(self, wanted: Callable[[str], bool]) -> None:
        """Save the marked conversations that are `wanted`."""
