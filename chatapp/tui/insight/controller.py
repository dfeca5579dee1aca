"""What can be seen of an answer: the probability and the latency of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chatapp.evaluation.measurements import Answer
from chatapp.tui.insight.heat import HeatScreen
from chatapp.tui.insight.latencies import LatencyScreen

if TYPE_CHECKING:
    from chatapp.generation import Token
    from chatapp.history import Message
    from chatapp.tui.chat.pane import Pane


def show_heat(pane: Pane, said: Message | None, index: int = 0) -> None:
    """Show how sure the model was of each token of an answer; None: of the one that is being written, or was last."""
    reply = pane.reply
    writing = reply is not None and (said is None or said.id == reply.turn.replies[index].id)
    said = said or pane.page.last("assistant")
    if not pane.dialogue or not (writing or said):
        return pane.notify("There is no answer yet whose tokens could be shown.")
    dialogue = pane.dialogue
    # While it is shown, another reply may begin.
    live = pane.newest.tokens[index] if pane.newest and (writing or pane.columns) else None
    reached = pane.page.reached() if live is None else None
    there = reached.tokens if reached and said and reached.reply.id == said.id else None

    def tokens() -> Sequence[Token]:
        if live is not None:
            return live
        if there is not None:
            return there
        return dialogue.tokens(said.id) if said else ()

    def growing() -> bool:
        return writing and pane.reply is reply

    async def take(chosen: tuple[Token, ...] | None) -> None:
        if chosen and said:
            await pane.go_on(said, chosen)

    if not tokens() and not writing:
        return pane.notify("The tokens of this answer were not kept: it was imported, or written without the screen.")
    pane.app.push_screen(HeatScreen(tokens, growing, pane.stop), take)


def show_latencies(pane: Pane, said: Message | None) -> None:
    """Show the latency of each token of an answer, as far as it is written; None: of the last one."""
    said = said or pane.page.last("assistant")
    if not pane.dialogue or not said:
        return pane.notify("There is no answer yet that was measured.")
    dialogue, reply = pane.dialogue, pane.reply
    writing = [one.id for one in reply.turn.replies] if reply else []
    if reply and said.id in writing:
        found = Answer.of(None, reply.tokens[writing.index(said.id)], model=pane.choice.model)
    else:
        found = Answer.of(said.usage, dialogue.tokens(said.id), dialogue.latencies(said.id), model=said.model)
    pane.app.push_screen(LatencyScreen(found))
