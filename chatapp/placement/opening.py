"""Open a model where the user wants it, or where it runs best, with fallback to the next best."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TypeVar

import numpy as np

import backends
from backends import KeyValues, Placement, Session, check_call, check_parents, check_rewind
from backends.memory import memory, overflows_memory
from backends.rereading import RememberingSession, replay
from chatapp.generation.engine import Engine
from chatapp.generation.options import published_options
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import open_tokenizer
from chatapp.placement import record
from chatapp.placement.record import FIRST_USE, Measurement
from chatapp.placement.selection import PlacementOptions, choose_on_backend, rank_runnable
from model_store import Progress, Store, StoredModel, StoreError, Variant, write_json
from model_store.disk import amount, size_of

Opener = Callable[[], Session]
Result = TypeVar("Result")
NEXT = "; trying the next best"
"""The end of messages about a failed backend."""


def open_engine(
    store: Store,
    name: str,
    options: PlacementOptions,
    *,
    on_progress: Progress | None = None,
    on_fallback: Callable[[str], object] = lambda reason: None,
) -> Engine:
    """Open the model `name` where the user wants it or, if that is left open, where it runs best.

    In the latter case a failure falls back to the next best, after calling `on_fallback`. Raises StoreError or
    BackendError.
    """
    model = store.get(name)
    ranking = rank_wanted(store, model, options, on_fallback)
    variants, failed = list[Variant](), list[Measurement]()
    tried = {one.placement for one in record.read(store.folder(model.name))}

    def open_placement(placement: Placement) -> Session:
        variants.append(store.lowered(model, placement.backend, placement.precision, on_progress))
        folder, device = variants[-1].folder, placement.device
        if overflows_memory(weights := size_of(folder)):
            on_fallback(tell_overflow(model.name, placement.precision, weights))
        backends.prepare(placement.backend, folder, device=device, on_progress=on_progress)
        load = partial(backends.get(placement.backend).load, folder, device=device)
        if options.backend or placement in tried:
            return load()
        try:
            return use_first(store, model, placement, load)
        except Exception as error:  # runtimes raise anything
            failed.append(Measurement(placement, failure=str(error) or type(error).__name__))
            raise

    start = time.perf_counter()
    # The tokenizer first: the session can then use the memory that reading it took.
    tokenizer, defaults = open_tokenizer(model.folder, store.tokenizer(model)), published_options(model.folder)
    template = ChatTemplate(model.folder) if model.chats else None
    openers = [partial(open_placement, one) for one in ranking]
    session = FallbackSession(openers, lambda why: on_fallback(f"{why}{NEXT}"))
    lowering = sum(variant.seconds for variant in variants)
    load = time.perf_counter() - start - lowering
    if failed:  # another one works: it is the backend's fault, not to be tried again
        record.add(store, model, failed)
    return Engine(
        session,
        tokenizer,
        template,
        defaults=defaults,
        load_seconds=load,
        lowering_seconds=lowering,
        origin=lambda: {"digest": str(variants[-1].made.get("digest", "")), "signature": variants[-1].signature},
    )


def tell_overflow(name: str, precision: str, weights: int) -> str:
    """The warning about a model with `weights` bytes of weights, more than the memory holds."""
    return (
        f"{name} needs {amount(weights)} at {precision}, and this machine has {amount(memory())} of memory: it will be"
        " slow, because weights are read from disk over and over; try a smaller --precision"
    )


def rank_wanted(
    store: Store, model: StoredModel, options: PlacementOptions, on_fallback: Callable[[str], object]
) -> list[Placement]:
    """The placements to try, best first; `on_fallback` is told if the model's usual precision fails."""
    if options.backend:
        ranking = [choose_on_backend(store, model, options, options.backend)]
    else:
        ranking = rank_runnable(store, model, options)
    chosen = ranking[0].precision
    if not options.precision and chosen != model.precision:
        on_fallback(
            f"{model.name} fails at {model.precision} here and runs at {chosen}; to see why: chatapp show {model.name}"
        )
    return ranking


def use_first(store: Store, model: StoredModel, placement: Placement, load: Opener) -> Session:
    """Load a placement for the first time, and compute a token; if that kills the process, a record remains."""
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


class FallbackSession(RememberingSession):
    """The first of several sessions that works; remembers the tokens, so that another can take over."""

    def __init__(self, openers: Sequence[Opener], on_fallback: Callable[[str], object]):
        """Open the first that opens; `on_fallback` is called with the reason for every switch."""
        self.others, self.on_fallback = list(openers), on_fallback
        self.rows = []
        self.first = 0
        """Tokens of the first call, which an encoder must read alone."""
        self.go_before(self.open_next())

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        logits = self.attempt(lambda session: session.forward(tokens, last))
        if not self.rows:
            self.first = count
        self.remember(tokens)
        return logits

    def rewind(self, length: int) -> None:
        check_rewind(length, self.length, self.first if self.whole_prompts else 0)
        self.attempt(lambda session: session.rewind(length))
        self.rows = [row[:length] for row in self.rows] if length else []
        self.first = min(self.first, length)

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(parents, self.batch)
        self.attempt(lambda session: session.reorder(parents))
        self.rows = [list(self.rows[parent]) for parent in parents]

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        self.rows, self.first = [list(tokens)], 0
        try:
            self.session.restore(tokens, found)
        except Exception as error:  # runtimes raise anything
            self.replace(error)  # the next session reads the tokens

    def attempt(self, act: Callable[[Session], Result]) -> Result:
        """Call `act` with the session or, if that fails, with the next that works."""
        while True:
            try:
                return act(self.session)
            except Exception as error:  # runtimes raise anything
                self.replace(error)

    def replace(self, error: Exception) -> None:
        """Switch to the next session; raises `error` if there is none."""
        failed = self.session.placement
        if not self.others:
            raise error
        self.on_fallback(f"{failed.backend} failed on {failed.device}: {error}")
        self.go_before(self.open_next())

    def open_next(self) -> Session:
        """Open the next session that works, and let it read all tokens so far; raises the last error if none does."""
        while True:
            try:
                session = self.others.pop(0)()
                replay(session, self.rows, self.first)
                return session
            except StoreError:  # others would fail too: the disk is full, or the checkpoint damaged
                raise
            except Exception as error:  # runtimes raise anything
                if not self.others:
                    raise
                self.on_fallback(str(error))
