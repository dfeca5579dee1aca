"""Receipts: everything an answer was generated from, saved with it so that it can be generated again."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import chatapp
from chatapp.conversation import context_window
from chatapp.conversation.setup import options_as_json
from chatapp.generation import Deltas, Engine, Options
from chatapp.history import Message


@dataclass(frozen=True)
class Asked:
    """What a model was asked, besides the messages and the options."""

    system: str = ""
    first: int = 0
    """How many messages (characters, of a text) were left out at the beginning."""
    summarised: bool = False
    """Whether a summary replaced them."""
    after: str | None = None
    """The text that follows, if the answer fills a gap."""

    def stream(
        self, engine: Engine, before: Sequence[Message], options: Options, begun: Sequence[int], text: str | None
    ) -> Deltas:
        """Ask the same again: after these messages, or after a text if that is given."""
        if text is not None and self.after is not None:
            return engine.infill(text, self.after, options)
        if text is not None:
            return engine.complete(text[self.first :], options)
        said = without_system(before)
        summary = said[self.first - 1].summary if self.summarised and self.first else ""
        messages = context_window.prompt(engine, said[self.first :], system=self.system, summary=summary)
        return engine.chat(messages, options, begun)


def without_system(before: Sequence[Message]) -> list[Message]:
    """The messages with text, without leading system prompts."""
    said = [one for one in before if one.text]
    while said and said[0].role == "system":
        del said[0]
    return said


def find_system(before: Sequence[Message]) -> str:
    """The system prompt that the conversation begins with, or an empty string."""
    first = next((one for one in before if one.text), None)
    return first.text if first and first.role == "system" else ""


def write(
    engine: Engine, asked: Asked | None, *, index: int, n: int, begun: int, again: Options | None
) -> dict[str, Any]:  # Any: JSON
    """The receipt of one of n answers; with the options if the answer was continued (`again`), as they may differ."""
    place = {"index": index, "n": n, "begun": begun}
    options = {"options": options_as_json(asdict(again))} if again else {}  # they may differ from those it began with
    return {"chatapp": chatapp.__version__, **engine.origin, **(asdict(asked) if asked else {}), **place, **options}
