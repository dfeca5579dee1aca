"""chatapp.placement.measuring: what nobody has tried of a model's backends is measured while nobody waits."""

import pytest

from chatapp.placement import measuring, record
from chatapp.placement.measuring import Measuring
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from model_store import Store, bandwidth, fit
from support.checkpoints import HERE, MakeCheckpoint
from support.patience import PATIENCE, until


@pytest.fixture
def name(store: Store, checkpoint: MakeCheckpoint) -> str:
    return store.get(str(checkpoint())).name


def test_all_ways_are_measured_once_it_is_quiet_and_the_best_is_told(store: Store, name: str) -> None:
    told: list[str] = []
    open_engine(store, name, PlacementOptions())
    thread = Measuring(store, name, PlacementOptions(), after=0.0, on_end=lambda best: told.extend(map(str, best)))
    thread.start()
    thread.join(PATIENCE)
    assert len(told) == len(HERE)
    model = store.get(name)
    assert measuring.list_unmeasured(store, model, PlacementOptions()) == []
    assert all(one.verdict == "passed" for one in record.read(store.folder(name)))
    assert bandwidth.read(store.root).bandwidth > 0


def test_whoever_waits_ends_it_at_once_and_no_process_is_left(store: Store, name: str) -> None:
    thread = Measuring(store, name, PlacementOptions(), after=0.0)
    thread.start()
    until(lambda: list(store.folder(name).glob("*")), "the process to begin to lower")
    thread.stopping.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert measuring.list_unmeasured(store, store.get(name), PlacementOptions())


def test_nothing_begins_before_it_is_quiet_or_where_the_user_has_chosen(store: Store, name: str) -> None:
    with Measuring(store, name, PlacementOptions()):
        pass
    chosen = Measuring(store, name, PlacementOptions("onnx"), after=0.0)
    chosen.start()
    chosen.join(PATIENCE)
    assert not (store.folder(name) / record.RECORD).exists()


def test_what_does_not_fit_into_the_memory_a_second_time_is_not_measured(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "memory", lambda: 400_000_000)
    thread = Measuring(store, name, PlacementOptions(), after=0.0)
    thread.start()
    thread.join(PATIENCE)
    assert not (store.folder(name) / record.RECORD).exists()


def test_a_speed_is_kept_learns_from_models_and_does_not_follow_the_load(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurements = iter((20e9, 5e9, 30e9))
    monkeypatch.setattr(bandwidth, "measure", lambda: next(measurements))
    store.root.mkdir()
    assert [bandwidth.speed(store.root, again=again).bandwidth for again in (False, False, True, True)] == [
        20e9,
        20e9,
        20e9,
        30e9,
    ]
    weights = 1_500_000_000
    assert bandwidth.speed(store.root).tokens_per_second(weights) == pytest.approx(10)
    bandwidth.learn(store.root, weights, 0.2)  # 7.5 GB/s, a quarter of what the memory gives
    assert bandwidth.speed(store.root).tokens_per_second(weights) == pytest.approx(5)
    bandwidth.learn(store.root, 4_000_000, 0.2)  # small enough for caches: it says nothing
    assert bandwidth.speed(store.root).reached == (0.25,)
    (store.root / bandwidth.FILE).write_text("{")
    assert bandwidth.read(store.root) == bandwidth.Speed()
