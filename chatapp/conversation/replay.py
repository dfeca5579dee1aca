"""Generates an answer again from its receipt and compares the tokens."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace

import chatapp
from chatapp.conversation.conversation import Dialogue
from chatapp.conversation.receipt import Asked
from chatapp.conversation.setup import options_of_json
from chatapp.generation import Deltas, Engine, Options, Token
from chatapp.history import HistoryError
from chatapp.history.rows import DECIMALS

LOGPROBS = 5
"""Alternatives requested per token, to find the log-probability that the old token has now."""


@dataclass(frozen=True)
class Comparison:
    """A saved answer compared token by token with the same answer generated again."""

    tokens: int
    """How many tokens were generated, without those it was given to begin with."""
    place: int | None = None
    """The index of the first token that differs; None if none does."""
    was: Token | None = None
    """The old token there; None if the old answer ended before it."""
    now: Token | None = None
    drift: float | None = None
    """The largest difference in log-probability before it; None if log-probabilities were not kept."""
    changed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What is different about the setup: name -> (then, now)."""

    @property
    def identical(self) -> bool:
        """Whether every token is the same."""
        return self.place is None

    @property
    def fell_to(self) -> float | None:
        """The log-probability that the old token has now; None if it is not among the alternatives."""
        found = self.now.alternatives if self.now and self.was else ()
        return next((one.logprob for one in found if self.was and one.id == self.was.id), None)


def replay(dialogue: Dialogue, engine: Engine, message: int) -> Comparison:
    """Generate an answer again up to the first token that differs; HistoryError says why that is impossible."""
    kept = dialogue.message(message)
    receipt = kept.usage.get("receipt")
    tokens = dialogue.tokens(message)
    if kept.role != "assistant" or not isinstance(receipt, Mapping) or not tokens:
        raise HistoryError(
            "this answer has no receipt: it was imported, edited, or written by an older chatapp; new answers have one"
        )
    try:
        asked = Asked(**{name: receipt[name] for name in asdict(Asked())})
        index, n, begun = int(receipt["index"]), int(receipt["n"]), int(receipt["begun"])
        options = Options(**options_of_json(receipt.get("options", kept.options)))
    except (KeyError, TypeError, ValueError) as error:
        raise HistoryError(f"the receipt of this answer is damaged ({error}); it cannot be recomputed") from error
    seed = kept.usage.get("seed")
    options = replace(options, n=n, seed=seed if isinstance(seed, int) else None, logprobs=LOGPROBS)
    before, given = dialogue.before(kept), [token.id for token in tokens[:begun]]
    said = [one.text for one in before] + [token.text for token in tokens[:begun]]
    text = "".join(said) if dialogue.kind == "completion" else None
    stream = asked.stream(engine, before, options, given, text)
    found = compare(tokens[begun:], stream, index, whole=kept.finish_reason in ("stop", "length"))
    here = {**engine.origin, "chatapp": chatapp.__version__}
    if usage := engine.last_usage:
        here |= {name: str(getattr(usage, name)) for name in ("backend", "device", "precision", "prompt_digest")}
    then = {name: str((receipt if name in receipt else kept.usage).get(name, "")) for name in here}
    changed = {name: (then[name], here[name]) for name in here if then[name] != here[name]}
    return replace(found, changed=changed)


def compare(tokens: Sequence[Token], stream: Deltas, index: int, *, whole: bool) -> Comparison:
    """Compare an answer's tokens with a stream; `whole` means that the answer ended by itself."""
    drifts, place = list[float](), 0
    with closing(stream):
        for delta in stream:
            for now in delta.tokens if delta.index == index else ():
                drift = max(drifts) if drifts else None
                if place == len(tokens):
                    return Comparison(len(tokens), place if whole else None, None, now if whole else None, drift)
                if now.id != tokens[place].id:
                    return Comparison(len(tokens), place, tokens[place], now, drift)
                if now.logprob is not None and (before := tokens[place].logprob) is not None:
                    drifts.append(abs(round(now.logprob, DECIMALS) - before))
                place += 1
    drift = max(drifts) if drifts else None
    if place < len(tokens):
        return Comparison(len(tokens), place, tokens[place], None, drift)
    return Comparison(len(tokens), drift=drift)
