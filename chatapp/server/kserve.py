"""KServe's V2 protocol over REST, with Triton's extensions: binary tensors, generate and generate_stream."""

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from chatapp import __version__
from chatapp.server.asks import Texts
from chatapp.server.bodies import Body, SampledBody, given, parse, read_stop
from chatapp.server.protocol import EVENTS, Call, Endpoint, Json, Protocol, compact, event
from chatapp.server.refusals import Refusal, unsupported

VERSION = "1"
"""The version of every model."""
INPUTS: Mapping[str, str] = {
    "text_input": "BYTES",
    "max_tokens": "INT32",
    "temperature": "FP32",
    "top_k": "INT32",
    "top_p": "FP32",
    "repetition_penalty": "FP32",
    "seed": "UINT64",
    "stop_words": "BYTES",
}
FORMATS = {"INT32": "i", "INT64": "q", "UINT32": "I", "UINT64": "Q", "FP32": "f", "FP64": "d", "BOOL": "?"}
"""Number types, little-endian, in Python's struct notation."""
LENGTH_HEADER = "inference-header-content-length"


class Tensor(Body):
    """A tensor of a request: its values, or how many bytes of them follow the JSON."""

    name: str
    shape: list[int] = []
    datatype: str = "BYTES"
    data: list[Any] | None = None
    parameters: dict[str, Any] | None = None


class InferAsked(Body):
    """Tensors to go on with."""

    inputs: list[Tensor] = Field(min_length=1)
    outputs: list[Tensor] | None = None
    id: str | None = None
    parameters: dict[str, Any] | None = None


class GenerateAsked(SampledBody):
    """A text to go on with."""

    text_input: str
    max_tokens: int | None = None
    stop_words: str | list[str] | None = None
    seed: int | None = None
    stream: bool | None = None
    id: str | None = None
    parameters: dict[str, Any] | None = None

    def read(self) -> Texts:
        """The text and its options, which may also be in `parameters`."""
        options = self.knobs() | given(max_tokens=self.max_tokens, stop=read_stop(self.stop_words), seed=self.seed)
        if self.parameters:
            inner = parse(GenerateAsked, compact({**self.parameters, "text_input": "-"}))
            if inner.parameters:
                raise unsupported("parameters.parameters", "parameters cannot contain parameters")
            options = inner.read().given | options  # type: ignore[operator]  # both are dictionaries
        if not self.text_input:
            raise Refusal(400, "text_input is empty; send the text to continue", param="text_input")
        return Texts([self.text_input], options)


# The server and its models


async def tell_server(call: Call, body: None) -> None:
    """Name, version and extensions."""
    extensions = ["binary_tensor_data", "generate"]
    await call.send_json({"name": "chatapp", "version": __version__, "extensions": extensions})


async def tell_live(call: Call, body: None) -> None:
    """Whether the server runs."""
    await call.send_json({"live": True})


async def tell_ready(call: Call, body: None) -> None:
    """Whether the server answers."""
    await call.send_json({"ready": not call.service.queue.draining}, 503 if call.service.queue.draining else 200)


async def tell_model_ready(call: Call, body: None) -> None:
    """Whether a model exists; it is opened on demand."""
    name = await call.service.work(lambda: call.service.models.resolve(call.path_part("model")))
    await call.send_json({"name": name, "ready": True})


async def tell_model(call: Call, body: None) -> None:
    """The tensors of a model."""
    name = await call.service.work(lambda: call.service.models.resolve(call.path_part("model")))
    inputs = [{"name": one, "datatype": kind, "shape": [1]} for one, kind in INPUTS.items()]
    outputs = [{"name": "text_output", "datatype": "BYTES", "shape": [1]}]
    told = {"name": name, "versions": [VERSION], "platform": "chatapp", "inputs": inputs, "outputs": outputs}
    await call.send_json(told)


async def refuse_extension(call: Call, body: None) -> None:
    """Refuse: Triton's configuration and statistics have no equivalent here."""
    raise Refusal(404, "there are no Triton configurations and statistics; use GET /v2/models/MODEL and GET /metrics")


# Generating


async def generate(call: Call, body: GenerateAsked) -> None:
    """Continue a text."""
    if body.stream:
        raise unsupported("stream", "is what generate_stream is for")
    async with call.answer(call.path_part("model"), body.read()) as stream:
        text = "".join([delta.text async for delta in stream])
    await call.send_json(describe(stream.model, body.id, text))


async def generate_stream(call: Call, body: GenerateAsked) -> None:
    """Continue a text, streaming."""
    async with call.answer(call.path_part("model"), body.read()) as stream:
        told = (event(describe(stream.model, body.id, delta.text)) async for delta in stream if delta.text)
        await call.send_stream(EVENTS, told)


def describe(model: str, id: str | None, text: str) -> Json:
    """A text, or a part of one."""
    return {"model_name": model, "model_version": VERSION, "text_output": text} | given(id=id)


# Inference


