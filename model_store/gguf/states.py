"""How GGUF files have the weights of layers that keep a state."""

from typing import Any

import numpy as np

from backends.decoder import Attention, DeltaNet

SIZES = {
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.time_step_rank": "linear_num_value_heads",
    "ssm.inner_size": "inner_size",
    "full_attention_interval": "full_attention_interval",
}
"""Keys of delta nets, and the fields of config.json that they are, but for the size of all values."""


def adjust(config: dict[str, Any]) -> None:  # Any: config.json's
    """The size of each value."""
    missing = [key for key, field in SIZES.items() if key.startswith("ssm.") and config.get(field, 0) < 1]
    if missing:
        raise ValueError(f"it does not tell the sizes of its states ({', '.join(missing)})")
    config["linear_value_head_dim"] = config.pop("inner_size") // config["linear_num_value_heads"]


def by_key(values: np.ndarray, how: DeltaNet, size: int) -> np.ndarray:
    """From rows whose heads have the keys' heads in turn to those where heads of one key are neighbours."""
    repeats, rest = how.value_heads // how.key_heads, values.shape[1:]
    return values.reshape(-1, repeats, how.key_heads, size, *rest).swapaxes(1, 2).reshape(values.shape)


def values_by_key(values: np.ndarray, attention: Attention) -> np.ndarray:
    """The same after all queries and keys: of values, and of gates where they follow."""
    how = delta_of(attention)
    keys = 2 * how.key_heads * how.key_size
    return np.concatenate([values[:keys], by_key(values[keys:], how, how.value_size)])


def heads_by_key(values: np.ndarray, attention: Attention) -> np.ndarray:
    """The same where each head has a number, or a row."""
    return by_key(values, delta_of(attention), 1)


def columns_by_key(values: np.ndarray, attention: Attention) -> np.ndarray:
    """The same of columns, in layers of the delta rule."""
    if not isinstance(how := attention.recurrence, DeltaNet):
        return values
    repeats = how.value_heads // how.key_heads
    return values.reshape(len(values), repeats, how.key_heads, -1).swapaxes(1, 2).reshape(values.shape)


def logarithms(values: np.ndarray, attention: Attention) -> np.ndarray:
    """The logarithms of rates, which files have with a minus before them."""
    if not (values < 0).all():
        raise ValueError("rates of a decay that are not below 0")
    return np.log(-np.asarray(values, np.float32))


def delta_of(attention: Attention) -> DeltaNet:
    how = attention.recurrence
    assert isinstance(how, DeltaNet)  # no other layer has such weights
    return how
