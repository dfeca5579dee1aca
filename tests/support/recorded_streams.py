"""What servers send, in the shapes that vLLM, llama-server, Ollama, OVMS and Triton were seen to send or document."""

from typing import Any

from support.remote_server import Recorded, RemoteServer

TEXT = "Grüße, 世界"
"""What all of them say."""
PIECES = ("Grü", "ße", ",", " 世", "界")


def chunk(delta: object, finish: str | None = None, **more: object) -> dict[str, Any]:  # Any: JSON
    """A chunk of OpenAI's chat completions."""
    choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice | more],
    }


def usage(prompt: int = 9, completion: int = 6, **more: object) -> dict[str, Any]:  # Any: JSON
    """The chunk without choices in which the usage comes."""
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
            "usage": told | more}  # fmt: skip


def vllm(*models: str, **answers: Recorded) -> dict[str, Recorded]:
    """vLLM: a role first, a token in each chunk, the usage before the mark."""
    listed = [{"id": name, "object": "model", "owned_by": "vllm", "max_model_len": 4096} for name in models or ("m",)]
    first = chunk({"role": "assistant", "content": ""})
    said = [chunk({"content": piece}) for piece in PIECES]
    stream = Recorded.events(first, *said, chunk({"content": ""}, "stop", stop_reason=None), usage())
    return {
        "/v1/models": Recorded.json({"object": "list", "data": listed}),
        "/v1/chat/completions": answers.get("chat", stream),
        "/v1/completions": answers.get("completions", stream),
    }


def llama_server(**answers: Recorded) -> dict[str, Recorded]:
    """llama-server: a null content first, timings with the last chunk, its own /props and /infill."""
    timings = {"cache_n": 4, "prompt_n": 5, "prompt_ms": 12.5, "predicted_n": 6, "predicted_ms": 60.0}
    said = [chunk({"content": piece}) for piece in PIECES]
    stream = Recorded.events(
        chunk({"role": "assistant", "content": None}), *said, chunk({}, "length"), usage() | {"timings": timings}
    )
    gap = Recorded.events(
        {"index": 0, "content": " a + b", "tokens": [1], "stop": False, "id_slot": 0},
        {"index": 0, "content": "\n", "tokens": [2], "stop": False, "id_slot": 0},
        {"index": 0, "content": "", "stop": True, "stop_type": "limit", "tokens_predicted": 2, "tokens_evaluated": 30},
        done=False,
    )
    model = {"id": "tiny.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 8192}}
    return {
        "/v1/models": Recorded.json({"models": [], "object": "list", "data": [model]}),
        "/props": Recorded.json({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 1}),
        "/v1/chat/completions": answers.get("chat", stream),
        "/infill": gap,
    }


def ollama(**answers: Recorded) -> dict[str, Recorded]:
    """Ollama: lines, times in nanoseconds, and OpenAI's list of models besides its own."""
    head = {"model": "qwen3:0.6b", "created_at": "2026-11-23T12:00:00.1Z"}
    said = [head | {"message": {"role": "assistant", "content": piece}, "done": False} for piece in PIECES]
    end = head | {
        "message": {"role": "assistant", "content": ""}, "done_reason": "stop", "done": True,
        "total_duration": 5e8, "load_duration": 1, "prompt_eval_count": 9, "prompt_eval_duration": 25_000_000,
        "eval_count": 6, "eval_duration": 60_000_000,
    }  # fmt: skip
    gap = [head | {"response": " a + b", "done": False}, head | {"response": "", "done": True, "done_reason": "length"}]
    show = {
        "template": "{{ if .Suffix }}{{ .Suffix }}{{ end }}{{ .Prompt }}", "parameters": "num_ctx    2048",
        "model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion", "thinking", "insert"],
    }  # fmt: skip
    return {
        "/v1/models": Recorded.json({"object": "list", "data": [{"id": "qwen3:0.6b", "owned_by": "library"}]}),
        "/api/tags": Recorded.json({"models": [{"name": "qwen3:0.6b", "model": "qwen3:0.6b"}]}),
        "/api/show": Recorded.json(show),
        "/api/chat": answers.get("chat", Recorded.lines(*said, end)),
        "/api/generate": Recorded.lines(*gap),
    }


def ovms(**answers: Recorded) -> dict[str, Recorded]:
    """OVMS: its paths begin with /v3, and its chunks have no identity."""
    said = [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in PIECES]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "object": "chat.completion.chunk"}
    return {
        "/v3/models": Recorded.json({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "OVMS"}]}),
        "/v3/chat/completions": answers.get("chat", Recorded.events(*said, last)),
    }


def triton(**answers: Recorded) -> dict[str, Recorded]:
    """Triton: no mark of the end but the connection's own."""
    said = [{"model_name": "m", "model_version": "1", "text_output": piece} for piece in PIECES]
    return {
        "/v2": Recorded.json({"name": "triton", "version": "2.60.0", "extensions": ["generate"]}),
        "/v2/repository/index": Recorded.json([{"name": "m", "version": "1", "state": "READY"}]),
        "/v2/models/m": Recorded.json({"name": "m", "platform": "python"}),
        "/v2/models/m/generate_stream": answers.get("stream", Recorded.events(*said, done=False)),
    }


SERVERS = {"vllm": vllm, "llamacpp": llama_server, "ollama": ollama, "ovms": ovms, "kserve": triton}


def serve(kind: str, **answers: Recorded) -> RemoteServer:
    """A server of this kind, with some of its answers exchanged."""
    return RemoteServer(SERVERS[kind](**answers))
