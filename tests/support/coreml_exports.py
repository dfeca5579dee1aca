"""Decoders exported as Core ML packages in the forms that are published: with states, and with a window."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.coreml.cache import Cache, Reading, Slices, named
from backends.coreml.inputs import KINDS, MASKED, Kind, Lowered, Package
from backends.coreml.lowering import PASSES, Ops, Plain
from backends.coreml.stored import Stored
from backends.coreml.tools import Function, Program, StateTensorPlaceholder, Var, coremltools, mb, types
from backends.decoder import Decoder, Weight, Weights
from backends.forward import forward

WINDOW = 64
"""Tokens of a text; a size that varies goes up to this."""
TYPES = {"int": (types.int32, np.int32), "float": (types.fp16, np.float16)}


@dataclass(frozen=True)
class Form:
    """Inputs with their types and sizes, of which those with the same letter vary together."""

    inputs: Mapping[str, tuple[str, tuple[int | str, ...]]]
    states: tuple[str, ...] = ()
    """One array of all layers each; none for one of every layer."""


FORMS = {
    "llama": Form(
        {"inputIds": ("int", (1, "q")), "causalMask": ("float", (1, 1, "q", "e"))}, ("keyCache", "valueCache")
    ),
    "blocks": Form({"input_ids": ("int", (1, 8)), "causalMask": ("float", (1, 1, 8, "e"))}, ("keyCache", "valueCache")),
    "newest": Form(
        {"input_ids": ("int", (1, "q")), "causalMask": ("float", (1, 1, "q", "e"))}, ("keyCache", "valueCache")
    ),
    "steps": Form(
        {"input_ids": ("int", (1, 1)), "current_pos": ("int", (1,)), "causal_mask": ("float", (1, 1, 1, WINDOW))}
    ),
    "window": Form({"input_ids": ("int", (1, WINDOW)), "attention_mask": ("int", (1, WINDOW))}),
    "growing": Form({"input_ids": ("int", (1, "q")), "attention_mask": ("int", (1, "q"))}),
    "wanted": Form({"input_ids": ("int", (1, WINDOW)), "output_mask": ("int", (1,))}),
}
"""As Apple published Llama 3.1; the same with eight tokens at once, and with the logits of the last one only; one token
at a time; a window that is padded, with the logits of all tokens; one as long as the text, with those of the last one;
and one with those of the token that is wanted."""


class Flowing(Plain):
    """Hidden states of any number of tokens."""

    def heads(self, x: Var, count: int, head_dim: int) -> Var:
        return mb.transpose(x=mb.reshape(x=x, shape=[1, -1, count, head_dim]), perm=[0, 2, 1, 3])

    def joined(self, x: Var) -> Var:
        _, heads, _, head_dim = x.shape
        joined = mb.transpose(x=x, perm=[0, 2, 1, 3])
        return mb.reshape(x=joined, shape=[1, -1, heads * self.size])

    size = 0
    """Of a head, which a graph of varying sizes forgets."""


class Stacked(Cache):
    """States (layers, 1, heads, WINDOW, size), written from `begin` to `end` and read up to there."""

    def __init__(self, lowered: Lowered, inputs: Mapping[str, Var], begin: Var, end: Var):
        super().__init__(lowered, inputs, 1)
        self.begin, self.end = begin, end

    def extended(self, kind: Kind, layer: int, fresh: Var) -> Var:
        state, heads, size = self.inputs[f"{kind}Cache"], self.layers[layer].kv_heads, self.layers[layer].head_dim
        first, last = whole(layer, 0, 0), whole(layer + 1, 1, heads)
        begin, end = join(first, self.begin, whole(0)), join(last, self.end, whole(size))
        new = mb.reshape(x=fresh, shape=[1, 1, heads, -1, size])
        written = mb.slice_update(x=mb.read_state(input=state), update=new, begin=begin, end=end)
        updated = mb.coreml_update_state(state=state, value=written)
        seen = mb.slice_by_index(x=updated, begin=join(first, whole(0, 0)), end=end)
        return mb.reshape(x=seen, shape=[1, heads, -1, size])


class Exported(Ops):
    """Operations of a graph that looks up its tokens itself."""

    def __init__(self, decoder: Decoder, inputs: Mapping[str, Var], cache: Cache, tokens: Var, positions: Var):
        super().__init__(decoder, Package("plain", "slice"), inputs, cache)
        self.layout, self.tokens, self.positions = Flowing(), tokens, positions
        self.layout.size = decoder.layers[0].head_dim

    def embed(self, table: Weight, index: Var) -> Var:
        return mb.gather(x=self.constant(f"{table.name}.table", np.asarray(table.values)), indices=index, axis=0)

    def last(self, x: Var) -> Var:
        return mb.gather(x=x, indices=self.inputs["wanted"], axis=1) if "wanted" in self.inputs else x


def whole(*numbers: int) -> np.ndarray:
    """A constant vector of whole numbers."""
    return np.array(numbers, np.int32)


def join(*parts: Var) -> Var:
    """One vector of several."""
    return mb.concat(values=list(parts), axis=0)


def length(x: Var, axis: int) -> Var:
    """The size of an axis, (1,)."""
    return mb.slice_by_index(x=mb.shape(x=x), begin=[axis], end=[axis + 1])


def graph(decoder: Decoder, weights: Weights, form: str, inputs: Mapping[str, Var]) -> Var:
    """The logits of an export in one of the forms."""
    lowered = Lowered(decoder, "f16", capacity=WINDOW, chunk=1)
    given, cache = dict(inputs), Cache(lowered, inputs, 1)
    tokens = given.get("input_ids", given.get("inputIds"))
    every = mb.const(val=np.arange(WINDOW, dtype=np.int32))
    positions = every
    if form in ("newest", "growing"):
        given["wanted"] = mb.sub(x=length(tokens, 1), y=whole(1))
    elif form == "wanted":
        given["wanted"] = given["output_mask"]
    if "causalMask" in given:
        end = length(given["causalMask"], 3)
        begin = mb.sub(x=end, y=length(tokens, 1))
        cache, positions = Stacked(lowered, inputs, begin, end), mb.slice_by_index(x=every, begin=begin, end=end)
        given["mask_0"] = given["causalMask"]
    elif form == "steps":
        cache, positions = Slices(lowered, {**given, "start": given["current_pos"]}, 1), given["current_pos"]
        given["mask_0"] = given["causal_mask"]
    else:
        cache = Reading(lowered, inputs, 1)
        given["mask_0"] = mb.const(val=np.triu(np.full((1, 1, WINDOW, WINDOW), MASKED, np.float16), 1))
        if form == "growing":
            end = length(tokens, 1)
            positions = mb.slice_by_index(x=every, begin=[0], end=end)
            given["mask_0"] = mb.slice_by_index(x=given["mask_0"], begin=[0] * 4, end=join(whole(1, 1), end, end))
    if "attention_mask" in given:
        hidden = mb.sub(x=np.float16(1), y=mb.cast(x=given["attention_mask"], dtype="fp16"))
        hidden = mb.reshape(x=mb.mul(x=hidden, y=np.float16(MASKED)), shape=[1, 1, 1, -1])
        given["mask_0"] = mb.add(x=given["mask_0"], y=hidden)
    return forward(decoder, weights, Exported(decoder, given, cache, tokens, mb.reshape(x=positions, shape=[1, -1])))


def export(decoder: Decoder, weights: Weights, package: Path, form: str) -> None:
    """Write `decoder` as a package in one of the forms."""
    found, layers = FORMS[form], decoder.layers
    letters = {size for _, sizes in found.inputs.values() for size in sizes if isinstance(size, str)}
    symbols: dict[int | str, Var] = {
        letter: coremltools.converters.mil.mil.get_new_symbol() for letter in sorted(letters)
    }
    ranges: dict[int | str, Var] = {letter: coremltools.RangeDim(1, WINDOW, 1) for letter in letters}
    specs = {
        name: mb.TensorSpec(tuple(symbols.get(size, size) for size in sizes), TYPES[kind][0])
        for name, (kind, sizes) in found.inputs.items()
    }
    room = 1, layers[0].kv_heads, WINDOW, layers[0].head_dim
    states: dict[str, tuple[int, ...]] = {name: (len(layers), *room) for name in found.states}
    if form == "steps":
        states = {f"{kind}_{i}": room for kind in KINDS for i in range(len(layers))}
    specs |= {name: StateTensorPlaceholder(shape, types.fp16) for name, shape in states.items()}
    with Function(specs, opset_version=coremltools.target.iOS18) as built:
        built.set_outputs([named(graph(decoder, Stored(weights), form, built.inputs), "logits")])
    program = Program()
    program.add_function("main", built)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as lowering.convert does
        coremltools.convert(
            program,
            source="milinternal",
            convert_to="mlprogram",
            inputs=[
                coremltools.TensorType(name, tuple(ranges.get(size, size) for size in sizes), dtype=TYPES[kind][1])
                for name, (kind, sizes) in found.inputs.items()
            ],
            minimum_deployment_target=coremltools.target.iOS18,
            compute_precision=coremltools.precision.FLOAT32,
            pass_pipeline=coremltools.PassPipeline(list(PASSES), "exports"),
            skip_model_load=True,
            package_dir=str(package),
        )
