"""Time and verify untried placements, while the user waits or in the background."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

from backends import BackendError, Placement
from chatapp.placement import record, selection
from chatapp.placement.calibration import Stopped, calibrate
from chatapp.placement.record import Measurement
from chatapp.placement.selection import PlacementOptions
from model_store import Progress, Store, StoredModel, StoreError, fit
from model_store.bandwidth import speed

Calibrate = Callable[..., Measurement]
QUIET = 5.0
"""Seconds without an answer after which nobody seems to wait for one."""


def measure_all(
    store: Store,
    model: StoredModel,
    options: PlacementOptions,
    *,
    anew: bool = False,
    on_progress: Progress | None = None,
    calibrate: Calibrate = calibrate,
) -> list[Measurement]:
    """The measurements of the placements that the options allow.

    Those without a measurement for these versions and this machine are measured and recorded one by one.
    """
    if options.backend:  # both raise before anything is measured
        selection.choose_on_backend(store, model, options, options.backend)
    selection.list_suitable(model, model.precision, options.device)
    if anew:
        record.forget_first_use(store, model)
    known = [] if anew else record.read(store.folder(model.name))
    fresh: list[Measurement] = []
    judged: list[Measurement] = []
    # A precision that fails everywhere is replaced by a finer one, and at last by the exact one.
    for precision in selection.list_precisions(model, options):
        placements = selection.list_placements(precision, options.device, backend=options.backend)
        every = [one for one in known if one.placement in placements]
        with TemporaryDirectory() as folder:
            reference = Path(folder) / "reference.npz"
            for number, placement in enumerate(placements, 1):
                if placement not in {one.placement for one in every}:
                    report = number_stage(on_progress, number, len(placements))
                    fresh.append(calibrate(store, model.name, placement, reference=reference, on_progress=report))
                    every.append(fresh[-1])
                    if any(not one.failure for one in every):  # a failure everywhere may not be the backends' fault
                        record.add(store, model, fresh)
        if options.precision:  # a named precision is used, right or wrong
            return every
        judged = selection.judge(store, model, every)
        if any(not one.failure for one in judged):
            break
    return judged


def number_stage(on_progress: Progress | None, number: int, count: int) -> Progress | None:
    """Progress through one of `count` placements."""
    if not on_progress:
        return None
    return lambda step, share: on_progress(f"finding the fastest backend ({number} of {count}): {step}", share)


def list_unmeasured(store: Store, model: StoredModel, options: PlacementOptions) -> list[Placement]:
    """The unmeasured placements, at the precision that would be chosen."""
    if options.backend:
        return []
    done = {one.placement for one in record.read(store.folder(model.name))}
    precision = selection.rank_runnable(store, model, options)[0].precision
    return [one for one in selection.list_suitable(model, precision) if one not in done]


class Measuring(Thread):
    """Measures placements in the background once all is quiet, at low priority, until `stopping` is set.

    Results so far are kept. If it finishes, `on_end` gets the ranking, best first.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        options: PlacementOptions,
        *,
        after: float = QUIET,
        on_end: Callable[[list[Measurement]], object] = lambda ranking: None,
    ) -> None:
        super().__init__(name="measuring", daemon=True)
        self.store, self.model, self.options, self.after, self.on_end = store, name, options, after, on_end
        self.stopping = Event()

    def __enter__(self) -> None:
        """Measure until the `with` ends; if the program ends then, it waits for the measuring process."""
        self.daemon = False
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stopping.set()

    def run(self) -> None:
        if self.stopping.wait(self.after):
            return
        with suppress(Stopped, BackendError, StoreError, OSError):  # nobody waits for it: `chatapp why` tells
            model = self.store.get(self.model)
            if self.options.backend or not room_for_another(model):
                return
            speed(self.store.root, again=True)
            if list_unmeasured(self.store, model, self.options):
                stoppable = partial(calibrate, stop=self.stopping)
                found = measure_all(self.store, model, self.options, calibrate=stoppable)
                self.on_end(selection.rank(found, self.options.objective))


def room_for_another(model: StoredModel) -> bool:
    """Whether memory suffices for another copy of the model, and for the reference."""
    return 3 * fit.memory_needed(fit.lowered_size(model.parameters, model.precision), 0) <= fit.memory()
