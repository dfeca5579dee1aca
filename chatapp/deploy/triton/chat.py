"""The Triton model `chat`: answers messages or continues a text as chatapp does, streaming or not."""

from __future__ import annotations  # Triton's module lacks these types while it completes a model's configuration

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb

from backends.errors import BackendError, UserError
from chatapp.deploy.triton.session import RemoteSession, read_facts
from chatapp.generation.delta import Delta, Usage
from chatapp.generation.engine import Engine
from chatapp.generation.errors import GenerationError
from chatapp.generation.options import OptionError, Options, published_options
from chatapp.generation.text import rendering
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.message import Message
from chatapp.generation.text.tokenizer import open_tokenizer
from model_store.tokenizers.chat_template import chat_template

GRAPH = "language_model"
ENOUGH = 256
"""Default number of tokens by which a base model continues a text, as in `chatapp run`."""
NAMED = ("max_tokens", "temperature", "top_k", "top_p", "seed")
KNOWN = {field.name for field in fields(Options)} - {"n"}
"""The options that a request may have."""
FIGURES = ("prompt_tokens", "completion_tokens", "seed", "time_to_first_token", "tokens_per_second")
"""The fields of Usage that are reported."""
ROLES = ("system", "user", "assistant")


class TritonPythonModel:
    """The model class for Triton's Python backend; each request has a thread and a cache of its own."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the tokenizer, and the chat template if there is one."""
        folder = Path(args["model_repository"], args["model_version"])
        parameters = json.loads(args["model_config"]).get("parameters", {})
        self.facts, self.tokenizer = read_facts(folder), open_tokenizer(folder)
        self.renderer = rendering.Renderer(command=find_command())
        self.template = ChatTemplate(folder, self.renderer) if chat_template(folder) else None
        self.defaults = published_options(folder)
        self.pool = ThreadPoolExecutor(int(parameters.get("streams", {}).get("string_value", "8")))

    def execute(self, requests: Sequence[pb.InferenceRequest]) -> None:
        """Start answering each request, or queue it for a thread."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                wanted = Wanted(read_inputs(request), self.defaults, chats=self.template is not None)
            except UserError as error:
                fail(sender, error)
                continue
            self.pool.submit(self.answer, wanted, sender)

    def answer(self, wanted: Wanted, sender: pb.InferenceResponseSender) -> None:
        """Send the deltas of an answer as they arrive, or all at the end."""
        try:
            engine = Engine(RemoteSession(self.facts, compute), self.tokenizer, self.template, defaults=self.defaults)
            if wanted.messages:
                deltas = engine.chat(wanted.messages, wanted.options)
            else:
                deltas = engine.complete(wanted.text, wanted.options)
            unsent = list[Delta]()
            with closing(deltas):
                for delta in deltas:
                    if sender.is_cancelled():
                        break
                    unsent.append(delta)
                    if wanted.stream and delta.text and not delta.finish_reason:
                        sender.send(respond(unsent))
                        unsent.clear()
            sender.send(respond(unsent, engine.last_usage), flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        except Exception as error:  # otherwise the client would wait forever
            fail(sender, error)

    def finalize(self) -> None:
        """Cancel waiting requests, and end the template renderer's process."""
        self.pool.shutdown(cancel_futures=True)
        self.renderer.close()


def respond(deltas: Sequence[Delta], usage: Usage | None = None) -> pb.InferenceResponse:
    """A response with the text of some deltas, and the usage if it is the last."""
    said = {
        "text_output": "".join(one.text for one in deltas if one.channel == "text"),
        "thinking": "".join(one.text for one in deltas if one.channel != "text"),
        "finish_reason": "".join(one.finish_reason or "" for one in deltas),
        "usage": json.dumps({name: getattr(usage, name) for name in FIGURES}) if usage else "",
    }
    return pb.InferenceResponse([pb.Tensor(name, np.array([text.encode()], np.object_)) for name, text in said.items()])


