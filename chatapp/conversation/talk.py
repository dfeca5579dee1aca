"""One conversation at a time, with one model at a time, as the commands in lines have it."""

from typing import TYPE_CHECKING

from chatapp.cli.printing import warn
from chatapp.conversation import Dialogue, Setup, Turn
from chatapp.history import Conversation, Kind

if TYPE_CHECKING:
    from chatapp.generation import Engine
    from chatapp.history import History


class Talk:
    """What is being talked about, and with whom; a base model continues each text anew."""

    def __init__(self, engine: "Engine", setup: Setup, *, n: int = 1) -> None:
        self.engine, self.n = engine, n
        self.history: History | None = None
        """Where conversations are kept from now on."""
        self.begin_anew(setup=setup)

    @property
    def setup(self) -> Setup:
        """How it is answered."""
        return self.dialogue.setup

    def begin_anew(
        self,
        conversation: Conversation | None = None,
        *,
        history: "History | None" = None,
        setup: Setup | None = None,
    ) -> None:
        """Begin another conversation, or go on with one; the one before stays in the history."""
        kind: Kind = "chat" if self.engine.can_chat else "completion"
        kept = history or self.history
        self.dialogue = Dialogue(kept, conversation, kind=kind, setup=setup or self.setup, warn=warn)

    def ask(self, text: str) -> Turn:
        """Say something to the model."""
        if self.engine.can_chat:
            return self.dialogue.ask(self.engine, text, self.n)
        self.begin_anew()
        return self.dialogue.continue_text(self.engine, text, self.n)
