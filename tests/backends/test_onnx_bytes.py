"""ONNX Runtime's caches of bytes say nearly what those of floats say, whatever is done with them."""

from pathlib import Path

import numpy as np
import pytest

from backends.onnx import lowering
from backends.onnx.int8_cache import AFTER, LONG, NEVER, Scales
from backends.onnx.session import Session
from backends.quantize import PRECISIONS, Rounded
from support.golden_logits import golden, open_golden

ALONE = ("gpt2", "gpt2-layer_scale", "bloom", "mpt", "gpt_neo", "gpt_neox", "gptj", "opt", "biogpt", "persimmon")
"""Models whose heads share no keys: with learned positions, slopes, windows and rotary positions."""
NEAR, FAR = 0.06, 0.2
"""Root mean square differences, in spreads of the logits, of what is right and of what is not."""


def lower(case: str, folder: Path, precision: str = "int8") -> Path:
    decoder, weights = open_golden(case)
    lowering.lower(decoder, Rounded(weights, PRECISIONS[precision]), folder, precision)
    return folder


def pair(case: str, folder: Path) -> tuple[Session, Session]:
    """A session that holds floats, and one that holds bytes from eight tokens on."""
    lower(case, folder)
    floats, held = Session(folder), Session(folder)
    held.use_int8_from(8)
    return floats, held


def difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(((a - b) ** 2).mean()) / a.std())


@pytest.mark.parametrize("case", ALONE)
def test_bytes_say_what_floats_say(case: str, tmp_path: Path) -> None:
    floats, held = pair(case, tmp_path)
    tokens, worst = golden(case)[0], 0.0
    for rows, start, end in ((1, 0, 12), *((1, i, i + 1) for i in range(12, 20)), (1, 20, 24)):
        a, b = (one.forward(tokens[:rows, start:end], last=1).copy() for one in (floats, held))
        worst = max(worst, difference(a, b))
    assert held.held == "bytes_" and floats.held == "past_"
    assert 0 < worst < NEAR
    for one in floats, held:
        one.rewind(14)
        one.reorder([0, 0, 0])
        one.forward(tokens[:1, 14:15].repeat(3, 0))
        one.reorder([2, 1])
    a, b = (one.forward(tokens[:2, 15:16]).copy() for one in (floats, held))
    assert held.held == "bytes_" and difference(a, b) < NEAR


def test_a_part_of_a_prompt_is_read_with_floats_and_what_was_bytes_is_rounded_once_more_at_most(tmp_path: Path) -> None:
    _, held = pair("gpt2", tmp_path)
    tokens = golden("gpt2")[0]
    for part in np.split(tokens[:1, :12], [10, 11], axis=1):
        held.forward(part)
    found = []
    for _ in range(3):
        exported = held.export(0)
        assert exported is not None and {name[:5] for name in exported} == {"past_"}
        found.append({name: values.copy() for name, values in exported.items()})
        held.rewind(0)
        assert held.held == "past_"
        held.restore(tokens[0, :12].tolist(), found[-1])
        held.single = 1
        held.choose_cache(1)
        assert held.held == "bytes_"
    for name, values in found[1].items():
        scale = held.scales.values[name.replace("past_", "bytes_")][0]
        assert (np.abs(values - found[0][name]) <= scale / 2).all()
        assert np.array_equal(values, found[2][name])
    held.rewind(2)
    held.forward(tokens[:1, :20])  # more than a few
    assert held.held == "past_"


def test_a_batch_goes_on_from_bytes(tmp_path: Path) -> None:
    floats, held = pair("bloom", tmp_path)
    tokens, found = golden("bloom")[0], []
    for one in floats, held:
        for part in np.split(tokens[:1, :14], [12, 13], axis=1):
            one.forward(part)
        kept, batch = one.export(0), one.open_batch()
        assert kept and batch
        batch.join(kept, 14)
        found.append(batch.forward(tokens[:1, 14:15]).copy())
    assert held.held == "bytes_" and 0 < difference(*found) < NEAR


