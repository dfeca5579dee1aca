"""The prompt, and its completions and recall of earlier prompts."""

from chatapp.tui.prompt.prompt import Prompt

__all__ = ["Prompt"]
