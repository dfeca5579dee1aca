"""A reply that another engine of the same model has begun, and how it continues here."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from chatapp.generation.options import Options


@dataclass(frozen=True)
class PartialReply:
    """What was written of a reply; it is repeated at once, and continues as that engine would have.

    Random numbers depend on seed and position only. But tokens that are read at once are rounded slightly differently
    from tokens generated one by one, so that in a near tie the continuation may differ.
    """

    tokens: Sequence[int] = ()
    seed: int | None = None
    """The seed of a request that did not choose one."""

    def choose_seed(self, wanted: int | None) -> int:
        """The reply's seed; `wanted` is the request's, or None for any."""
        known = self.seed if wanted is None else wanted
        return secrets.randbits(32) if known is None else known


NEW = PartialReply()


def can_resume(options: Options) -> bool:
    """Whether a reply can be resumed from its tokens: a single completion without other state."""
    return options.n == 1 and options.num_beams == 1 and not options.mirostat_tau
