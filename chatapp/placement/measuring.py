"""Time and verify what nobody has tried yet of a model's backends, while nobody waits for an answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread

from backends import BackendError
from chatapp.placement.calibration import Measured, Stopped, calibrate
from chatapp.placement.selection import Wish, measured, ranked, unmeasured
from model_store import Store, StoredModel, StoreError, fit
from model_store.bandwidth import speed

QUIET = 5.0
"""Seconds without an answer after which nobody is taken to wait for one."""


class Measuring(Thread):
    """Measures a model's backends once all is quiet, in processes that give way to others, until `stopping` is set.

    What has been measured by then is kept. At its end `on_end` is told the ranking, the best first, if it got there.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        wish: Wish,
        *,
        after: float = QUIET,
        on_end: Callable[[list[Measured]], object] = lambda ranking: None,
    ) -> None:
        super().__init__(name="measuring", daemon=True)
        self.store, self.model, self.wish, self.after, self.on_end = store, name, wish, after, on_end
        self.stopping = Event()

    def run(self) -> None:
        if self.stopping.wait(self.after):
            return
        with suppress(Stopped, BackendError, StoreError, OSError):  # nobody waits for it: whoever asks `why` is told
            model = self.store.get(self.model)
            if self.wish.backend or not room_for_another(model):
                return
            speed(self.store.root, again=True)
            if unmeasured(self.store, model, self.wish):
                found, _ = measured(self.store, model, self.wish, calibrate=partial(calibrate, stop=self.stopping))
                self.on_end(ranked(found, self.wish.objective))


def room_for_another(model: StoredModel) -> bool:
    """Whether the memory holds a model once more, beside the one that answers, and what it is compared with."""
    return 3 * fit.memory_needed(fit.lowered_size(model.parameters, model.precision), 0) <= fit.memory()


@contextmanager
def measuring(store: Store, name: str, wish: Wish) -> Iterator[None]:
    """Inside, a model's backends are measured once it has been quiet."""
    thread = Measuring(store, name, wish)
    thread.daemon = False  # leaving waits until its process is gone; the next answer, or Ctrl+C, does not
    thread.start()
    try:
        yield
    finally:
        thread.stopping.set()
