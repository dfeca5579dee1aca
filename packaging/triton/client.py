"""Ask a server that serves an exported repository, by all of its protocols: `client.py PORT <requests.json`.

A request is {"how": "ensemble" | "generate" | "stream" | "grpc", "inputs": {...}}, and `{"at_once": N, "requests": []}`
is what is read: so many requests at a time. It prints the answers, in the order of the requests.
"""

import json
import queue
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http

KINDS = {"BYTES": np.object_, "INT32": np.int32, "INT64": np.int64, "FP32": np.float32, "BOOL": np.bool_}
TYPES = {"text_input": "BYTES", "messages": "BYTES", "max_tokens": "INT32", "temperature": "FP32", "seed": "INT64"}
TYPES |= {"stream": "BOOL", "stop": "BYTES", "options": "BYTES", "TEXT": "BYTES"}


def read(inputs: dict[str, Any], library: Any) -> list[Any]:
    """Inputs as a library of tritonclient has them."""
    found = []
    for name, value in inputs.items():
        values = [
            one.encode() if isinstance(one, str) else one for one in (value if isinstance(value, list) else [value])
        ]
        tensor = library.InferInput(name, [len(values)], TYPES[name])
        tensor.set_data_from_numpy(np.array(values, KINDS[TYPES[name]]))
        found.append(tensor)
    return found


def ask_ensemble(port: int, inputs: dict[str, Any]) -> dict[str, Any]:
    """The next word, with tritonclient over HTTP."""
    client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{port}")
    found = client.infer("ensemble_model", read(inputs, tritonclient.http))
    return {"text": found.as_numpy("OUTPUT")[0].decode(), "parts": 1}


def ask_grpc(port: int, inputs: dict[str, Any]) -> dict[str, Any]:
    """An answer in a stream of gRPC, with tritonclient."""
    client = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port + 1}")
    arrived: queue.Queue[Any] = queue.Queue()
    client.start_stream(callback=lambda result, error: arrived.put((result, error)))
    given = read(inputs, tritonclient.grpc)
    client.async_stream_infer("chat", given, enable_empty_final_response=True)
    text, parts = "", 0
    while True:
        result, error = arrived.get(timeout=300)
        if error:
            client.stop_stream()
            return {"error": str(error)}
        if (said := result.as_numpy("text_output")) is not None:
            text, parts = text + said[0].decode(), parts + 1
        if result.get_response().parameters["triton_final_response"].bool_param:
            client.stop_stream()
            return {"text": text, "parts": parts}


def ask_generate(port: int, inputs: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    """An answer at once, or as server-sent events."""
    connection = HTTPConnection("127.0.0.1", port, timeout=300)
    body = json.dumps({**inputs, "stream": stream})
    connection.request("POST", f"/v2/models/chat/generate{'_stream' if stream else ''}", body)
    said = connection.getresponse().read().decode()
    lines = [line.removeprefix("data: ") for line in said.splitlines() if line.strip()]
    answers = [json.loads(line) for line in lines]
    if wrong := next((one["error"] for one in answers if "error" in one), None):
        return {"error": wrong}
    return {"text": "".join(one["text_output"] for one in answers), "parts": len(answers)}


def ask(port: int, how: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """An answer in one of the ways."""
    if how in ("generate", "stream"):
        return ask_generate(port, inputs, stream=how == "stream")
    return ask_ensemble(port, inputs) if how == "ensemble" else ask_grpc(port, {**inputs, "stream": True})


def main() -> None:
    """Ask all that standard input says."""
    port, wanted = int(sys.argv[1]), json.load(sys.stdin)
    with ThreadPoolExecutor(wanted["at_once"]) as pool:
        asked = [pool.submit(ask, port, one["how"], one["inputs"]) for one in wanted["requests"]]
        json.dump([one.result() for one in asked], sys.stdout)


if __name__ == "__main__":
    main()
