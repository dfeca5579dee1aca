"""Open a model of the store for generation."""

import time

import backends
from chatapp.generation.chat_template import ChatTemplate
from chatapp.generation.engine import Engine
from chatapp.generation.tokenizer import Tokenizer
from model_store import Progress, Store


def open_engine(
    store: Store,
    name: str,
    *,
    backend: str | None = None,
    device: str | None = None,
    precision: str | None = None,
    on_progress: Progress | None = None,
) -> Engine:
    """Load the model called `name`, lowering it first where that has not been done.

    Raises StoreError or BackendError, with a message for the user.
    """
    start = time.perf_counter()
    model = store.get(name)
    backend = backend or backends.NAMES[0]
    module = backends.get(backend)
    usable = module.devices()
    if not usable:
        raise backends.BackendError(f"the backend {backend} is not installed here; chatapp devices shows what is")
    if device and device not in usable:
        raise backends.BackendError(f"{backend} has no device {device!r} here; choose from {', '.join(usable)}")
    variant = store.lowered(model, backend, precision, on_progress)
    tokenizer = Tokenizer(model.folder)  # first: what its reading takes for a moment, the session can use
    template = ChatTemplate(model.folder) if model.chats else None
    session = module.load(variant.folder, device=device or usable[0])
    load_seconds = time.perf_counter() - start - variant.seconds
    return Engine(session, tokenizer, template, load_seconds=load_seconds, lowering_seconds=variant.seconds)