async def infer(call: Call, body: None) -> None:
    """Continue the text of a tensor, whose bytes may follow the JSON."""
    asked, rest = split(call)
    values = read_tensors(asked.inputs, rest)
    if unknown := next((name for name in values if name not in INPUTS), None):
        raise Refusal(400, f"there is no input {unknown[:60]!r}; there are {', '.join(INPUTS)}", param="inputs")
    wanted = [one.name for one in asked.outputs or ()]
    if wanted not in ([], ["text_output"]):
        raise Refusal(400, "there is one output: text_output", param="outputs")
    if len(values.get("text_input", ())) != 1:
        raise Refusal(400, "text_input must be one text", param="inputs")
    plain = {name: found if name == "stop_words" else found[0] for name, found in values.items() if found}
    ask = parse(GenerateAsked, compact(plain)).read()
    async with call.answer(call.path_part("model"), ask) as stream:
        text = "".join([delta.text async for delta in stream])
    binary = (asked.parameters or {}).get("binary_data_output") is True or any(
        (one.parameters or {}).get("binary_data") for one in asked.outputs or ()
    )
    await send(call, stream.model, asked.id, text, binary=binary)


def split(call: Call) -> tuple[InferAsked, bytes]:
    """The JSON of a request, and the binary tensors after it."""
    length = call.sent.get(LENGTH_HEADER, str(len(call.raw)))
    if not length.isdigit() or int(length) > len(call.raw):
        raise Refusal(400, f"{LENGTH_HEADER} is not a length within the body", param=LENGTH_HEADER)
    return parse(InferAsked, call.raw[: int(length)]), call.raw[int(length) :]


def read_tensors(tensors: Iterable[Tensor], rest: bytes) -> dict[str, list[Any]]:
    """The values of tensors by name."""
    found = dict[str, list[Any]]()
    for tensor in tensors:
        size = (tensor.parameters or {}).get("binary_data_size")
        if size is None:
            rows = [one if isinstance(one, list) else [one] for one in tensor.data or ()]  # nested at most twice
            found[tensor.name] = [value for row in rows for value in row]
            continue
        if not isinstance(size, int) or not 0 <= size <= len(rest):
            raise Refusal(400, f"{tensor.name[:60]} has no such binary_data_size", param="binary_data_size")
        found[tensor.name], rest = unpack(tensor, rest[:size]), rest[size:]
    if rest:
        raise Refusal(400, "the body has bytes that belong to no tensor", param="binary_data_size")
    return found


def unpack(tensor: Tensor, content: bytes) -> list[Any]:
    """The values of a binary tensor."""
    try:
        if tensor.datatype != "BYTES":
            return [value for (value,) in struct.iter_unpack(f"<{FORMATS[tensor.datatype]}", content)]
        texts = list[str]()
        while content:
            (length,) = struct.unpack_from("<I", content)
            if length > len(content) - 4:
                raise ValueError("a text that is cut off")
            texts.append(content[4 : 4 + length].decode("utf-8"))
            content = content[4 + length :]
        return texts
    except (KeyError, ValueError, struct.error) as error:
        message = f"{tensor.name[:60]} is not a tensor of {tensor.datatype[:20]}"
        raise Refusal(400, message, param="inputs") from error


async def send(call: Call, model: str, id: str | None, text: str, *, binary: bool) -> None:
    """Send a text as a tensor."""
    content = struct.pack("<I", len(text.encode())) + text.encode()
    held = {"parameters": {"binary_data_size": len(content)}} if binary else {"data": [text]}
    output = {"name": "text_output", "datatype": "BYTES", "shape": [1], **held}
    told = {"model_name": model, "model_version": VERSION, **given(id=id), "outputs": [output]}
    head = json.dumps(told, separators=(",", ":")).encode()
    if binary:
        length = (LENGTH_HEADER.encode(), str(len(head)).encode())
        await call.send_bytes(head + content, "application/octet-stream", 200, [length])
    else:
        await call.send_bytes(head, "application/json")


def form_error(refusal: Refusal) -> Json:
    """An error in Triton's form."""
    return {"error": refusal.message}


MODEL = "/v2/models/{model}"
PROTOCOL = Protocol(
    "kserve",
    (
        Endpoint("GET", "/v2", tell_server, about="What the server is and supports"),
        Endpoint("GET", "/v2/health/live", tell_live, about="Whether the server runs", open=True),
        Endpoint("GET", "/v2/health/ready", tell_ready, about="Whether the server answers", open=True),
        *(
            endpoint
            for model in (f"{MODEL}/versions/{VERSION}", MODEL)
            for endpoint in (
                Endpoint("GET", f"{model}/ready", tell_model_ready, about="Whether a model is here"),
                Endpoint("POST", f"{model}/infer", infer, InferAsked, "Continue the text of a tensor", raw=True),
                Endpoint("POST", f"{model}/generate", generate, GenerateAsked, "Continue a text"),
                Endpoint("POST", f"{model}/generate_stream", generate_stream, GenerateAsked, "The same, streamed"),
                Endpoint("GET", f"{model}/config", refuse_extension, about="Refused"),
                Endpoint("GET", f"{model}/stats", refuse_extension, about="Refused"),
                Endpoint("GET", model, tell_model, about="The tensors of a model"),
            )
        ),
    ),
    form_error,
)
