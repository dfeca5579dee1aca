"""Rotary position embeddings as numbers: inverse frequencies and an amplitude, with all kinds of scaling.

The kinds are those of transformers' modeling_rope_utils.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from backends.decoder import Rope
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint, cut

Stretch = Callable[[list[float], Config, Config], Rope]
"""(inverse frequencies, the scaling's fields, config.json) -> the scaled rotation."""

UNSCALED: Config = {"rope_scaling": None, "rope_parameters": None}
"""Fields of a config.json without scaling of positions."""


def rope(config: Config, head_dim: int, *, partial: float | None = None, theta: float = 10_000.0) -> Rope:
    """The rotation with the checkpoint's scaling, read as transformers reads it.

    Only for families that say so, `partial` of each head rotates, unless the scaling's fields say otherwise.
    """
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if any(isinstance(value, dict) for value in scaling.values()):
        raise UnsupportedCheckpoint("rotary positions of several kinds are not supported here (rope_parameters)")
    scaling = {name: value for name, value in scaling.items() if value is not None}
    theta = scaling.get("rope_theta") or config.get("rope_theta") or theta
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise UnsupportedCheckpoint(f"rotary positions scaled by {cut(kind)} are not supported (known: {known})")
    asked = scaling.get("partial_rotary_factor")
    if (
        partial is None
        and kind not in ("default", "proportional")
        and (asked or config.get("partial_rotary_factor") or 1) != 1
    ):
        raise UnsupportedCheckpoint(
            f"rotary positions scaled by {kind!r} on a part of each head are not supported here"
        )
    share = 1.0 if partial is None else partial if asked is None else asked
    frequencies = turning(int(head_dim * share), head_dim, theta)
    return padded(KINDS[kind](frequencies, {**scaling, "rope_theta": theta}, config), head_dim)


def far_and_near(
    config: Config, head_dim: int, *, theta: float, near_theta: float, partial: float | None = None
) -> tuple[Rope, Rope]:
    """The rotations of layers without a window, and with one, which `rope_scaling` does not affect."""
    both = config.get("rope_parameters") or {}
    full = {**(both.get("full_attention") or {}), **(config.get("rope_scaling") or {})}
    near = both.get("sliding_attention") or {}
    own = {name: config.get(name) for name in ("max_position_embeddings", "original_max_position_embeddings")}
    far = {**own, "rope_theta": config.get("rope_theta"), "rope_scaling": full}
    close = {**own, "rope_theta": config.get("rope_local_base_freq"), "rope_scaling": near}
    return rope(far, head_dim, theta=theta, partial=partial), rope(close, head_dim, theta=near_theta, partial=partial)


def turning(rotary: int, head_dim: int, theta: float) -> list[float]:
    """The inverse frequencies of `rotary` elements of a head, one per pair."""
    if not 0 <= rotary <= head_dim or head_dim % 2:
        raise ValueError(f"{rotary} of the {head_dim} elements of a head cannot turn")
    return [theta ** (-2 * i / rotary) for i in range((rotary + 1) // 2)]


def padded(stretched: Rope, head_dim: int) -> Rope:
    """Extend a rotation of a head's first elements to the whole head."""
    still = (0.0,) * (head_dim // 2 - len(stretched.inverse_frequencies))
    long = (*stretched.long, *still) if stretched.long else ()
    return replace(stretched, inverse_frequencies=(*stretched.inverse_frequencies, *still), long=long)


def unscaled(frequencies: list[float], scaling: Config, config: Config) -> Rope:
    """No scaling."""
    return Rope(tuple(frequencies))


def linear(frequencies: list[float], scaling: Config, config: Config) -> Rope:
    """Linear scaling: all frequencies divided by one factor."""
    return Rope(tuple(frequency / scaling["factor"] for frequency in frequencies))


def proportional(frequencies: list[float], scaling: Config, config: Config) -> Rope:
    """Gemma 4: part of a head rotates, with the first frequencies of a fully rotary head."""
    turning = int(scaling.get("partial_rotary_factor", 1.0) * len(frequencies))
    return linear(frequencies[:turning], {"factor": scaling.get("factor", 1.0)}, config)


def llama3(frequencies: list[float], scaling: Config, config: Config) -> Rope:
    """Llama 3.1: low frequencies scaled, high ones kept, a ramp between."""
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])

    def stretch(frequency: float) -> float:
        turns = original_length(scaling, config) * frequency / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - low) / (high - low)))
        return frequency * (kept + (1 - kept) / float(scaling["factor"]))

    return Rope(tuple(map(stretch, frequencies)))


def yarn(frequencies: list[float], scaling: Config, config: Config) -> Rope:
    """YaRN, https://arxiv.org/abs/2309.00071: a ramp over the elements, and sharper attention."""
    size, theta = 2 * len(frequencies), float(scaling["rope_theta"])
    original = original_length(scaling, config)
    factor = scaling.get("factor") or config["max_position_embeddings"] / original

    def element(turns: float) -> float:
        """The element that makes `turns` rotations within the original context."""
        return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = element(scaling.get("beta_fast") or 32), element(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    ramps = [min(1.0, max(0.0, (i - low) / ((high - low) or 0.001))) for i in range(len(frequencies))]
    stretched = tuple(f * (1 - ramp) + f / factor * ramp for f, ramp in zip(frequencies, ramps, strict=True))

    if scaling.get("attention_factor") is not None:
        return Rope(stretched, float(scaling["attention_factor"]))
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return Rope(stretched, sharper(factor, scaling["mscale"]) / sharper(factor, scaling["mscale_all_dim"]))
    return Rope(stretched, sharper(factor))


def sharper(factor: float, share: float = 1.0) -> float:
    """YaRN's factor for queries and keys."""
    return 1.0 if factor <= 1 else 0.1 * share * math.log(factor) + 1


def longrope(frequencies: list[float], scaling: Config, config: Config) -> Rope:
    """Phi 3's LongRoPE, https://arxiv.org/abs/2402.13753: a factor per element, different in long texts."""
    original, context = original_length(scaling, config), config["max_position_embeddings"]
    for name in ("short_factor", "long_factor"):
        if (given := len(scaling[name])) != len(frequencies):
            raise ValueError(f"{name} has {given} factors, and {len(frequencies)} pairs of a head's elements turn")
    short, long = (
        tuple(frequency / factor for frequency, factor in zip(frequencies, scaling[name], strict=True))
        for name in ("short_factor", "long_factor")
    )
    factor, amplitude = scaling.get("factor") or context / original, scaling.get("attention_factor")
    if amplitude is None:
        amplitude = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    alike = long == short or context <= original
    return Rope(short, float(amplitude)) if alike else Rope(short, float(amplitude), long, original)


def original_length(scaling: Config, config: Config) -> int:
    """The original context length."""
    spelled = "original_max_position_embeddings"
    return int(config.get(spelled) or scaling.get(spelled) or config["max_position_embeddings"])


KINDS: dict[str, Stretch] = {
    "default": unscaled,
    "dynamic": unscaled,  # it scales only beyond max_position_embeddings, where our context ends
    "linear": linear,
    "proportional": proportional,
    "llama3": llama3,
    "yarn": yarn,
    "longrope": longrope,
}