class Careless(Scales):
    """Scales that stay as they are, whatever comes."""

    def widen(self, caches: object, tokens: slice) -> bool:
        return False


@pytest.mark.parametrize("careless", [False, True])
def test_channels_that_grow_get_larger_scales(tmp_path: Path, careless: bool) -> None:
    floats, held = pair("gpt2", tmp_path)
    tokens = golden("gpt2")[0]
    for one in floats, held:
        for part in np.split(tokens[:1, :12], [10, 11], axis=1):
            one.forward(part)
    if careless:
        careful, held.scales = held.scales, Careless({})
        held.scales.values = careful.values
    for name, scale in held.scales.values.items():  # as if all before had been a sixty-fourth of what comes
        held.cache[name][:] = 0
        floats.cache[name.replace("bytes_", "past_")][:] = 0
        scale /= 64
    worst = max(
        difference(*(one.forward(tokens[:1, i : i + 1]).copy() for one in (floats, held))) for i in range(12, 20)
    )
    assert (worst > FAR) if careless else (worst < NEAR), worst


def test_scales_are_powers_of_two_that_leave_room(tmp_path: Path) -> None:
    scales = Scales({"x": (2, 8)})
    floats = np.random.default_rng(3).standard_t(3, (1, 2, 50, 8)).astype(np.float32)
    held = scales.round("x", floats)
    most = np.abs(held).max((0, 2))
    assert (most >= 42).all() and (most <= 85).all()
    assert np.array_equal(np.log2(scales.values["x"]), np.rint(np.log2(scales.values["x"])))
    assert np.abs(scales.restore("x", held) - floats).max() <= scales.values["x"].max() / 2
    before = scales.restore("x", held)
    held[0, 1, -1, 3] = 127
    assert scales.widen({"x": held}, slice(49, 50)) and not scales.widen({"x": held}, slice(49, 50))
    after = scales.restore("x", held)
    assert np.array_equal(np.delete(after[0, 1], 3, 1), np.delete(before[0, 1], 3, 1))
    assert np.abs(after - before)[0, 1, :-1, 3].max() <= scales.values["x"][0, 1, 0, 3] / 2


@pytest.mark.parametrize(("floats", "held", "turning", "missed"), [
    (0.010, 0.008, 0.05, False), (0.010, 0.0098, 0.05, True), (0.010, 0.011, 0.0, True), (0.010, 0.009, 0.2, True),
])  # fmt: skip
def test_bytes_that_an_answer_gains_nothing_by_are_left_off(
    tmp_path: Path, floats: float, held: float, turning: float, missed: bool
) -> None:
    session = Session(lower("gpt2", tmp_path))
    session.allow_int8(True)
    session.long_from = 8
    tokens = golden("gpt2")[0][:1].repeat(3, 1)
    session.forward(tokens[:, :10])
    for i in range(10, 28):
        session.forward(tokens[:, i : i + 1])
    assert session.held == "bytes_" and not session.gain.missed
    session.gain.converted(turning)
    session.gain.steps[False].extend([floats] * AFTER)
    session.gain.steps[True].extend([held] * (AFTER - 1))
    assert not session.gain.missed
    session.gain.steps[True].append(held)
    session.forward(tokens[:, 28:29])
    assert (session.held, session.long_from) == (("past_", NEVER) if missed else ("bytes_", 8))


def test_bytes_are_there_where_no_heads_share_keys_and_rounding_is_allowed(tmp_path: Path) -> None:
    for number, (case, precision, wanted) in enumerate(
        (("gpt2", "int8", True), ("gpt2", "int4", True), ("gpt2", "f32", False), ("llama", "int8", False))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        session = Session(lower(case, folder, precision))
        assert session.has_int8_cache == wanted, (case, precision)
        assert session.long_from == NEVER


def test_who_has_verified_them_allows_them_for_good(tmp_path: Path) -> None:
    session = Session(lower("gpt2", tmp_path))
    session.allow_int8(True)
    assert session.long_from == Session(tmp_path).long_from == LONG
    session.allow_int8(False)
    assert session.long_from == Session(tmp_path).long_from == NEVER
