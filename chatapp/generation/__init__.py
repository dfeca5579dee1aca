"""Generate text: Engine, Options, Delta; begin reading in `engine`."""

from chatapp.generation.contract import Engine
from chatapp.generation.delta import Alternative, BeamEvent, Delta, Deltas, FinishReason, Guesses, Timings, Token, Usage
from chatapp.generation.errors import GenerationError, PromptTooLong
from chatapp.generation.options import OptionError, Options
from chatapp.generation.reply import Reply
from chatapp.generation.text.message import Message, ToolCall
from chatapp.generation.text.surroundings import Excerpt, Surroundings

__all__ = [
    "Alternative",
    "BeamEvent",
    "Delta",
    "Deltas",
    "Engine",
    "Excerpt",
    "FinishReason",
    "GenerationError",
    "Guesses",
    "Message",
    "OptionError",
    "Options",
    "PromptTooLong",
    "Reply",
    "Surroundings",
    "Timings",
    "Token",
    "ToolCall",
    "Usage",
]
