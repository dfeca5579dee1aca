"""Widget: a text that the model continues in place, with the versions of what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from textual import on

from chatapp.text.printable import printable
from chatapp.tui.chat.asking import BUSY, Prompting
from chatapp.tui.chat.completion_page import Notebook
from chatapp.tui.chat.versions import version

if TYPE_CHECKING:
    from chatapp.conversation import Turn
    from chatapp.generation import Token
    from chatapp.history import Message, Role
    from chatapp.tui.chat.reply import Ending


SURE = "ctrl+t: how sure the model was of each token"


@dataclass(frozen=True)
class Reached:
    """How far a text goes into a reply of the model."""

    before: Sequence[tuple[Role, str]]
    """What is before the reply."""
    reply: Message
    tokens: Sequence[Token]
    """Those of the reply that are there."""
    rest: str
    """What is there of the next one."""
    whole: bool
    """Whether all of the reply is there."""
    after: str = ""
    """What follows."""

    @property
    def cut(self) -> bool:
        """Whether the text ends, or what follows begins, between two of the reply's tokens."""
        return bool(self.tokens) and not (self.rest or self.whole)

    @property
    def shorter(self) -> Sequence[Token]:
        """The tokens without the last one that is to be seen, or what is left of it."""
        tokens = list(self.tokens)
        while tokens and not self.rest and not tokens.pop().text:
            pass
        return tokens


