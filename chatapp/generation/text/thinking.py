"""A model's thinking: where it begins and ends in a reply, and how a template switches it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Effort = Literal["low", "medium", "high"]
Think = bool | Effort
"""Whether a model should think before it answers, or how much."""
Channel = Literal["text", "thinking"]
"""The part of a reply: the answer, or the thinking before it, with its marks."""
MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
)
"""Qwen, DeepSeek and SmolLM; Granite; Magistral; Seed-OSS; Command A; Gemma 4."""
ANSWER = "<answer>", "</answer>"
"""Hunyuan's marks around its answer, after the thinking; they are not shown."""
TOLD = frozenset({"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>'})
"""Gemma 4's marks for thinking, calls and quotes: special tokens that are nevertheless part of a reply."""
STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
"""A string literal in a template."""
THINK = "<think>\n", "\n</think>\n\n"
"""The marks that other forms of thinking are converted to."""
CALL = "<function={}>"
"""The beginning of a function call, before its arguments."""
ANALYSIS = "<|channel|>analysis"
"""The header of gpt-oss's thinking."""
HARMONY = "<|start|>", "<|channel|>", "<|message|>", "<|end|>"
"""The marks of gpt-oss's messages; its thinking is a message before the answer's."""
BUDGET = "thinking_budget"
"""Seed-OSS's template variable for the number of tokens to think."""
SWITCHES = ("enable_thinking", "thinking", BUDGET)
"""Template variables that switch thinking: Qwen, SmolLM and GLM; DeepSeek and Granite; Seed-OSS."""
EFFORT = "reasoning_effort"
"""gpt-oss's template variable for how much to think."""
EFFORTS: tuple[Effort, ...] = get_args(Effort)


@dataclass(frozen=True)
class Parts:
    """A reply in two parts."""

    thinking: str
    """Without its marks."""
    answer: str


def split(reply: str) -> Parts:
    """Split a reply, perhaps incomplete, into thinking and answer."""
    channels = Channels()
    told = [*channels.add(reply), *channels.flush()]
    thought, answer = ("".join(text for one, text in told if one == channel) for channel in ("thinking", "text"))
    begin, end = channels.marks
    return Parts(thought.lstrip().removeprefix(begin).rstrip().removesuffix(end).strip(), answer)


class Channels:
    """Separates thinking from answer while a reply grows; only its beginning can be thinking."""

    def __init__(self) -> None:
        self.marks = ("", "")
        self._state: Literal["begin", "thinking", "between", "opened", "answer", "text"] = "begin"
        self._held = ""
        """Text that may be the beginning of a mark."""

    @property
    def current(self) -> Channel:
        """The current channel."""
        return "thinking" if self._state in ("thinking", "between") else "text"

    @property
    def is_thinking(self) -> bool:
        """Whether thinking has begun, and not ended."""
        return self._state == "thinking"

    @property
    def has_thought(self) -> bool:
        """Whether thinking has ended."""
        return bool(self.marks[0]) and self._state != "thinking"

    def add(self, text: str) -> list[tuple[Channel, str]]:
        """Split more text by channels; what may become a mark is held back."""
        if self._state == "text":
            return [("text", text)]
        if self._state == "begin":
            text, self._held = self._held + text, ""
            begun = text.lstrip()
            found = next((marks for marks in MARKS if begun.startswith(marks[0])), None)
            if found:
                self.marks, self._state = found, "thinking"
            elif any(begin.startswith(begun) for begin, _ in MARKS):
                self._held = text
                return []
            else:
                self._state = "text"
                return [("text", text)]
        parts: list[tuple[Channel, str]] = []
        if self._state == "thinking":
            known = len(self._held)
            whole = self._held + text
            place = whole.find(self.marks[1])
            if place < 0:
                self._held = whole[-len(self.marks[1]) + 1 :]  # already returned, kept only for the search
                return [("thinking", text)]
            end = place + len(self.marks[1]) - known
            parts.append(("thinking", text[:end]))
            text, self._held, self._state = text[end:], "", "between"
        if self._state == "between":
            text, self._held = self._held + text, ""
            said = text.lstrip()
            if said != text:
                parts.append(("thinking", text.removesuffix(said)))
            if ANSWER[0].startswith(said) and said != ANSWER[0]:
                self._held = said
                return parts
            self._state = "opened" if said.startswith(ANSWER[0]) else "text"
            text = said.removeprefix(ANSWER[0])
        if text := self._answered(text):
            parts.append(("text", text))
        return parts

    def _answered(self, text: str) -> str:
        """The answer's text without its marks; what may become the closing mark is held back."""
        if self._state == "opened" and (text := text.lstrip()):
            self._state = "answer"
        if self._state != "answer":
            return text
        whole, self._held = self._held + text, ""
        said, ended, rest = whole.partition(ANSWER[1])
        if ended:
            self._state = "text"
            return said.rstrip() + rest.lstrip()
        kept = next(size for size in range(len(ANSWER[1]), -1, -1) if whole.endswith(ANSWER[1][:size]))
        said = whole[: len(whole) - kept].rstrip()
        self._held = whole[len(said) :]
        return said

    def flush(self) -> list[tuple[Channel, str]]:
        """Return what was held back, at the end."""
        held, self._held = "" if self._state == "thinking" else self._held, ""
        return [("text", held)] if held else []


def thinks(template: str) -> bool:
    """Whether a template's model thinks before it answers."""
    return ANALYSIS in template or any(begin in template for begin, _ in MARKS)


def respell(reply: str) -> tuple[str, str, str, str]:
    """A reply in gpt-oss's form: mark and thinking, mark and answer."""
    begin, end = THINK
    if not reply.startswith(begin):
        return "", "", "", reply
    thought, ended, answer = reply[len(begin) :].partition(end)
    middle = "<|end|><|start|>assistant<|channel|>final<|message|>" if ended else ""
    return "<|channel|>analysis<|message|>", thought, middle, answer


def find_switch(template: str) -> str | None:
    """The template variable that switches thinking; None if there is none."""
    return find_variable(template, SWITCHES)


def find_variable(template: str, known: Sequence[str]) -> str | None:
    """The first of these names that is a variable of the template; None if none is."""
    code = " ".join(re.findall(r"\{[{%].*?[%}]\}", template, re.DOTALL))
    code = STRING.sub("''", code)
    names = (name for name in known if re.search(rf"(?<![\w.'\"]){name}(?![\w'\"])", code))
    return next(names, None)


def find_choices(template: str) -> tuple[Think, ...]:
    """The settings for thinking that a template knows."""
    effort = EFFORTS if find_variable(template, [EFFORT]) else ()
    return (*((False, True) if find_switch(template) else ()), *effort)


def find_opening(prompt: str) -> str:
    """The thinking mark that a prompt ends with, and the white space after it; the reply continues inside."""
    for begin, _ in MARKS:
        if prompt.rstrip().endswith(begin):
            return prompt[prompt.rindex(begin) :]
    return ""
