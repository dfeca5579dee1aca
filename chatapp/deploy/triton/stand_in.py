"""A stand-in for Triton Inference Server, which loads a model repository and answers requests.

`python stand_in.py REPOSITORY` reads requests as lines of JSON. It imports nothing of chatapp, so that the Python
models must bring what they need. It implements ensembles, the Python backend with decoupled models, and the runtime
backends as far as an export uses them; like the server, it compares shapes and types with config.pbtxt.
"""

import json
import os
import queue
import re
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
KINDS = {
    "TYPE_INT64": np.int64, "TYPE_INT32": np.int32, "TYPE_FP32": np.float32, "TYPE_BOOL": np.bool_,
    "TYPE_STRING": np.object_,
}  # fmt: skip
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|#[^\n]*|[\w.+-]+|[\[\]{}:,]')
"""A token of protobuf's text format, or a comment."""
Config = dict[str, Any]
"""Fields by name, each with a list of values."""


def parse(text: str) -> Config:
    """Parse protobuf's text format; ValueError if it is invalid."""
    if rest := WORD.sub("", text).split():
        raise ValueError(f"there is something that is no field: {rest[0][:20]!r}")
    words = iter([*(word for word in WORD.findall(text) if word[0] != "#"), "}"])
    found = parse_message(words)
    if next(words, None) is not None:
        raise ValueError("there is a brace too many")
    return found


def parse_message(words: Iterator[str]) -> Config:
    """The fields up to the closing brace."""
    found: Config = {}
    for name in words:
        if name == "}":
            return found
        if name == ",":
            continue
        word = next(words)
        word = next(words) if word == ":" else word
        values = found.setdefault(name, [])
        if word != "[":
            values.append(parse_value(word, words))
            continue
        while (word := next(words)) != "]":
            if word != ",":
                values.append(parse_value(word, words))
    raise ValueError("a brace is missing")


def parse_value(word: str, words: Iterator[str]) -> Any:  # Any: text, numbers, truth values and messages
    """The value that begins with a word."""
    if word == "{":
        return parse_message(words)
    if word.startswith('"'):
        return json.loads(word)
    if word in ("true", "false"):
        return word == "true"
    return int(word) if re.fullmatch(r"-?\d+", word) else word


class Tensor:
    """A named array."""

    def __init__(self, name: str, values: np.ndarray):
        self._name, self._values = name, values

    def name(self) -> str:
        """Its name."""
        return self._name

    def as_numpy(self) -> np.ndarray:
        """Its values."""
        return self._values


class TritonError:
    """What went wrong."""

    def __init__(self, message: str):
        self._message = message

    def message(self) -> str:
        """The error as text."""
        return self._message


class InferenceResponse:
    """Outputs, or an error."""

    def __init__(self, output_tensors: Sequence[Tensor] = (), error: TritonError | None = None):
        self._tensors, self._error = list(output_tensors), error

    def output_tensors(self) -> list[Tensor]:
        """The outputs."""
        return self._tensors

    def has_error(self) -> bool:
        """Whether it is an error."""
        return self._error is not None

    def error(self) -> TritonError | None:
        """The error."""
        return self._error


class InferenceResponseSender:
    """Where a decoupled model sends its responses."""

    def __init__(self) -> None:
        self.sent: queue.Queue[InferenceResponse | None] = queue.Queue()

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        """Send a response; the last one has the final flag."""
        if response is not None:
            self.sent.put(response)
        if flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL:
            self.sent.put(None)

    def is_cancelled(self) -> bool:
        """Whether the client has cancelled."""
        return False


class InferenceRequest:
    """Inputs for a model, from a client or another model."""

    def __init__(self, *, model_name: str, requested_output_names: Sequence[str] = (), inputs: Sequence[Tensor] = ()):
        self.model_name, self.wanted, self._inputs = model_name, requested_output_names, list(inputs)
        self.sender = InferenceResponseSender()

    def inputs(self) -> list[Tensor]:
        """The inputs."""
        return self._inputs

    def get_response_sender(self) -> InferenceResponseSender:
        """Where the responses go."""
        return self.sender

    def exec(self) -> InferenceResponse:
        """Run another model of the repository."""
        return next(iter(Repository.opened.ask(self.model_name, self._inputs)))


def get_input_tensor_by_name(request: InferenceRequest, name: str) -> Tensor | None:
    """The input of this name."""
    return next((tensor for tensor in request.inputs() if tensor.name() == name), None)


def get_output_tensor_by_name(response: InferenceResponse, name: str) -> Tensor | None:
    """The output of this name."""
    return next((tensor for tensor in response.output_tensors() if tensor.name() == name), None)


