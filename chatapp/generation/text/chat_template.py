"""Render conversations to prompts with the model publisher's template, in a process of its own."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from chatapp.generation.errors import GenerationError
from chatapp.generation.text.message import Message, ToolCall
from chatapp.generation.text.rendering import RENDERER, Renderer, RenderingError
from chatapp.generation.text.thinking import (
    ANALYSIS,
    ANSWER,
    BUDGET,
    EFFORT,
    EFFORTS,
    MARKS,
    Think,
    find_choices,
    find_opening,
    find_switch,
    find_variable,
    split,
    thinks,
)
from chatapp.generation.text.tokenizer import MARK, Tokenizer, mark_places
from model_store.tokenizers.chat_template import chat_template
from model_store.tokenizers.special_tokens import special_tokens

STAND_IN = re.compile("\ue000([0-9]+)\ue001")
"""Placeholder for a message's text when the template's own text is looked at: private-use characters."""

ANSWERED_WITHIN = "tool_responses"
"""Where Gemma 4's template expects functions' results: in the message that calls them."""
SWITCH = re.compile(r"/(?:no_)?think\b")
"""What templates look for in a system prompt, and answer with other control tokens."""


class ChatTemplate:
    """A model's chat template."""

    def __init__(self, folder: Path, renderer: Renderer = RENDERER):
        """Read the template of the checkpoint in `folder`."""
        source = chat_template(folder)
        if source is None:
            raise GenerationError(f"no chat template in {folder}: the model continues text but cannot chat")
        self.source, self.name = source, folder.name
        self.special = special_tokens(folder)
        self.renderer = renderer
        self._openings: dict[Think | None, str] = {}
        renderer.start()  # it gets ready while the model is loaded

    @cached_property
    def switch(self) -> str | None:
        """The template's variable that switches thinking; None if it has none."""
        return find_switch(self.source)

    @cached_property
    def thinking_choices(self) -> tuple[Think, ...]:
        """The settings for thinking that the template knows."""
        return find_choices(self.source)

    @cached_property
    def knows_tools(self) -> bool:
        """Whether the template supports tools."""
        return mentions_tools(self.source)

    def find_opening(self, think: Think | None = None) -> str:
        """The thinking mark that the template puts at the end of a prompt; the reply continues inside."""
        if think not in self._openings:
            (prompt,) = self.render([Message("user", "x")], think=think)
            self._openings[think] = find_opening(prompt)
        return self._openings[think]

    def encode(
        self,
        messages: Sequence[Message],
        tokenizer: Tokenizer,
        *,
        think: Think | None = None,
        tools: Sequence[str] = (),
    ) -> list[int]:
        """Tokens of the rendered conversation, in which only the template can create control tokens.

        If a message spells a control token, its spelling is broken up with MARKs before the template sees it. The
        control tokens must then be those of the template rendered with placeholders instead of texts. If they are not,
        because it changes letters or depends on the content, the texts are put into that rendering: then the template
        has seen no content, only that there is some. An assistant's <think> and <tool_call> are its own, and stay in
        both.
        """
        texts, guarded, stand_ins = list[str](), list[Message](), list[Message]()
        for message in map(self._heard, messages):
            own = tokenizer.control - tokenizer.hidden if message.role == "assistant" else frozenset()
            text = message.text.replace(MARK, "")
            spelled = tokenizer.controls(text)
            message = replace(message, calls=tuple(_guard_call(call, tokenizer) for call in message.calls))
            marked = mark_places(text, [one for one in spelled if one[2] not in own])
            guarded.append(replace(message, text=marked))
            kept = [(begin, end) for begin, end, token in spelled if token in own]
            if message.role == "system":
                kept = [switch.span() for switch in SWITCH.finditer(text)]
            stand_ins.append(replace(message, text=_stand_in(text, kept, texts)))
        harmless = [json.dumps(_guard(json.loads(tool), tokenizer)) for tool in tools]
        frame, text = self.render_joined(stand_ins, guarded, think=think, tools=harmless)
        parts = STAND_IN.split(frame)  # text, number of a message's text, text, ...
        expected = _control(tokenizer.encode_template("".join(parts[::2])), tokenizer)
        tokens = tokenizer.encode_template(text)
        if _control(tokens, tokenizer) == expected:
            return tokens
        for i in range(1, len(parts), 2):
            parts[i] = tokenizer.guard(texts[int(parts[i])])
        return tokenizer.encode_template("".join(parts))

    def _heard(self, message: Message) -> Message:
        """A message as the template expects it: answers without thinking, unless the template removes that.

        Hunyuan's template does so by the marks around its answers, which are never shown, so that no message has them.
        gpt-oss's takes text beside a call for thinking, and removes it once an answer has followed.
        """
        sees = ANSWER[0] not in self.source and any(end in self.source for _, end in MARKS)
        if message.role != "assistant" or sees:
            return message
        parts = split(message.text)
        thought = parts.thinking if message.calls and ANALYSIS in self.source else ""
        return replace(message, text=parts.answer or thought)

    def render(
        self, *conversations: Sequence[Message], think: Think | None = None, tools: Sequence[str] = ()
    ) -> list[str]:
        """Render conversations up to where the model's turn begins; `think` sets the template's switch.

        For a template that only knows on and off, any effort is on.
        """
        knows_effort = EFFORTS[0] in self.thinking_choices
        effort = {EFFORT: think} if isinstance(think, str) and knows_effort else {}
        if think is not None and self.switch is None and not effort and (think or thinks(self.source)):
            choices = f"a choice of {', '.join(EFFORTS)} (reasoning effort)" if knows_effort else "no switch"
            raise GenerationError(f"{self.name} cannot turn thinking on or off: its chat template has {choices}")
        turns = [[_describe(message) for message in messages] for messages in conversations]
        if ANSWERED_WITHIN in self.source:
            turns = [answer_within(one) for one in turns]
        offered = [json.loads(tool) for tool in tools] or None
        names: dict[str, Any] = {
            "tools": offered,
            "documents": None,
            "add_generation_prompt": True,
            **self.special,
            **effort,
        }
        if think is not None and self.switch:
            names[self.switch] = (-1 if think else 0) if self.switch == BUDGET else bool(think)  # -1: unlimited
        try:
            return self.renderer.render(self.source, turns, names)
        except RenderingError as error:
            raise GenerationError(f"the chat template of {self.name} {error}") from error

    def render_joined(
        self, *conversations: Sequence[Message], think: Think | None = None, tools: Sequence[str] = ()
    ) -> list[str]:
        """The same; if the template raises, or drops a system prompt, neighbouring messages are joined first."""
        joined = [join_neighbours(one) for one in conversations]
        fine = joined == [list(one) for one in conversations]
        try:
            texts = self.render(*conversations, think=think, tools=tools)
        except GenerationError:
            if fine:
                raise
        else:
            if fine or all(map(tells_system, conversations, texts)):
                return texts
        return self.render(*joined, think=think, tools=tools)


