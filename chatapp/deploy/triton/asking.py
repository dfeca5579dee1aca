"""Runs an exported repository in the stand-in for Triton and compares its answers with ours."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from chatapp.deploy.reference import compare
from chatapp.deploy.triton import stand_in
from chatapp.generation.engine import Engine
from chatapp.generation.text.message import Message
from model_store.exports import ExportError, Finding
from model_store.exports import triton as repository

PROMPT = "Once upon a time"
WORDS = 4
"""Tokens requested from the ensemble, one by one."""
TOKENS = 12
"""Tokens requested from the chat model."""
SEED = 7


class Server:
    """A process that has loaded a repository."""

    def __init__(self, folder: Path):
        command = [sys.executable, "-P", str(Path(stand_in.__file__)), str(folder)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8")

    def ask(self, model: str, **inputs: Sequence[Any]) -> list[dict[str, Any]]:  # Any: what JSON has
        """The responses of a model; ExportError if it fails."""
        assert self.process.stdin and self.process.stdout and self.process.stderr
        try:
            self.process.stdin.write(json.dumps({"model": model, "inputs": inputs}) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended; its standard error says why
        if not (line := self.process.stdout.readline()):
            said = self.process.stderr.read().strip().splitlines()
            raise ExportError(f"the repository could not be loaded: {said[-1] if said else 'it ended'}")
        answers: list[dict[str, Any]] = json.loads(line)
        if wrong := next((one["error"] for one in answers if "error" in one), None):
            raise ExportError(f"the model {model} answered with an error: {wrong}")
        return answers


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A running server for a repository."""
    server = Server(folder)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def ask(folder: Path, engine: Engine) -> list[Finding]:
    """Compare the answer of each model in the repository with our engine's."""
    found = []
    with serving(folder) as server:
        text, ours = PROMPT, PROMPT
        for _ in range(WORDS):
            text += server.ask(repository.ENSEMBLE, TEXT=[text])[0]["OUTPUT"][0]
            ours += next_word(engine, ours)
        found.append(compare("the ensemble's next words", text, ours))
        expected = answer(engine)
        asked: dict[str, Sequence[Any]] = {"text_input": [PROMPT], "seed": [SEED], "max_tokens": [TOKENS]}
        told = server.ask(repository.CHAT, **asked)
        found.append(compare("an answer at once", join(told), expected))
        streamed = server.ask(repository.CHAT, **asked, stream=[True])
        found.append(compare(f"an answer in {len(streamed)} parts", join(streamed), expected))
    return found


def join(answers: Sequence[dict[str, Any]]) -> str:
    """The text of all responses."""
    return "".join(one["thinking"][0] + one["text_output"][0] for one in answers)


def next_word(engine: Engine, text: str) -> str:
    """The text of our likeliest next token."""
    tokens = engine.tokenizer.encode_prompt(text)
    engine.session.rewind(0)
    logits = engine.session.forward(np.array([tokens]))
    detokenizer = engine.tokenizer.detokenizer(tokens)
    return detokenizer.add(int(logits[0, -1].argmax())) + detokenizer.flush()


def answer(engine: Engine) -> str:
    """Our reply to the prompt, or its continuation."""
    options = replace(engine.defaults, seed=SEED, max_tokens=TOKENS)
    deltas = engine.chat([Message("user", PROMPT)], options) if engine.can_chat else engine.complete(PROMPT, options)
    return "".join(delta.text for delta in deltas)
