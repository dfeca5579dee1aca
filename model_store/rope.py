"""Rotary positions as numbers: inverse frequencies and an amplitude, whatever stretches them.

The kinds are those of transformers' modeling_rope_utils.
"""

import math
from collections.abc import Callable

from backends.decoder import Rope
from model_store.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint

Stretch = Callable[[list[float], Config, Config], tuple[list[float], float]]
"""Inverse frequencies, the scaling's fields and config.json -> stretched frequencies and the amplitude."""


def rope(config: Config, head_dim: int, *, partial: float = 1.0) -> Rope:
    """Rotary positions, on the first `partial` of each head, with the scaling that the checkpoint was trained for.

    Reads `rope_parameters` as well as the older spellings.
    """
    scaling = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    theta = scaling.get("rope_theta") or config.get("rope_theta") or config.get("rotary_emb_base") or 10_000.0
    shares = (where.get(name) for where in (scaling, config) for name in ("partial_rotary_factor", "rotary_pct"))
    share = next((share for share in shares if share is not None), partial)
    rotary = config.get("rotary_dim") or int(head_dim * share)
    if not 0 <= rotary <= head_dim:
        raise ValueError(f"{rotary} of the {head_dim} elements of a head cannot turn")
    frequencies = [theta ** (-2 * i / rotary) for i in range(rotary // 2)]
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if "short_factor" in scaling:
        kind = "longrope"  # the first Phi 3 call it "su" and "yarn"
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise UnsupportedCheckpoint(f"rotary positions scaled by {kind!r} are not supported (known: {known})")
    frequencies, amplitude = KINDS[kind](frequencies, {**scaling, "rope_theta": theta}, config)
    return Rope((*frequencies, *(0.0,) * ((head_dim - rotary) // 2)), amplitude)


def unscaled(frequencies: list[float], scaling: Config, config: Config) -> tuple[list[float], float]:
    """As they are."""
    return frequencies, 1.0


def linear(frequencies: list[float], scaling: Config, config: Config) -> tuple[list[float], float]:
    """All turns stretched alike."""
    return [frequency / scaling["factor"] for frequency in frequencies], 1.0


def llama3(frequencies: list[float], scaling: Config, config: Config) -> tuple[list[float], float]:
    """Llama 3.1: slow turns stretched, fast ones kept, a ramp between."""
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])

    def stretch(frequency: float) -> float:
        turns = float(scaling["original_max_position_embeddings"]) * frequency / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - low) / (high - low)))
        return frequency * (kept + (1 - kept) / float(scaling["factor"]))

    return [stretch(frequency) for frequency in frequencies], 1.0


def yarn(frequencies: list[float], scaling: Config, config: Config) -> tuple[list[float], float]:
    """YaRN, https://arxiv.org/abs/2309.00071: a ramp over the elements, and sharper attention."""
    size, theta = 2 * len(frequencies), float(scaling["rope_theta"])
    original = original_length(scaling, config)
    factor = scaling.get("factor") or config["max_position_embeddings"] / original

    def element(turns: float) -> float:
        """The element that turns so often within the original context."""
        return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = element(scaling.get("beta_fast") or 32), element(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    ramps = [min(1.0, max(0.0, (i - low) / ((high - low) or 0.001))) for i in range(len(frequencies))]
    stretched = [f * (1 - ramp) + f / factor * ramp for f, ramp in zip(frequencies, ramps, strict=True)]

    def sharper(share: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * share * math.log(factor) + 1

    if scaling.get("attention_factor"):
        return stretched, float(scaling["attention_factor"])
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return stretched, sharper(scaling["mscale"]) / sharper(scaling["mscale_all_dim"])
    return stretched, sharper(1.0)


def longrope(frequencies: list[float], scaling: Config, config: Config) -> tuple[list[float], float]:
    """Phi 3's LongRoPE: a factor for each element, one set for contexts up to the original and one beyond.

    transformers changes sets when a text outgrows the original context; cached keys cannot change, so the set
    is that of the whole context, which is the long one.
    """
    original = original_length(scaling, config)
    factor = scaling.get("factor") or config["max_position_embeddings"] / original
    factors = scaling["long_factor"] if config["max_position_embeddings"] > original else scaling["short_factor"]
    default = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    stretched = [frequency / each for frequency, each in zip(frequencies, factors, strict=True)]
    return stretched, float(scaling.get("attention_factor") or default)


def original_length(scaling: Config, config: Config) -> int:
    """The context before it was stretched."""
    spelled = "original_max_position_embeddings"
    return int(config.get(spelled) or scaling.get(spelled) or config["max_position_embeddings"])


KINDS: dict[str, Stretch] = {
    "default": unscaled,
    "dynamic": unscaled,  # it begins to stretch beyond max_position_embeddings, where our context ends
    "linear": linear,
    "llama3": llama3,
    "yarn": yarn,
    "longrope": longrope,
}
