"""Engine, Options, Delta: a loaded model answers, token by token.

The engine and what it needs (numpy, tokenizers) are imported when first asked for.
"""

from typing import TYPE_CHECKING

from chatapp.generation.delta import Alternative, Delta, FinishReason, Timings, Token, Usage
from chatapp.generation.errors import GenerationError, PromptTooLong
from chatapp.generation.options import OptionError, Options
from chatapp.generation.text.message import Message

if TYPE_CHECKING:
    from chatapp.generation.engine import Engine

__all__ = [
    "Alternative",
    "Delta",
    "Engine",
    "FinishReason",
    "GenerationError",
    "Message",
    "OptionError",
    "Options",
    "PromptTooLong",
    "Timings",
    "Token",
    "Usage",
]


def __getattr__(name: str) -> object:
    if name == "Engine":
        from chatapp.generation.engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
