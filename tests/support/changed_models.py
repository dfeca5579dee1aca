"""Golden models that are not as their publishers say: each change of one feature."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from backends.decoder import Decoder, DeltaNet, Layer, Mamba, Rope, Weight
from model_store.checkpoint.checkpoint import Checkpoint
from model_store.checkpoint.rope import rope
from model_store.checkpoint.weights import Canonical, Family, Source, Transform
from model_store.convert import open_checkpoint
from model_store.families import deepseek_v2
from support.golden_logits import GOLDEN


@dataclass(frozen=True)
class Model:
    """What is changed: a golden model, taken apart."""

    checkpoint: Checkpoint
    family: Family
    decoder: Decoder
    weights: dict[str, Weight]


Change = Callable[[Model], Model]


@cache
def open_model(case: str) -> Model:
    """A golden model, which all who change it begin with."""
    parts = open_checkpoint(GOLDEN / case)
    return Model(*parts, dict(Canonical(*parts)))


def decoder(**values: Any) -> Change:
    """Other values of the decoder's fields."""
    return lambda model: replace(model, decoder=replace(model.decoder, **values))


def attention(change: Callable[[Layer], dict[str, Any]]) -> Change:
    """Other values of the fields of every layer's attention."""

    def apply(model: Model) -> Model:
        layers = tuple(replace(each, **change(each)) for each in model.decoder.layers)
        return replace(model, decoder=replace(model.decoder, layers=layers))

    return apply


def experts(**values: Any) -> Change:
    """Other values of the fields of the experts."""

    def apply(model: Model) -> Model:
        assert model.decoder.experts
        return decoder(experts=replace(model.decoder.experts, **values))(model)

    return apply


def others(weight: Weight) -> Weight:
    """A router whose rows are those of other experts."""
    return replace(weight, values=np.roll(np.asarray(weight.values), 1, axis=0))


def ones(weight: Weight) -> Weight:
    """A norm without weights."""
    return replace(weight, values=np.ones_like(weight.values))


def backwards(values: np.ndarray, layer: Layer) -> np.ndarray:
    return values.reshape(-1)[::-1]


def rows_backwards(values: np.ndarray, layer: Layer) -> np.ndarray:
    return values[::-1]


def without_last(values: np.ndarray, layer: Layer) -> np.ndarray:
    """A matrix whose inputs are as they are."""
    return values[:-1]


