"""A reply that another engine of the same model has begun: what it has written, and how it goes on here."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from chatapp.generation.options import Options


@dataclass(frozen=True)
class PartialReply:
    """What was written of a reply: it is said again at once, so that the rest is what that engine would have said.

    Random numbers are a matter of seed and place. But a text that is read at once is rounded a little otherwise than
    one that was written token by token: in a near tie another token can follow.
    """

    tokens: Sequence[int] = ()
    seed: int | None = None
    """Of a request that has chosen none."""

    def choose_seed(self, wanted: int | None) -> int:
        """The seed of the reply, where the request wants this one, or any."""
        known = self.seed if wanted is None else wanted
        return secrets.randbits(32) if known is None else known


NEW = PartialReply()


def can_resume(options: Options) -> bool:
    """Whether a reply can go on from its tokens: one alone, of which nothing else is remembered."""
    return options.n == 1 and options.num_beams == 1 and not options.mirostat_tau
