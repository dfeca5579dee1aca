"""Asks the model for a turn's replies, leaving out the beginning of a conversation that does not fit."""

import re
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from chatapp.conversation import context_window, receipt, summarising, tool_calls
from chatapp.conversation.saving import Saving
from chatapp.conversation.states import resuming
from chatapp.conversation.tree import Tree
from chatapp.conversation.turn import BEGINNING, Turn
from chatapp.generation import Delta, Deltas, Engine
from chatapp.generation.text.message import Message as Prompted
from chatapp.history import Message
from chatapp.history.text import clean

if TYPE_CHECKING:
    from chatapp.conversation.tools.toolset import Toolset


class Prompting:
    """Asks the model for replies, and remembers what the last prompt left out."""

    def __init__(self, tree: Tree, saving: Saving) -> None:
        self.tree, self.saving = tree, saving
        self.window = context_window.Window()
        """Where the last prompt began."""

    def answer(self, engine: Engine, turn: Turn, toolset: "Toolset | None") -> Deltas:
        """Ask for a reply to the conversation, offering the tools of the setup."""
        setup, begun = self.saving.setup, [token.id for token in turn.tokens]
        if toolset and setup.tools:
            for _ in tool_calls.offer(toolset, setup.tools, engine, turn):
                yield BEGINNING
        before = self.tree.branch(turn.parent)
        said, system = receipt.without_system(before), setup.system or receipt.find_system(before)
        summary = ""
        if setup.when_full != "stop":
            turn.left_out = self._find_first(engine, turn, said, system)
        else:
            turn.slides = len(context_window.turns(said)) > 1
        if turn.left_out and setup.when_full == "summarise":
            summary = yield from self._summarise(engine, turn, said[: turn.left_out])
        turn.asked = receipt.Asked(system, turn.left_out, bool(summary))
        messages = context_window.prompt(engine, said[turn.left_out :], system=system, summary=summary)
        with resuming(engine, self.saving) as messages_now:
            messages_now += messages
            yield from engine.chat(messages, turn.options, begun)
            messages_now.append(Prompted("assistant", self.tree[turn.replies[0].id].text))

    def _find_first(self, engine: Engine, turn: Turn, said: Sequence[Message], system: str) -> int:
        """How many messages to leave out so that the rest fits."""
        summarised, begun = self.saving.setup.when_full == "summarise", [token.id for token in turn.tokens]
        if summarised and self.window.first is None and (known := summarising.count(said[:-1])):
            self.window.first = said[known].id
        reserved = summarising.length(engine) if summarised else 0
        offered = sum(map(engine.count_tokens, turn.options.tools))
        places = {said[place].id: place for place in context_window.turns(said)}

        def count(message: int) -> int:
            place = places[message]
            prompt = context_window.prompt(engine, said[place:], system=system)
            return engine.count_chat(prompt, begun) + offered + (reserved if place else 0)

        return places[self.window.choose(engine, turn.options, list(places), count)]

    def _summarise(self, engine: Engine, turn: Turn, said: Sequence[Message]) -> Generator[Delta, None, str]:
        """Summarise these messages, and save the summary with the last of them."""
        known = summarising.count(said)
        before = said[known - 1].summary if known else ""
        if known == len(said):
            return before
        turn.summarising = True
        try:
            summary = yield from summarising.summarise(engine, said[known:], before)
        finally:
            turn.summarising = False
        self.saving.change(said[-1].id, summary=clean(summary))
        return summary

    def complete(self, engine: Engine, turn: Turn, text: str) -> Deltas:
        """Ask for a continuation of the text, whose first lines may be left out, or for the text that fills a gap."""
        turn.asked = receipt.Asked(after=turn.after)
        if turn.after is not None:
            yield from engine.infill(text, turn.after, turn.options)
            return
        if self.saving.setup.when_full != "stop":
            lines = [0, *(match.end() for match in re.finditer("\n", text) if match.end() < len(text))]
            first = self.window.choose(engine, turn.options, lines, lambda place: engine.count_tokens(text[place:]))
            turn.left_out, turn.asked = lines.index(first), receipt.Asked(first=first)
            text = text[first:]
        else:
            turn.slides = "\n" in text[:-1]
        yield from engine.complete(text, turn.options)
