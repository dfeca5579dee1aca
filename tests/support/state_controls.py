"""What must be seen of layers that keep states in the golden logits: changes, and the cases where."""

from support.changed_models import (
    Change,
    attention,
    decoder,
    experts,
    ones,
    others,
    rotary,
    state,
    turned,
    turning_faster,
    weights,
    without,
)
from support.golden_logits import RECURRENT

MAMBAS = [case for case in RECURRENT if case.startswith(("bamba", "falcon_h1", "granite", "nemotron_h"))]
NORMED = [case for case in MAMBAS if case != "falcon_h1-unnormed"]
DELTAS = [case for case in RECURRENT if case.startswith("qwen")]
MATRICES: dict[str, Change] = {
    "queries, keys, values and gates": weights(others, "layers.*.qkvz_proj"),
    "convolution": weights(others, "layers.*.convolution"),
    "decay": weights(others, "layers.*.decay"),
}
"""What both kinds of states have that are matrices."""
STATES: dict[str, tuple[str, Change]] = {
    "rotary positions on a part in lfm3": ("lfm3", turned(turning_faster)),
    "two rotations of lfm3": ("lfm3", rotary(500.0)),
    "convolution of lfm3": ("lfm3", weights(others, "layers.*.convolution")),
    **{f"gates of attention of {case}": (case, without("layers.*.attention_gate")) for case in ("afmoe", "lfm3")},
    "gates around the convolution": ("lfm2", weights(others, "layers.*.in_proj")),
    "convolution": ("lfm2", weights(others, "layers.*.convolution")),
    "normalised queries and keys of lfm2": ("lfm2", without("layers.*.[qk]_norm")),
    "rotary positions of lfm2": ("lfm2", rotary(1_000_000.0)),
    "all that was found is taken away in olmo_hybrid, and no more": ("olmo_hybrid", state(most=1.0)),
    "epsilon of the state of olmo_hybrid": ("olmo_hybrid", state(epsilon=1e-3)),
    "rates of olmo_hybrid": ("olmo_hybrid", weights(others, "layers.*.rates_proj")),
    "norm of the answers of olmo_hybrid": ("olmo_hybrid", weights(ones, "layers.*.value_norm")),
    "rotary positions of olmo_hybrid": ("olmo_hybrid", rotary(1_000_000.0)),
    "part that turns in bamba": ("bamba", turned(turning_faster)),
    **{
        f"{what} of {case}": (case, change)
        for case in DELTAS
        for what, change in {
            **MATRICES,
            "rates": weights(others, "layers.*.rates_proj"),
            "bias of the decay": weights(others, "layers.*.decay_bias"),
            "norm of the answers": weights(others, "layers.*.value_norm"),
            "gates of attention": without("layers.*.attention_gate"),
            "normalised queries": without("layers.*.q_norm"),
            "part that turns": rotary(500.0),
        }.items()
    },
    **{
        f"{what} of {case}": (case, change)
        for case in MAMBAS
        for what, change in {
            **MATRICES,
            "steps": weights(others, "layers.*.rates_proj"),
            "bias of the steps": weights(others, "layers.*.decay_bias"),
            "values as they are": weights(others, "layers.*.skip"),
        }.items()
    },
    **{
        f"{what} of {case}": (case, change)
        for case in NORMED
        for what, change in {
            "norm of the answers": weights(ones, "layers.*.value_norm"),
            "epsilon of the state": state(epsilon=1e-6),
        }.items()
    },
    **{
        f"{role} of {case}": (case, weights(change, f"layers.*.{role}"))
        for case in ("jamba", "jamba-experts")
        for role, change in {
            **dict.fromkeys(("in_proj", "convolution", "steps_down_proj", "steps_proj", "keys_proj"), others),
            **dict.fromkeys(("queries_proj", "decay", "skip"), others),
            **dict.fromkeys(("steps_down_norm", "keys_norm", "queries_norm"), ones),
        }.items()
    },
    "shares of jamba-experts as they are": ("jamba-experts", experts(normalised=True)),
    "state beside attention": ("falcon_h1", attention(lambda each: {"recurrence": None, "beside": False})),
    "what the state beside attention gives": ("falcon_h1", weights(others, "layers.*.state_o_proj")),
    "scaled output of falcon_h1": ("falcon_h1", decoder(output_scale=1.0)),
    **{
        f"feed-forwards behind some layers of {case}": (case, attention(lambda each: {"feeds": False}))
        for case in ("nemotron_h", "nemotron_h-biases")
    },
}
