"""The turns of a conversation: one question and its replies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from chatapp.conversation.receipt import Asked
from chatapp.generation import Delta, Deltas, FinishReason, Options, Reply, Token, ToolCall
from chatapp.generation.beam_tree import Beam, BeamTree
from chatapp.generation.text.tools import Listener
from chatapp.history import Message

BEGINNING = Delta()
"""What a turn tells before the model says anything."""


@dataclass
class Turn:
    """One question and its replies, begun and saved; draw `deltas` in any one thread, closing cancels.

    A turn that ends before the first token, cancelled or refused, is taken back: then nobody asked.
    """

    options: Options
    parent: int | None
    """The message that the replies follow."""
    before: int | None
    """The last message that was shown until now."""
    question: Message | None = None
    """The message just added; None where an answer is given again."""
    tokens: Sequence[Token] = ()
    """The tokens that the replies begin with."""
    after: str | None = None
    """The text that follows a reply, where it fills a gap."""
    resumed: Message | None = None
    """The reply that goes on in the same message, as it was cut off."""
    added: list[int] = field(default_factory=list)
    """The messages that there were not before, each after its parent."""
    replies: tuple[Message, ...] = ()
    """The begun replies: empty, or with the text they go on from."""
    deltas: Deltas = field(init=False)
    """What the model says, saved as it passes; one without tokens only tells that the model is at work."""
    listener: Listener | None = None
    """What finds calls of tools in the reply, where the model is offered some."""
    calls: tuple[ToolCall, ...] = ()
    """The tools that the reply calls; known when it has ended."""
    asked: Asked | None = None
    """What the model was asked; known once the first delta came."""
    left_out: int = 0
    """How many messages (of a text: lines) no longer fitted; known once the first delta came."""
    slides: bool = False
    """Whether the oldest of it could be left out, which was not wanted; known once the model was asked."""
    summarising: bool = False
    """Whether the model is writing the summary that takes their place."""
    withdrawn: bool = False
    """Whether it was taken back."""
    beams: BeamTree = field(default_factory=BeamTree)
    """What a beam search has looked at."""
    chosen: Beam | None = None
    """The text that its user takes of those that a search is looking at, when it is stopped; else the best."""
    taken: Sequence[Delta] = ()
    """What a search that was stopped has found; known when `deltas` is closed."""


def take_beams(turn: Turn, text_of: Callable[[Sequence[int]], str], opening: str) -> list[Delta]:
    """What the replies of a search that was stopped are: the texts that it has found so far, the chosen one first."""
    begun = [token.id for token in turn.tokens]
    found = [beam for beam in turn.beams.rank() if beam is not turn.chosen]
    deltas = []
    for index, beam in enumerate(([turn.chosen, *found] if turn.chosen else found)[: len(turn.replies)]):
        tokens = tuple(beam.spell(lambda own: text_of([*begun, *own]), turn.beams.steps))
        reason: FinishReason = "stop" if beam.state == "finished" else "cancelled"
        deltas.append(Delta(opening + "".join(one.text for one in tokens), index, tokens, reason))
    return deltas


def go_on_from(cut: Message, reply: Reply, latencies: Sequence[float]) -> None:
    """Let a reply go on from what is known of the tokens and the thinking of one that was cut off."""
    reply.latencies = list(latencies)
    tokens, seconds = cut.usage.get("thinking_tokens"), cut.usage.get("thinking_seconds")
    if isinstance(tokens, int) and isinstance(seconds, int | float):
        reply.thinking_tokens, reply.thinking_seconds = tokens, float(seconds)


def hold_back(turn: Turn, delta: Delta) -> Delta:
    """A delta as its reader is told it: what becomes a call of a tool is none of the text."""
    if not turn.listener or delta.channel != "text" and not delta.finish_reason:
        return delta
    told = turn.listener.add(delta.text) if delta.channel == "text" else delta.text
    if delta.finish_reason:
        rest, calls = turn.listener.end()
        told, turn.calls = told + rest, tuple(calls)
    return replace(delta, text=told)


def is_cut_off(message: Message) -> bool:
    """Whether this is an answer that did not end by itself: a limit, its user or a crash ended it."""
    cut = message.finish_reason in ("length", "cancelled") or not message.finished
    return message.role == "assistant" and bool(message.text) and cut


def is_unanswered(message: Message) -> bool:
    """Whether this is a question without an answer, or an answer that was never begun."""
    return message.role == "user" or (message.role == "assistant" and not (message.text or message.finished))
