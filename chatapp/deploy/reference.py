"""A model as the NumPy decoder computes it: what exports are compared with where they write text."""

from backends import Session, quantize, reference
from chatapp.generation.engine import Engine
from chatapp.generation.options import published_options
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import open_tokenizer
from model_store.exports import Finding, Source


def open_reference(source: Source, precision: str) -> Engine:
    """An engine of the same weights, rounded as the export's are."""
    weights = quantize.Rounded(source.weights(precision), quantize.precision(precision))
    return open_engine(source, reference.Session(source.decoder, weights))


def open_engine(source: Source, session: Session) -> Engine:
    """An engine of the model's text, and of a session that computes it."""
    template = ChatTemplate(source.folder) if source.model.chats else None
    tokenizer = open_tokenizer(source.folder, source.tokenizer)
    return Engine(session, tokenizer, template, defaults=published_options(source.folder))


def compare(what: str, text: str, expected: str) -> Finding:
    """Whether two texts are the same."""
    figure = f"{text!r}" if text == expected else f"{text!r}, and ours is {expected!r}"
    return Finding(what, text == expected, figure)
