"""KServe's V2 protocol with the generate extension, as Triton speaks it; it only continues texts."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from chatapp.generation import GenerationError, Message, Options
from chatapp.remote.connection import Connection
from chatapp.remote.openai import read_reason
from chatapp.remote.protocol import Chunk, ChunkToken, Counts, Dialect, RemoteModel, Request
from chatapp.remote.reading import as_number, as_rows, count_in, object_in, parse_object, rows_in, text_in

KNOBS = ("temperature", "top_k", "top_p", "repetition_penalty", "presence_penalty", "frequency_penalty")


class KServe(Dialect):
    """A server that speaks KServe's protocol."""

    name = "kserve"
    called = "a server with KServe's protocol"
    knobs = {name: name for name in KNOBS}
    limits = ("max_tokens", "stop", "seed")
    tells_logprobs = False
    ends_silently = True
    """HTTP's own end of the stream tells a whole answer from one that was cut off."""

    def list_models(self, connection: Connection) -> list[RemoteModel]:
        """The server's models, if it has an index of them."""
        rows = as_rows(connection.find("//v2/repository/index", {})) or ()
        ready = [text_in(row, "name") for row in rows if row.get("state") in (None, "", "READY")]
        return [RemoteModel(name, can_chat=False) for name in ready if name]

    def find_model(self, connection: Connection, name: str) -> RemoteModel:
        """A model; the server says nothing about it, but Refused is raised if it has no such model."""
        connection.ask(f"//v2/models/{quote(name, safe='')}")
        return RemoteModel(name, can_chat=False)

    # Requests

    def chat(self, model: str, messages: Sequence[Message], options: Options, begun: str) -> Request:
        """Refused: the protocol has no messages."""
        raise GenerationError("KServe's protocol continues text and has no messages, so it cannot chat")

    def complete(self, model: str, text: str, options: Options) -> Request:
        """The request for a continuation."""
        body = {"text_input": text, "parameters": self.read_options(options) | {"stream": True}}
        return Request(f"//v2/models/{quote(model, safe='')}/generate_stream", body)

    def infill(self, model: str, prefix: str, suffix: str, options: Options) -> Request:
        """Refused: the protocol cannot fill gaps."""
        raise GenerationError("KServe's protocol cannot fill gaps; choose another model")

    # Events

    def parse(self, data: str) -> Iterator[Chunk]:
        """The content of an event."""
        event = parse_object(data)
        details = object_in(event, "details")
        rows = rows_in(details, "logprobs") or ()
        tokens = tuple(ChunkToken(text_in(row, "text"), as_number(row.get("logprob"))) for row in rows)
        if (text := text_in(event, "text_output")) or tokens:
            yield Chunk(text, tokens=tokens)
        if (told := event.get("usage")) and isinstance(told, str):  # JSON, from models that chatapp exported
            usage = parse_object(told)
            yield Chunk(counts=Counts(count_in(usage, "prompt_tokens"), count_in(usage, "completion_tokens")))
        if reason := details.get("finish_reason") or event.get("finish_reason"):
            yield Chunk(finish_reason=read_reason(reason))