def join_neighbours(messages: Sequence[Message]) -> list[Message]:
    """Join messages so that roles alternate, and only the first message is a system prompt.

    Coding agents send system messages later on, and several messages of a role in a row; many templates allow neither.
    """
    found = list[Message]()
    for message in messages:
        before = found[-1].role if found else ""
        role = "user" if message.role == "system" and before not in ("", "system") else message.role
        if role != "tool" and before in (role, "tool" if role == "user" else role):
            text = "\n\n".join(filter(None, (found[-1].text, message.text)))
            found[-1] = replace(found[-1], text=text, calls=(*found[-1].calls, *message.calls))
        else:
            found.append(replace(message, role=role))
    return found


def tells_system(messages: Sequence[Message], text: str) -> bool:
    """Whether a rendered conversation contains all system prompts after the first message."""
    return all(one.text.strip() in text for one in messages[1:] if one.role == "system")


PART = 1 << 16
"""Characters that are tokenised at a time, as the first parts of megabytes are enough."""


def count_beyond(messages: Sequence[Message], tokenizer: Tokenizer, limit: int) -> int:
    """The number of tokens of the last messages, counted until they exceed the limit; 0 if they never do."""
    found = 0
    if sum(len(message.text) for message in messages) <= limit:
        return 0
    for message in reversed(messages):
        said = split(message.text).answer if message.role == "assistant" else message.text
        for start in range(0, len(said), PART):
            found += len(tokenizer.encode(said[start : start + PART]))
            if found > limit:
                return found
    return 0


def mentions_tools(source: str) -> bool:
    """Whether a template uses the variable for tools."""
    return find_variable(source, ["tools"]) is not None


def _describe(message: Message) -> dict[str, Any]:  # Any: as templates look at it
    """A message as templates see it."""
    found: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        found["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.loads(call.arguments)},
            }
            for call in message.calls
        ]
    if message.answers:
        found |= {"name": message.answers.name, "tool_call_id": message.answers.id}
    return found


def answer_within(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:  # Any: as templates look at it
    """Move functions' results into the messages that call them."""
    found: list[dict[str, Any]] = []
    for turn in turns:
        if "tool_call_id" in turn and found and "tool_calls" in found[-1]:
            answer = {"name": turn["name"], "response": turn["content"]}
            found[-1].setdefault(ANSWERED_WITHIN, []).append(answer)
        else:
            found.append(turn)
    return found


def _guard(value: Any, tokenizer: Tokenizer) -> Any:  # Any: parsed JSON
    """JSON with all texts guarded against control tokens."""
    if isinstance(value, str):
        return tokenizer.guard(value)
    if isinstance(value, list):
        return [_guard(one, tokenizer) for one in value]
    if isinstance(value, dict):
        return {tokenizer.guard(name): _guard(one, tokenizer) for name, one in value.items()}
    return value


def _guard_call(call: ToolCall, tokenizer: Tokenizer) -> ToolCall:
    arguments = json.dumps(_guard(json.loads(call.arguments), tokenizer))
    return ToolCall(tokenizer.guard(call.name), arguments, tokenizer.guard(call.id))


def _stand_in(text: str, kept: Sequence[tuple[int, int]], texts: list[str]) -> str:
    """Replace each of a message's texts, which are appended to `texts`, by a placeholder; `kept` places stay.

    The white space around them is kept, for templates that strip it.
    """
    written, start = "", 0
    for begin, end in [*kept, (len(text), len(text))]:
        part = text[start:begin]
        if content := part.strip():
            part = part.replace(content, f"\ue000{len(texts)}\ue001", 1)
            texts.append(content)
        written += part + text[begin:end]
        start = end
    return written


def _control(tokens: list[int], tokenizer: Tokenizer) -> list[int]:
    return [token for token in tokens if token in tokenizer.control - tokenizer.unknown]
