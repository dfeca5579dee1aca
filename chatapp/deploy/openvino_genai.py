"""Runs an export in openvino-genai, if installed, and compares its text with ours."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from backends import telemetry
from chatapp.deploy.reference import compare, open_reference
from chatapp.generation.engine import Engine
from chatapp.generation.options import Options
from chatapp.generation.text.message import Message
from model_store.exports import ExportError, Finding, Source

PROMPTS = ("Once upon a time", "def read(path):", "  Two  spaces, äöü, 漢字 and 🙂\n")
TOKENS = 16
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
"""Full precision, so that any difference is a mistake."""


def is_installed() -> bool:
    """Whether openvino-genai is installed."""
    return find_spec("openvino_genai") is not None


def ask(source: Source, folder: Path, precision: str) -> list[Finding]:
    """Compare tokens and texts of ContinuousBatchingPipeline, which OpenVINO Model Server uses, with ours."""
    telemetry.silence()
    import openvino_genai

    engine = open_reference(source, precision)
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 1
    try:
        pipeline = openvino_genai.ContinuousBatchingPipeline(str(folder), scheduler, "CPU", EXACT)
    except Exception as error:  # openvino raises RuntimeError, and others
        raise ExportError(f"openvino-genai cannot load {folder}: {error}") from error
    tokenizer = pipeline.get_tokenizer()
    found = []
    for text in PROMPTS:
        tokens = tokenizer.encode(text).input_ids.data[0].tolist()
        same = tokens == engine.tokenizer.encode_prompt(text)
        figure = f"{len(tokens)} tokens" if same else f"{tokens}, and ours are {engine.tokenizer.encode_prompt(text)}"
        found.append(Finding(f"tokens of {text!r}", same, figure))
        said = generate(pipeline, tokens, engine.tokenizer.eos)
        found.append(compare(f"what follows {text!r}", said, greedy(engine, text)))
    if source.model.chats:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": PROMPTS[0]}], True)
        tokens = tokenizer.encode(prompt, add_special_tokens=False).input_ids.data[0].tolist()
        found.append(compare("an answer", generate(pipeline, tokens, engine.tokenizer.eos), answer(engine, PROMPTS[0])))
    return found


def generate(pipeline: Any, tokens: list[int], end: frozenset[int]) -> str:  # Any: the vendor's, without types
    """The greedy continuation of tokens."""
    import openvino
    import openvino_genai

    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.do_sample, config.stop_token_ids = TOKENS, False, set(end)
    [result] = pipeline.generate([openvino.Tensor(np.array([tokens], np.int64))], [config])
    text: str = pipeline.get_tokenizer().decode(result.m_generation_ids[0])
    return text


def greedy(engine: Engine, text: str) -> str:
    """Our greedy continuation of a text."""
    return "".join(delta.text for delta in engine.complete(text, Options(temperature=0, max_tokens=TOKENS)))


def answer(engine: Engine, text: str) -> str:
    """Our greedy reply to a message."""
    messages, options = [Message("user", text)], Options(temperature=0, max_tokens=TOKENS)
    return "".join(delta.text for delta in engine.chat(messages, options))
