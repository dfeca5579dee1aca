"""Ollama's own protocol: lines of JSON, the last of which has `done`."""

from collections.abc import Iterator, Sequence

from chatapp.generation import FinishReason, GenerationError, Message, Options
from chatapp.generation.text.thinking import EFFORTS
from chatapp.remote.calls import read_tools
from chatapp.remote.connection import Connection
from chatapp.remote.errors import RemoteError
from chatapp.remote.openai import read_calls, read_logprobs
from chatapp.remote.protocol import Chunk, Counts, Dialect, RemoteModel, Request, describe_messages
from chatapp.remote.reading import Json, as_object, count_in, object_in, parse_object, rows_in, text_in

KNOBS = {
    **{name: name for name in ("temperature", "top_k", "top_p", "min_p", "typical_p")},
    **{name: name for name in ("presence_penalty", "frequency_penalty", "mirostat_tau", "mirostat_eta")},
    "repetition_penalty": "repeat_penalty",
}
MEASURED = "gptoss", "gpt_oss"
"""Ollama's and chatapp's names of the family whose thinking has levels but cannot be switched off."""


class Ollama(Dialect):
    """A server that speaks Ollama's protocol."""

    name = "ollama"
    kind = "lines"
    called = "Ollama"
    knobs = KNOBS
    limits = ("max_tokens", "stop", "seed", "logprobs", "tools")
    max_tokens = "num_predict"
    seeds = 2**31

    def list_models(self, connection: Connection) -> list[RemoteModel]:
        """The server's models."""
        rows = rows_in(connection.ask("/api/tags"), "models")
        if rows is None:
            raise RemoteError(f"{connection.remote.host} lists no models; check that it is Ollama")
        names = [text_in(row, "model", "name") for row in rows]
        return [RemoteModel(name) for name in names if name]

    def find_model(self, connection: Connection, name: str) -> RemoteModel:
        """What the server says about a model."""
        found = as_object(connection.ask("/api/show", {"model": name}))
        listed = found.get("capabilities")
        abilities = listed if isinstance(listed, list) else []
        facts = object_in(found, "model_info")
        lengths = [count_in(facts, name) for name in facts if name.endswith(".context_length")]
        started = [line.split()[1] for line in text_in(found, "parameters").splitlines() if line.startswith("num_ctx ")]
        measured = object_in(found, "details").get("family") in MEASURED
        chosen = int(started[0]) if started and started[0].isdecimal() else 0
        return RemoteModel(
            name,
            chosen or next((length for length in lengths if length), 0),
            # A template beyond the bare prompt marks a chat model.
            can_chat="template" not in found or text_in(found, "template").strip() not in ("", "{{ .Prompt }}"),
            can_infill="insert" in abilities,
            thinking_choices=(EFFORTS if measured else (False, True)) if "thinking" in abilities else (),
            knows_tools="tools" in abilities,
        )

    # Requests

    def _body(self, model: str, options: Options) -> Json:
        chosen = self.read_options(options)
        if options.mirostat_tau:
            chosen["mirostat"] = 2
        body: Json = {"model": model, "stream": True, "options": chosen}
        if options.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": options.logprobs}
        return body

    def chat(self, model: str, messages: Sequence[Message], options: Options, begun: str) -> Request:
        """The request for a reply; a final assistant message is continued if the model's template allows it."""
        body = self._body(model, options) | {"messages": describe_messages(messages, begun, parsed=True)}
        if options.tools:
            body["tools"] = read_tools(options.tools)
        if options.think is not None:
            body["think"] = options.think
        return Request("/api/chat", body)

    def complete(self, model: str, text: str, options: Options) -> Request:
        """The request for a continuation, without a template."""
        return Request("/api/generate", self._body(model, options) | {"prompt": text, "raw": True})

    def infill(self, model: str, prefix: str, suffix: str, options: Options) -> Request:
        """The request to fill a gap."""
        if not suffix:
            raise GenerationError("Ollama fills gaps only if there is text after them")
        return Request("/api/generate", self._body(model, options) | {"prompt": prefix, "suffix": suffix})

    # Events

    def parse(self, data: str) -> Iterator[Chunk]:
        """The content of a line."""
        event = parse_object(data)
        part = object_in(event, "message") or event
        tokens = tuple(read_logprobs({"content": event.get("logprobs")}))
        thought, text = text_in(part, "thinking"), text_in(part, "content", "response")
        if thought:
            yield Chunk(thought, 0, "thinking", () if text else tokens)
        if text:
            yield Chunk(text, 0, "text", tokens)
        if calls := tuple(read_calls(part)):
            yield Chunk(calls=calls)
        if event.get("done") is True:
            reason: FinishReason = "length" if event.get("done_reason") == "length" else "stop"
            spent = count_in(event, "prompt_eval_duration")
            counts = Counts(
                count_in(event, "prompt_eval_count"),
                count_in(event, "eval_count"),
                prefill=spent / 1e9 if spent is not None else None,
            )
            yield Chunk(finish_reason=reason, counts=counts, is_last=True)