class Repository:
    """The loaded models of a folder."""

    opened: "Repository"

    def __init__(self, folder: Path):
        sys.modules["triton_python_backend_utils"] = sys.modules[__name__]
        Repository.opened = self
        paths = sorted(folder.glob("*/config.pbtxt"))
        self.configs = {path.parent.name: parse(path.read_text("utf-8")) for path in paths}
        self.models = {name: self.load(folder / name, config) for name, config in self.configs.items()}

    def load(self, folder: Path, config: Config) -> Any:  # Any: a Python model, or a function that computes a graph
        """Load a model as its backend does."""
        if config["name"] != [folder.name]:
            raise ValueError(f"{folder.name} is called {config['name']} in its config.pbtxt")
        [kind] = config["platform"] if "platform" in config else config["backend"]
        if kind == "python":
            return load_python(folder, config)
        return {"ensemble": lambda _: None, "onnxruntime_onnx": load_onnx, "openvino": load_openvino}[kind](
            folder / "1"
        )

    def ask(self, name: str, inputs: Sequence[Tensor]) -> Iterator[InferenceResponse]:
        """The responses of a model; ValueError if inputs or outputs do not match its configuration."""
        config, model = self.configs[name], self.models[name]
        compare(name, config["input"], {tensor.name(): tensor.as_numpy() for tensor in inputs})
        for response in self.run(name, config, model, inputs):
            if not response.has_error():
                found = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
                compare(name, config["output"], found)
            yield response

    def run(self, name: str, config: Config, model: Any, inputs: Sequence[Tensor]) -> Iterator[InferenceResponse]:
        if "ensemble_scheduling" in config:
            yield self.run_steps(config["ensemble_scheduling"][0]["step"], inputs)
        elif callable(model):
            found = model({tensor.name(): tensor.as_numpy() for tensor in inputs})
            yield InferenceResponse([Tensor(name, values) for name, values in found.items()])
        else:
            request = InferenceRequest(model_name=name, inputs=inputs)
            answers = model.execute([request])
            yield from answers if answers is not None else iter(request.sender.sent.get, None)

    def run_steps(self, steps: Sequence[Config], inputs: Sequence[Tensor]) -> InferenceResponse:
        known = {tensor.name(): tensor.as_numpy() for tensor in inputs}
        for step in steps:
            given = [Tensor(one["key"][0], known[one["value"][0]]) for one in step["input_map"]]
            [response] = self.ask(step["model_name"][0], given)
            if response.has_error():
                return response
            for one in step["output_map"]:
                output = get_output_tensor_by_name(response, one["key"][0])
                assert output is not None
                known[one["value"][0]] = output.as_numpy()
        last = [one["value"][0] for one in steps[-1]["output_map"]]
        return InferenceResponse([Tensor(name, known[name]) for name in last])


def compare(model: str, wanted: Sequence[Config], given: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError for tensors that do not match config.pbtxt."""
    known = {one["name"][0]: one for one in wanted}
    required = {name for name, one in known.items() if one.get("optional") != [True]}
    if not required <= given.keys() <= known.keys():
        raise ValueError(f"{model} has {sorted(known)} in its config.pbtxt, not {sorted(given)}")
    for name, values in given.items():
        kind, sizes = KINDS[known[name]["data_type"][0]], known[name]["dims"]
        fits = len(sizes) == values.ndim and all(a in (-1, b) for a, b in zip(sizes, values.shape, strict=True))
        if values.dtype != kind or not fits:
            raise ValueError(
                f"{model}'s {name} is {values.dtype} {values.shape}, and in its config.pbtxt {known[name]}"
            )


def load_python(folder: Path, config: Config) -> Any:
    """Load a Python model."""
    model = runpy.run_path(str(folder / "1" / "model.py"))["TritonPythonModel"]()
    parameters = {
        one["key"][0]: {"string_value": one["value"][0]["string_value"][0]} for one in config.get("parameters", ())
    }
    told = json.dumps({"name": folder.name, "parameters": parameters})
    model.initialize({"model_repository": str(folder), "model_version": "1", "model_config": told})
    return model


def load_onnx(version: Path) -> Any:
    """A function that computes a graph with ONNX Runtime."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    session = onnxruntime.InferenceSession(version / "model.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, feeds), strict=True))


def load_openvino(version: Path) -> Any:
    """A function that computes a graph with OpenVINO."""
    sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]  # it sends telemetry
    import openvino

    compiled = openvino.Core().compile_model(version / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def compute(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = compiled.create_infer_request().infer(dict(feeds))
        return {port.any_name: found[port].copy() for port in compiled.outputs}

    return compute


def serve(repository: Repository) -> None:
    """Answer lines of JSON with a model and inputs by its responses, or an error."""
    for line in sys.stdin:
        asked = json.loads(line)
        kinds = {one["name"][0]: KINDS[one["data_type"][0]] for one in repository.configs[asked["model"]]["input"]}
        inputs = [
            Tensor(name, np.array([v.encode() if isinstance(v, str) else v for v in values], kinds[name]))
            for name, values in asked["inputs"].items()
        ]
        try:
            answers = [describe(response) for response in repository.ask(asked["model"], inputs)]
        except Exception as error:  # reported to the client
            answers = [{"error": f"{type(error).__name__}: {error}"}]
        print(json.dumps(answers), flush=True)


def describe(response: InferenceResponse) -> dict[str, Any]:
    """A response in JSON's types."""
    if error := response.error():
        return {"error": error.message()}
    return {
        tensor.name(): [v.decode() if isinstance(v, bytes) else v for v in tensor.as_numpy().ravel().tolist()]
        for tensor in response.output_tensors()
    }


if __name__ == "__main__":
    serve(Repository(Path(sys.argv[1])))
    os._exit(0)  # threads of the models would keep the process alive
