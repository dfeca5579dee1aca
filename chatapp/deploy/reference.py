"""Reference engines on the NumPy decoder, which generated text of exports is compared with."""

from backends import Session, quantize, reference
from chatapp.generation.engine import Engine
from chatapp.generation.options import published_options
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import open_tokenizer
from model_store.exports import Finding, Source


def open_reference(source: Source, precision: str) -> Engine:
    """An engine on the NumPy decoder, with weights rounded as in the export."""
    weights = quantize.Rounded(source.weights(precision), quantize.precision(precision))
    return open_engine(source, reference.Session(source.decoder, weights))


def open_engine(source: Source, session: Session) -> Engine:
    """An engine with the model's tokenizer and template on a given session."""
    template = ChatTemplate(source.folder) if source.model.chats else None
    tokenizer = open_tokenizer(source.folder, source.tokenizer)
    return Engine(session, tokenizer, template, defaults=published_options(source.folder))


def compare(what: str, text: str, expected: str) -> Finding:
    """A finding on whether two texts are equal."""
    figure = f"{text!r}" if text == expected else f"{text!r}, and ours is {expected!r}"
    return Finding(what, text == expected, figure)
