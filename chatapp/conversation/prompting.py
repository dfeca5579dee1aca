"""Ask the model for a reply, with what of the conversation fits its context."""

import re
from collections.abc import Generator, Sequence

from chatapp.conversation import context_window, summarising
from chatapp.conversation.saving import Saving
from chatapp.conversation.tree import Tree
from chatapp.conversation.turn import Request, Turn
from chatapp.generation import Delta, Engine
from chatapp.history import Message
from chatapp.history.text import clean


class Answering:
    """The replies of one dialogue, as its setup wants them; it remembers where the last prompt began."""

    def __init__(self, tree: Tree, saving: Saving) -> None:
        self._tree, self._saving, self._window = tree, saving, context_window.Window()

    def reply(self, request: Request, turn: Turn) -> Generator[Delta, None, None]:
        """A reply to the conversation, of which the beginning may have to be left out."""
        engine, begun = request.engine, [token.id for token in request.tokens]
        said = [one for one in self._tree.branch(request.parent) if one.text]
        system = self._saving.setup.system
        while said and said[0].role == "system":
            system = system or said[0].text
            del said[0]
        summing = self._saving.setup.when_full == "summarise"
        first, summary = 0, ""
        if self._saving.setup.when_full != "stop":
            if summing and self._window.first is None and (known := _summed_up(said[:-1])):
                self._window.first = said[known].id
            reserved = summarising.length(engine) if summing else 0
            places = {said[place].id: place for place in context_window.turns(said)}

            def count(message: int) -> int:
                place = places[message]
                prompt = context_window.prompt(engine, said[place:], system=system)
                return engine.count_chat(prompt, begun) + (reserved if place else 0)

            first = places[self._window.choose(engine, request.options, list(places), count)]
        turn.left_out = first
        if first and summing:
            summary = yield from self._summarised(engine, said[:first], turn)
        messages = context_window.prompt(engine, said[first:], system=system, summary=summary)
        yield from engine.chat(messages, request.options, begun)

    def _summarised(self, engine: Engine, said: Sequence[Message], turn: Turn) -> Generator[Delta, None, str]:
        """The summary of what was said, which is kept with its last message."""
        known = _summed_up(said)
        before = said[known - 1].summary if known else ""
        if known == len(said):
            return before
        turn.summarising = True
        try:
            summary = yield from summarising.summarise(engine, said[known:], before)
        finally:
            turn.summarising = False
        self._tree.change(said[-1].id, summary=clean(summary))
        self._saving.changed.add(self._tree.number(said[-1].id))
        return summary

    def continuation(self, request: Request, text: str, turn: Turn) -> Generator[Delta, None, None]:
        """What follows a text, of which the first lines may have to be left out."""
        if self._saving.setup.when_full != "stop":
            engine = request.engine
            lines = [0, *(match.end() for match in re.finditer("\n", text) if match.end() < len(text))]
            first = self._window.choose(engine, request.options, lines, lambda place: engine.count_tokens(text[place:]))
            turn.left_out = lines.index(first)
            text = text[first:]
        yield from request.engine.complete(text, request.options)


def _summed_up(said: Sequence[Message]) -> int:
    """How many of the messages a summary stands for already."""
    return next((place + 1 for place in reversed(range(len(said))) if said[place].summary), 0)
