"""A turn of a conversation: one question and its replies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from chatapp.conversation.receipt import Asked
from chatapp.generation import Delta, Deltas, FinishReason, Options, Reply, Token, ToolCall
from chatapp.generation.beam_tree import Beam, BeamTree
from chatapp.generation.text.tools import Listener
from chatapp.history import Message

BEGINNING = Delta()
"""The empty delta a turn yields before the model generates anything."""


@dataclass
class Turn:
    """One question and its replies, already saved; iterate `deltas` in any one thread, close it to cancel.

    A turn that ends before the first token, because it was cancelled or refused, is removed again.
    """

    options: Options
    parent: int | None
    """The message that the replies follow."""
    before: int | None
    """The leaf that was shown before this turn."""
    question: Message | None = None
    """The message just added; None when an existing question is answered again."""
    tokens: Sequence[Token] = ()
    """The tokens that the replies are to begin with."""
    after: str | None = None
    """The text that follows the reply, when it fills a gap."""
    resumed: Message | None = None
    """The cut-off reply that is continued in the same message, as it was before."""
    added: list[int] = field(default_factory=list)
    """The ids of the messages this turn added, parents first."""
    replies: tuple[Message, ...] = ()
    """The replies as they began: empty, or with the text they continue."""
    deltas: Deltas = field(init=False)
    """The model's output, saved as it passes; a delta without tokens only signals that the model is at work."""
    listener: Listener | None = None
    """Finds tool calls in the reply, if tools were offered."""
    calls: tuple[ToolCall, ...] = ()
    """The tool calls of the reply; set when it has ended."""
    asked: Asked | None = None
    """What the model was asked; set at the first delta."""
    left_out: int = 0
    """How many messages (lines, of a text) did not fit the context; set at the first delta."""
    slides: bool = False
    """Whether the setup forbade leaving out older messages though some could be; set when the model is asked."""
    summarising: bool = False
    """Whether the model is now writing the summary of what was left out."""
    withdrawn: bool = False
    """Whether its messages were removed again."""
    beams: BeamTree = field(default_factory=BeamTree)
    """The beams that a beam search has explored."""
    chosen: Beam | None = None
    """The beam the user chose when stopping the search; None means the best."""
    taken: Sequence[Delta] = ()
    """The deltas of a search that was stopped; set when `deltas` is closed."""


def take_beams(turn: Turn, text_of: Callable[[Sequence[int]], str], opening: str) -> list[Delta]:
    """The replies of a beam search that was stopped: the best beams so far, the chosen one first."""
    begun = [token.id for token in turn.tokens]
    found = [beam for beam in turn.beams.rank() if beam is not turn.chosen]
    deltas = []
    for index, beam in enumerate(([turn.chosen, *found] if turn.chosen else found)[: len(turn.replies)]):
        tokens = tuple(beam.spell(lambda own: text_of([*begun, *own]), turn.beams.steps))
        reason: FinishReason = "stop" if beam.state == "finished" else "cancelled"
        deltas.append(Delta(opening + "".join(one.text for one in tokens), index, tokens, reason))
    return deltas


def resume_figures(cut: Message, reply: Reply, latencies: Sequence[float]) -> None:
    """Start a reply from the latencies and thinking figures of the one it continues."""
    reply.latencies = list(latencies)
    tokens, seconds = cut.usage.get("thinking_tokens"), cut.usage.get("thinking_seconds")
    if isinstance(tokens, int) and isinstance(seconds, int | float):
        reply.thinking_tokens, reply.thinking_seconds = tokens, float(seconds)


def hide_calls(turn: Turn, delta: Delta) -> Delta:
    """A delta as the reader sees it: text that belongs to a tool call is removed."""
    if not turn.listener or delta.channel != "text" and not delta.finish_reason:
        return delta
    told = turn.listener.add(delta.text) if delta.channel == "text" else delta.text
    if delta.finish_reason:
        rest, calls = turn.listener.end()
        told, turn.calls = told + rest, tuple(calls)
    return replace(delta, text=told)


def is_cut_off(message: Message) -> bool:
    """Whether this reply did not end by itself: a limit, the user or a crash ended it."""
    cut = message.finish_reason in ("length", "cancelled") or not message.finished
    return message.role == "assistant" and bool(message.text) and cut


def is_unanswered(message: Message) -> bool:
    """Whether this is a question, or a reply that was never begun."""
    return message.role == "user" or (message.role == "assistant" and not (message.text or message.finished))
