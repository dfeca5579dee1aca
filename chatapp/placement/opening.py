"""Open a model where its user wishes or, if one is free to choose, where it runs best."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial

import numpy as np

import backends
from backends import Placement, Session
from chatapp.generation.engine import Engine
from chatapp.generation.fallback import FallbackSession
from chatapp.generation.load import load_engine
from chatapp.placement import record
from chatapp.placement.record import FIRST_USE, Measurement
from chatapp.placement.selection import PlacementOptions, choose_on_backend, rank_runnable
from model_store import Progress, Store, StoredModel, Variant, write_json


def open_engine(
    store: Store,
    name: str,
    options: PlacementOptions,
    *,
    on_progress: Progress | None = None,
    on_fallback: Callable[[str], object] = lambda reason: None,
) -> Engine:
    """Open the model called `name` where the user wishes or, if one is free to choose, where it runs best.

    Then a placement that fails gives way to the next best, and `on_fallback` is told. Raises StoreError or
    BackendError, with a message for the user.
    """
    model = store.get(name)
    if options.backend:
        ranking = [choose_on_backend(store, model, options, options.backend)]
    else:
        ranking = rank_runnable(store, model, options)
    chosen = ranking[0].precision
    if not options.precision and chosen != model.precision:
        on_fallback(
            f"{model.name} fails at {model.precision} here and runs at {chosen} (see: chatapp show {model.name})"
        )
    variants: list[Variant] = []
    failed: list[Measurement] = []
    tried = {one.placement for one in record.read(store.folder(model.name))}

    def open_placement(placement: Placement) -> Session:
        variants.append(store.lowered(model, placement.backend, placement.precision, on_progress))
        folder, device = variants[-1].folder, placement.device
        backends.prepare(placement.backend, folder, device=device, on_progress=on_progress)
        load = partial(backends.get(placement.backend).load, folder, device=device)
        if options.backend or placement in tried:
            return load()
        try:
            return use_first(store, model, placement, load)
        except Exception as error:  # a foreign runtime raises what it likes
            failed.append(Measurement(placement, failure=str(error) or type(error).__name__))
            raise

    def open_session() -> tuple[Session, float]:
        session = FallbackSession([partial(open_placement, one) for one in ranking], on_fallback)
        if failed:  # and another did not: it is the backend's fault, and not tried again
            record.add(store, model, failed)
        return session, sum(variant.seconds for variant in variants)

    return load_engine(store, model, open_session)


def use_first(store: Store, model: StoredModel, placement: Placement, load: Callable[[], Session]) -> Session:
    """Load a placement for the first time, and compute a token; where that ends the process, a note of it stays."""
    folder = store.folder(model.name)
    note = folder / FIRST_USE
    before, times = record.read_first_use(folder)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(note, {"placement": asdict(placement), "times": times + 1 if before == placement else 1})
    try:
        session = load()
        session.forward(np.zeros((1, 1), np.int64))
        session.rewind(0)
        return session
    finally:
        with suppress(OSError):
            note.unlink(missing_ok=True)