class Wanted:
    """A checked request."""

    def __init__(self, given: Mapping[str, Any], defaults: Options, *, chats: bool):
        """Raises UserError if the request is invalid."""
        self.stream = bool(given.get("stream", False))
        self.text = str(given.get("text_input", ""))
        self.messages = read_messages(given, chats)
        if not self.messages and not self.text:
            raise GenerationError("the prompt is empty; send text_input or messages")
        chosen = {name: given[name] for name in NAMED if name in given}
        if "stop" in given:
            chosen["stop"] = tuple(given["stop"])
        chosen |= read_more(given.get("options", ""))
        if not self.messages:
            chosen.setdefault("max_tokens", ENOUGH)
        self.options = replace(defaults, **chosen)


def read_messages(given: Mapping[str, Any], chats: bool) -> list[Message]:
    """The conversation to answer; empty if a text is to be continued."""
    if not given.get("messages"):
        return [Message("user", str(given["text_input"]))] if chats and given.get("text_input") else []
    if given.get("text_input"):
        raise GenerationError("send text_input or messages, not both")
    if not chats:
        raise GenerationError("this model has no chat template and only continues text; send text_input")
    try:
        messages = json.loads(given["messages"])
        read = [Message(one["role"], one["content"]) for one in messages]
    except (ValueError, TypeError, KeyError) as error:
        raise GenerationError(
            f'messages must be JSON such as [{{"role": "user", "content": "..."}}] ({error})'
        ) from error
    if wrong := next((one for one in read if one.role not in ROLES or not isinstance(one.text, str)), None):
        raise GenerationError(f"messages have a role, one of {', '.join(ROLES)}, and text as content, not {wrong}")
    return read


def read_more(text: str) -> dict[str, Any]:
    """Options given as JSON."""
    if not text:
        return {}
    try:
        more = json.loads(text)
    except ValueError as error:
        raise OptionError(f"options must be a JSON object ({error})") from error
    if not isinstance(more, dict) or (unknown := sorted({*more} - KNOWN)):
        raise OptionError(f"unknown option {', '.join(unknown) if isinstance(more, dict) else more!r}")
    return {name: as_option(name, value) for name, value in more.items()}


def as_option(name: str, value: Any) -> Any:  # Any: what JSON has, and what an option takes
    """A JSON value as `Options` takes it: ids as numbers, schemas as text, lists as tuples."""
    if name == "json_schema" and isinstance(value, dict):
        return json.dumps(value)
    if name == "logit_bias" and isinstance(value, dict):
        return {int(token) if token.isdecimal() else token: bias for token, bias in value.items()}
    return tuple(value) if isinstance(value, list) else value


def read_inputs(request: pb.InferenceRequest) -> dict[str, Any]:
    """The inputs of a request as Python values."""
    given: dict[str, Any] = {}
    for tensor in request.inputs():
        values = [
            value.decode(errors="replace") if isinstance(value, bytes) else value
            for value in tensor.as_numpy().tolist()
        ]
        if values:
            given[tensor.name()] = values if tensor.name() == "stop" else values[0]
    return given


def compute(feeds: Mapping[str, np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """Run the model that computes the decoder."""
    inputs = [pb.Tensor(name, np.ascontiguousarray(values)) for name, values in feeds.items()]
    request = pb.InferenceRequest(model_name=GRAPH, requested_output_names=list(names), inputs=inputs)
    response = request.exec()
    if response.has_error():
        raise BackendError(f"{GRAPH} failed: {response.error().message()}")
    return [pb.get_output_tensor_by_name(response, name).as_numpy() for name in names]


def fail(sender: pb.InferenceResponseSender, error: Exception) -> None:
    """Send an error as the final response."""
    what = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    response = pb.InferenceResponse(error=pb.TritonError(what))
    sender.send(response, flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def find_command() -> tuple[str, ...]:
    """The command of the template renderer's process: inside the server, sys.executable may not be Python."""
    python = sys.executable if "python" in Path(sys.executable or "").name else shutil.which("python3")
    apart = ("-P",) if sys.version_info >= (3, 11) else ()
    return (python or "python3", *apart, str(Path(rendering.__file__).with_name("sandbox.py")))