class Continuing(Prompting):
    """Completion: the text is continued at its end or in a gap, differently, or from one of its tokens."""

    wanted = 0
    """How many answers the model should write as soon as it is open."""

    @on(Notebook.Asked)
    async def continue_text(self) -> None:
        await self.ask()

    async def ask(self, n: int = 1) -> None:
        """Let the model go on with the text, as soon as it is open and free."""
        if not self.notebook.text.strip():
            self.notify("Write something first, or take the example with tab.")
        elif self.failure:
            self.notify(self.failure, severity="error", timeout=10, markup=False)
        elif self.reply:
            self.notify(BUSY)
        elif not self.opened or not self.dialogue:
            self.wanted = n
            self.status.show("○ loading", hint="the model will write as soon as it is open")
        else:
            if self.columns:
                await self.keep(self.columns.best)
            if not await self.start(partial(self.begin, n)):
                self.notebook.finish()

    def begin(self, n: int) -> Turn:
        """The continuation; where the user took back some tokens, another version of the reply they are of."""
        assert self.opened and self.dialogue
        engine, reached = self.opened.engine, self.reached()
        before, after = self.notebook.begin()
        if reached and reached.cut and (reached.after, reached.reply.model) == (after, self.dialogue.setup.model):
            return self.dialogue.go_on(engine, reached.reply.id, reached.tokens, n=n, after=after)
        if self.notebook.gap:
            return self.dialogue.fill(engine, before, after)
        return self.dialogue.continue_text(engine, before, n)

    @on(Notebook.Interrupted)
    def give_way(self, message: Notebook.Interrupted) -> None:
        """Whoever types into the text the model is writing takes over."""
        self.stop()
        self.call_next(self.notebook.insert, message.text)

    def reached(self) -> Reached | None:
        """The reply that the text ends with, also where the end of it was taken back; or that fills the gap."""
        from chatapp.conversation.texts import beginning

        if self.dialogue:
            self.dialogue.follow(self.notebook.text)
        branch, text = list(self.dialogue.branch() if self.dialogue else ()), self.notebook.text
        while place := next((i for i in range(len(branch), 0, -1) if branch[i - 1].role == "assistant"), 0):
            assert self.dialogue
            reply = branch[place - 1]
            before, said, after = (
                "".join(printable(one.text) for one in part) for part in (branch[: place - 1], [reply], branch[place:])
            )
            there = text[len(before) : len(text) - len(after)]
            if text != before + there + after or not said.startswith(there):
                return None
            if after and not self.is_last(reply):
                return None
            if there or after:
                tokens = beginning(self.dialogue.tokens(reply.id), there)
                rest = there[len(printable("".join(token.text for token in tokens))) :]
                parts = [(one.role, one.text) for one in branch[: place - 1]]
                return Reached(parts, reply, tokens, rest, there == said, after)
            branch = branch[: place - 1]
        return None

    def is_last(self, reply: Message) -> bool:
        """Whether it is what the model wrote last."""
        if not self.dialogue or not self.turn or self.turn.withdrawn:
            return False
        return reply.id in [self.dialogue.message(one.id).id for one in self.turn.replies]

    @on(Notebook.Walked)
    async def walk_alternatives(self, message: Notebook.Walked) -> None:
        """Show an older or newer version of what the model wrote last."""
        if self.reply:
            return self.notify(BUSY)
        last = self.last_of("assistant")
        if self.dialogue and last and 0 <= (place := last.versions.index(last.id) + message.step) < len(last.versions):
            self.dialogue.write(self.notebook.parts())  # what was changed is a version, too
            self.dialogue.select(last.versions[place])
            await self.show_branch()

    @on(Notebook.Restored)
    def show_version(self) -> None:
        """Say which version undo or redo has brought back."""
        reached = self.reached()
        if reached and reached.whole and not reached.after:
            self.notebook.head, self.notebook.mark = self.notebook.document.end, self.version
            self.notebook.refresh()

    def last_of(self, role: Role) -> Message | None:
        """The last message of one side; in a text, of what it is now."""
        if self.kind == "completion" and self.dialogue and not self.reply and not self.columns:
            if not self.notebook.text:
                return None
            if not self.dialogue.follow(self.notebook.text):
                self.dialogue.write(self.notebook.parts())  # what was changed is a version, too
        branch = self.dialogue.branch() if self.dialogue else ()
        return next((message for message in reversed(branch) if message.role == role), None)

    @on(Notebook.TokenUndone)
    def undo_token(self) -> None:
        """Take the model's last token back."""
        reached = self.reached()
        if reached and reached.tokens:
            left = "".join(token.text for token in reached.shorter)
            self.notebook.change([*reached.before, ("assistant", left)], reached.after)
        elif reached:
            self.notify("The tokens of this text were not kept: ctrl+z takes back the whole continuation.")
        else:
            self.notify("The text does not end with what the model wrote last.")

    async def after_reply(self, end: Ending) -> None:
        """Point at what can be seen of the first answer: at the first text there ever was."""
        await super().after_reply(end)
        if (
            self.kind == "completion"
            and self.figures.tokens
            and self.dialogue
            and self.dialogue.conversation in (None, 1)
        ):
            replies = [one for one in self.dialogue.messages() if one.role == "assistant"]
            if len(replies) == 1:
                self.show_tip(SURE)

    async def vary(self, n: int = 1) -> None:
        """Another version of what the model wrote last, where the text ends with it; otherwise a continuation."""
        if self.columns:
            await self.keep(self.columns.best)
        reached = self.reached()
        self.notebook.gap = bool(reached and reached.after)
        if reached:
            self.notebook.change(reached.before, reached.after)
        await self.ask(n)

    async def continue_from(self, said: Message, tokens: Sequence[Token]) -> None:
        """Another version of a reply, which begins with these tokens."""
        assert self.opened and self.dialogue
        self.dialogue.write(self.notebook.parts())
        branch = list(self.dialogue.branch())
        ids = [one.id for one in branch]
        number = self.dialogue.message(said.id).id
        if number not in ids:  # the text has become another one
            self.dialogue.select(number)
            branch = list(self.dialogue.branch())
            ids = [one.id for one in branch]
        place = ids.index(number)
        before = [(one.role, one.text) for one in branch[:place]]
        after = "".join(one.text for one in branch[place + 1 :]) if self.notebook.gaps else ""
        self.notebook.change([*before, ("assistant", "".join(token.text for token in tokens))], after)
        self.notebook.gap = bool(after)
        self.notebook.begin()
        if not await self.start(partial(self.dialogue.go_on, self.opened.engine, number, tokens, after=after)):
            self.notebook.finish()
            await self.show_branch()

    async def show_branch(self) -> None:
        if self.kind == "chat":
            return await super().show_branch()
        branch = self.dialogue.branch() if self.dialogue else ()
        self.notebook.change([(one.role, one.text) for one in branch], mark=self.version)

    @property
    def version(self) -> str:
        """Which of several versions of the model's last words is shown."""

        branch = self.dialogue.branch() if self.dialogue else ()
        return next((version(one) for one in reversed(branch) if one.role == "assistant"), "")
