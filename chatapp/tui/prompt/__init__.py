"""The box where messages are typed, with what helps to type them."""

from chatapp.tui.prompt.prompt import Prompt

__all__ = ["Prompt"]
