"""What a model thinks before it answers: where that begins and ends in a reply, and how a template switches it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Effort = Literal["low", "medium", "high"]
Think = bool | Effort
"""Whether a model is to think before it answers, or how much."""
Channel = Literal["text", "thinking"]
"""Which part of a reply something belongs to: the answer, or the thinking before it, its marks included."""
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
"""What Hunyuan has around its answer, behind what it thinks, and nobody is told."""
TOLD = frozenset({"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>'})
"""Gemma 4's marks of what it thinks, calls and quotes, which are special tokens there, and parts of a reply."""
STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
"""A text in the code of a template."""
THINK = "<think>\n", "\n</think>\n\n"
"""How thinking is written down that comes in another way: between these two."""
CALL = "<function={}>"
"""How a call of a function is, before its arguments."""
ANALYSIS = "<|channel|>analysis"
"""Where gpt-oss thinks."""
HARMONY = "<|start|>", "<|channel|>", "<|message|>", "<|end|>"
"""The marks of gpt-oss's messages: its thinking is a message before the one that is the answer."""
BUDGET = "thinking_budget"
"""The variable in which Seed-OSS's template wants the tokens that the model may think."""
SWITCHES = ("enable_thinking", "thinking", BUDGET)
"""What templates call the variable that switches thinking: Qwen, SmolLM and GLM; DeepSeek and Granite; Seed-OSS."""
EFFORT = "reasoning_effort"
"""The variable in which gpt-oss's template wants how much the model is to think."""
EFFORTS: tuple[Effort, ...] = get_args(Effort)


@dataclass(frozen=True)
class Parts:
    """A reply, in two parts."""

    thinking: str
    """Without its marks."""
    answer: str


def split(reply: str) -> Parts:
    """A reply, as far as it has come: what the model thought before it, and what it says."""
    channels = Channels()
    told = [*channels.add(reply), *channels.flush()]
    thought, answer = ("".join(text for one, text in told if one == channel) for channel in ("thinking", "text"))
    begin, end = channels.marks
    return Parts(thought.lstrip().removeprefix(begin).rstrip().removesuffix(end).strip(), answer)


class Channels:
    """Tells thinking and answer apart while a reply grows; a reply thinks only at its beginning."""

    def __init__(self) -> None:
        self.marks = ("", "")
        self._state: Literal["begin", "thinking", "between", "opened", "answer", "text"] = "begin"
        self._held = ""
        """What may be the beginning of a mark."""

    @property
    def current(self) -> Channel:
        """To which channel the reply has come."""
        return "thinking" if self._state in ("thinking", "between") else "text"

    @property
    def is_thinking(self) -> bool:
        """Whether the thinking has begun, and its end has not been seen."""
        return self._state == "thinking"

    @property
    def has_thought(self) -> bool:
        """Whether the thinking has ended."""
        return bool(self.marks[0]) and self._state != "thinking"

    def add(self, text: str) -> list[tuple[Channel, str]]:
        """The parts of a text by their channels; what may yet become a mark at the beginning is held back."""
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
                self._held = whole[-len(self.marks[1]) + 1 :]  # told already; only looked at once more
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
        """What a text says of an answer, without marks around it; what may yet become the last one is held back."""
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
        """What was held back, where the reply ends with it."""
        held, self._held = "" if self._state == "thinking" else self._held, ""
        return [("text", held)] if held else []


def thinks(template: str) -> bool:
    """Whether the model of a template thinks before it answers."""
    return ANALYSIS in template or any(begin in template for begin, _ in MARKS)


def respell(reply: str) -> tuple[str, str, str, str]:
    """A reply as gpt-oss writes it: what stands before its thinking, this, what stands before the answer, and this."""
    begin, end = THINK
    if not reply.startswith(begin):
        return "", "", "", reply
    thought, ended, answer = reply[len(begin) :].partition(end)
    middle = "<|end|><|start|>assistant<|channel|>final<|message|>" if ended else ""
    return "<|channel|>analysis<|message|>", thought, middle, answer


def find_switch(template: str) -> str | None:
    """The name of the variable with which a template switches thinking; None where it has none."""
    return find_variable(template, SWITCHES)


def find_variable(template: str, known: Sequence[str]) -> str | None:
    """The first of these names that a template has for a variable; None where it has none of them."""
    code = " ".join(re.findall(r"\{[{%].*?[%}]\}", template, re.DOTALL))
    code = STRING.sub("''", code)
    names = (name for name in known if re.search(rf"(?<![\w.'\"]){name}(?![\w'\"])", code))
    return next(names, None)


def find_choices(template: str) -> tuple[Think, ...]:
    """What a template can be told about the model's thinking."""
    effort = EFFORTS if find_variable(template, [EFFORT]) else ()
    return (*((False, True) if find_switch(template) else ()), *effort)


def find_opening(prompt: str) -> str:
    """The mark of thinking that a prompt ends with, and the white space behind it: the reply goes on inside."""
    for begin, _ in MARKS:
        if prompt.rstrip().endswith(begin):
            return prompt[prompt.rindex(begin) :]
    return ""
