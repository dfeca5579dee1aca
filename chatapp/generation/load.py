"""Open a model of the store for generation."""

import time
from collections.abc import Callable

from backends import Session
from chatapp.generation.engine import Engine
from chatapp.generation.published_options import published_options
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer
from model_store import Store, StoredModel


def load_engine(store: Store, model: StoredModel, open_session: Callable[[], tuple[Session, float]]) -> Engine:
    """An engine with the tokenizer and template of `model`; `open_session` tells too how long lowering took."""
    start = time.perf_counter()
    # The tokenizer first: the memory that its reading takes for a moment, the session can use.
    tokenizer = Tokenizer(model.folder, store.tokenizer(model))
    defaults = published_options(model.folder)
    template = ChatTemplate(model.folder) if model.chats else None
    session, lowering_seconds = open_session()
    load_seconds = time.perf_counter() - start - lowering_seconds
    return Engine(
        session,
        tokenizer,
        template,
        defaults=defaults,
        load_seconds=load_seconds,
        lowering_seconds=lowering_seconds,
    )