def kernel_backwards(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The newest token in the place of the oldest."""
    return values.reshape(len(values), -1)[:, ::-1] if values.ndim > 1 else values


def state_as_read(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Gates, values, keys and queries in the order in which they are published."""
    how = layer.recurrence
    assert isinstance(how, Mamba)
    return values[: how.channels + how.value_elements]


def first_steps(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The first gates in the place of the steps."""
    assert isinstance(layer.recurrence, Mamba)
    return values[: layer.recurrence.value_heads]


def state(**values: Any) -> Change:
    """Other values of the fields of every layer's state."""

    def change(each: Layer) -> dict[str, Any]:
        how = each.recurrence
        return {"recurrence": replace(how, **values)} if isinstance(how, Mamba | DeltaNet) else {}

    return attention(change)


def first_queries(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Queries and gates as if the former came first."""
    size = layer.heads * layer.head_dim
    return np.concatenate([values[:size], values[2 * size :]])


def queries_alone(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The queries in the place of the gates."""
    both = values.reshape(layer.heads, 2, layer.head_dim, *values.shape[1:])
    return both[:, 0].reshape(-1, *values.shape[1:])


def keys_rolled(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Keys whose elements are one place farther in each head."""
    keys, rest = np.split(deepseek_v2.expand(values, layer), [layer.heads * layer.head_dim])
    rolled = np.roll(keys.reshape(layer.heads, layer.head_dim, -1), 1, axis=1)
    return np.concatenate([rolled.reshape(keys.shape), rest])


def turned(change: Callable[[Rope], Rope]) -> Change:
    """Other rotary positions where there are any."""
    return attention(lambda each: {"rope": each.rope and change(each.rope)})


def turning_faster(each: Rope) -> Rope:
    """A part of a head that turns as if it were all of it; what turns as a whole stays."""
    still = each.inverse_frequencies.count(0.0)
    count = len(each.inverse_frequencies) - still
    frequencies = tuple(f ** (len(each.inverse_frequencies) / count) for f in each.inverse_frequencies[:count])
    return replace(each, inverse_frequencies=(*frequencies, *(0.0,) * still))


def plain(model: Model) -> Model:
    """Rotary positions as the same config.json describes them without any scaling."""
    config = model.checkpoint.config
    unscaled = {"rope_theta": config["rope_parameters"]["rope_theta"]}
    return attention(lambda each: {"rope": rope(unscaled, each.head_dim)})(model)


def truncated(model: Model) -> Model:
    """YaRN with whole numbers of turns."""
    config = model.checkpoint.config
    scaling = {name: value for name, value in config["rope_parameters"].items() if name != "truncate"}
    return attention(lambda each: {"rope": rope({**config, "rope_parameters": scaling}, each.head_dim)})(model)


def rotary(theta: float) -> Change:
    """Rotary positions on all of each head, alike on every layer."""
    return attention(lambda each: {"rope": rope({"rope_theta": theta}, each.head_dim)})


def window(width: Callable[[int], int]) -> Change:
    """Another window where there is one."""
    return attention(lambda each: {"window": each.window and width(each.window)})


def weights(change: Callable[[Weight], Weight | None], pattern: str) -> Change:
    """Other weights, or none, under the names that match."""

    def apply(model: Model) -> Model:
        kept = {name: weight for name, weight in model.weights.items() if not fnmatchcase(name, pattern)}
        found = {name: change(weight) for name, weight in model.weights.items() if name not in kept}
        return replace(model, weights=kept | {name: weight for name, weight in found.items() if weight})

    return apply


def without(pattern: str) -> Change:
    return weights(lambda weight: None, pattern)


def unbiased(pattern: str) -> Change:
    return weights(lambda weight: replace(weight, bias=None), pattern)


def negated(name: str) -> Change:
    return weights(lambda weight: replace(weight, values=-np.asarray(weight.values)), name)


def read(instead: dict[Transform, Transform | None], role: str) -> Change:
    """Read the checkpoint with other transforms, or none of those, for weights of one role."""

    def changed(source: Source) -> Source:
        if not isinstance(source, tuple):
            return source
        kept = (source[0], *(instead.get(each, each) for each in source[1:] if callable(each)))
        return tuple(part for part in kept if part)

    def apply(model: Model) -> Model:
        tables = {
            kind: {name: changed(source) if fnmatchcase(name, role) else source for name, source in table.items()}
            for kind, table in (("MODEL", model.family.MODEL), ("LAYER", model.family.LAYER))
        }
        family = cast(Family, SimpleNamespace(**{**vars(model.family), **tables}))  # a namespace in a module's place
        return replace(model, weights=dict(Canonical(model.checkpoint, family, model.decoder)))

    return apply


def last_rows(values: np.ndarray, layer: Layer) -> np.ndarray:
    return values[-deepseek_v2.latent_of(layer).rank :]


def first_rows(values: np.ndarray, layer: Layer) -> np.ndarray:
    return values[: deepseek_v2.latent_of(layer).turning]


def widened_before(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Zeros before the values of each head, and not after them."""
    if values.ndim == 1:
        return values
    wide = deepseek_v2.widened(values, layer).reshape(len(values), layer.heads, -1)
    return np.roll(wide, layer.head_dim - deepseek_v2.latent_of(layer).value, axis=2).reshape(len(values), -1)


def keep_the_last_two(values: np.ndarray, layer: Layer) -> np.ndarray:
    return values[:-2]


def other_heads_share(model: Model) -> Model:
    """Queries in another order, so that they meet other keys: every second one first."""

    def reorder(weight: Weight) -> Weight:
        layer = model.decoder.layers[0]
        q, others = np.split(np.asarray(weight.values), [layer.heads * layer.head_dim])
        heads = q.reshape(layer.heads, layer.head_dim, -1)
        mixed = np.concatenate([heads[::2], heads[1::2]]).reshape(q.shape)
        return replace(weight, values=np.concatenate([mixed, others]))

    return weights(reorder, "layers.*.qkv_proj")(model)


def norms_apart(model: Model) -> Model:
    """Queries and keys of each head normalised by itself, all with the weights of the first."""
    size = model.decoder.layers[0].head_dim
    cut = weights(lambda weight: replace(weight, values=np.asarray(weight.values)[:size]), "layers.*.[qk]_norm")
    return attention(lambda each: {"qk_norm": "head"})(cut(model))


def factor(place: int) -> Change:
    """Apertus's activation without one of its terms."""
    kept = np.arange(3) != place
    return weights(lambda weight: replace(weight, values=np.asarray(weight.values) * kept), "layers.*.xielu")


def before_instead_of_after(model: Model) -> Model:
    renamed = {name.replace("_sum_norm", "_norm"): weight for name, weight in model.weights.items()}
    return replace(model, weights=renamed)


def with_embedding_as_head(model: Model) -> Model:
    return replace(model, weights={**model.weights, "lm_head": model.weights["embedding"]})


def naive_slopes(each: Layer) -> dict[str, Any]:
    """A geometric series, as for a power of two."""
    return {"alibi": tuple(2 ** (-8 * (i + 1) / each.heads) for i in range(each.heads))}


def unsharpened(each: Layer) -> dict[str, Any]:
    return {"scale": each.head_dim**-0.5}
