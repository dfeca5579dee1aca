"""`ovms`: a folder that OpenVINO Model Server serves with OpenAI's protocol, text in and text out."""

import json
from dataclasses import dataclass
from pathlib import Path

from backends import Progress
from model_store.exports import ExportError, Source, decoders, openvino, option
from model_store.files import optional_json, write_json
from model_store.tokenizers.chat_template import chat_template

SUMMARY = "a folder for OpenVINO Model Server: graphs, tokenizers, configuration and start command"
DEVICES = ("CPU", "GPU")


@dataclass(frozen=True)
class Options(openvino.Options):
    """The options of the target."""

    device: str = option("CPU", "the server's device: CPU or GPU (default: CPU)", choices=DEVICES, metavar="D")


def refuse(source: Source, options: Options) -> None:
    """Raise ExportError for what the server cannot have, or if a required package is missing."""
    from backends.openvino import tokenizers

    decoders.require_decoder(source, "the target ovms")  # so that messages name this target
    openvino.refuse(source, options)
    if any(layer.softcap for layer in source.decoder.layers):
        raise ExportError(
            f"{source.model.name} has a soft cap on its scores ({source.model.family}), which the server's paged "
            "attention lacks; export it with: chatapp export triton"
        )
    if openvino.divides_by_moses(source):
        raise ExportError(
            f"{source.model.name} divides words by Moses' rules ({source.model.family}), which the server's tokenizers "
            "lack; export it with: chatapp export triton"
        )
    if missing := tokenizers.missing():
        raise ExportError(f"the target ovms needs {' and '.join(missing)}; run: {openvino.NEEDS}")


def write(source: Source, folder: Path, options: Options, on_progress: Progress | None = None) -> None:
    """Write the model's folder, the server's config.json, and the command that starts it."""
    name = source.model.name
    inside = folder / name
    inside.mkdir()
    openvino.write(source, inside, options, on_progress)
    if (template := chat_template(source.folder)) is not None:  # wherever the publisher keeps it
        (inside / "chat_template.jinja").write_text(template, "utf-8")
    write_generation_config(source, inside)
    (inside / "graph.pbtxt").write_text(GRAPH.format(device=options.device), "utf-8")
    write_json(folder / "config.json", {"model_config_list": [{"config": {"name": name, "base_path": name}}]})
    start = folder / "start.sh"
    start.write_text(START, "utf-8")
    start.chmod(0o755)
    what = "chat/completions" if source.model.chats else "completions"
    asked = {"messages": [{"role": "user", "content": "Hello"}]} if source.model.chats else {"prompt": "Hello"}
    body = json.dumps({"model": name, **asked, "max_tokens": 32})
    (folder / "README.md").write_text(README.format(name=name, what=what, body=body), "utf-8")


def write_generation_config(source: Source, folder: Path) -> None:
    """Write generation_config.json with the tokens that end an answer, which may be in config.json."""
    fields = optional_json(source.folder / "generation_config.json")
    for name in ("eos_token_id", "bos_token_id", "pad_token_id"):
        if fields.get(name) is None and source.config.get(name) is not None:
            fields[name] = source.config[name]
    write_json(folder / "generation_config.json", fields)


GRAPH = """\
# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {{
  name: "LLMExecutor"
  calculator: "HttpLLMCalculator"
  input_stream: "LOOPBACK:loopback"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_side_packet: "LLM_NODE_EXECUTION_CONTEXTS:llm_ctx"
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_info {{
    tag_index: "LOOPBACK:0"
    back_edge: true
  }}
  node_options {{
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] {{
      models_path: "./"
      device: "{device}"
      enable_prefix_caching: true
      cache_size: 0
    }}
  }}
  input_stream_handler {{
    input_stream_handler: "SyncSetInputStreamHandler"
    options {{
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {{
        sync_set {{
          tag_index: "LOOPBACK:0"
        }}
      }}
    }}
  }}
}}
"""
START = """\
#!/bin/sh
# Serves on this machine only; ovms is https://github.com/openvinotoolkit/model_server, 2026.3 or newer.
cd "$(dirname "$0")" || exit 1
exec ovms --config_path config.json --rest_bind_address 127.0.0.1 --rest_port "${PORT:-8000}"
"""
README = """\
# {name}, for OpenVINO Model Server

    ./start.sh

    curl -s 127.0.0.1:8000/v3/{what} -H 'Content-Type: application/json' -d '{body}'

In a container:

    docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD:/models:ro" openvino/model_server:latest \\
        --config_path /models/config.json --rest_port 8000
"""
