"""An engine whose model is in another process: tokens are counted here, everything else is asked there."""

from __future__ import annotations

import base64
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backends import Placement
from chatapp.generation.contract import Engine as EngineContract
from chatapp.generation.contract import Wanted, yes
from chatapp.generation.decoding.lines import Line
from chatapp.generation.decoding.preview import Distribution
from chatapp.generation.delta import Deltas
from chatapp.generation.engine import Engine
from chatapp.generation.options import Options, published_options
from chatapp.generation.partial_reply import NEW, PartialReply
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.message import Message
from chatapp.generation.text.surroundings import Around
from chatapp.generation.text.tokenizer import open_tokenizer
from chatapp.generation.wire import Json, read_message, read_surroundings, write_message, write_surroundings


class ProxySession:
    """The facts of a session in another process."""

    def __init__(self, context_length: int, vocab_size: int, whole_prompts: bool, placement: Placement) -> None:
        self.context_length, self.vocab_size, self.whole_prompts = context_length, vocab_size, whole_prompts
        self.placement = placement

    def open_batch(self) -> None: ...


class ProxyEngine(Engine):
    """A model of another process, with the interface of Engine; subclasses do the communication."""

    def __init__(self, facts: Json, folder: Path, tokenizer: Path, *, chats: bool) -> None:
        """`facts` are `describe`'s result there; `folder` and `tokenizer` are the same model's here."""
        session: Any = ProxySession(  # Any: it computes nothing
            facts["context_length"], facts["vocab_size"], facts["whole_prompts"], Placement(*facts["placement"])
        )
        template = ChatTemplate(folder) if chats else None
        super().__init__(session, open_tokenizer(folder, tokenizer), template, defaults=published_options(folder))

    @abstractmethod
    def _draw(self, asked: Json, options: Options) -> Deltas:
        """The deltas of a remote call."""

    @abstractmethod
    def _look(self, asked: Json, wanted: Wanted) -> Any:  # Any: JSON
        """The result of a remote call without deltas; None if no longer wanted."""

    def chat(
        self, messages: Sequence[Message], options: Options, begun: Sequence[int] = (), partial: PartialReply = NEW
    ) -> Deltas:
        asked = {"call": "chat", "messages": list(map(write_message, messages)), "begun": list(begun)}
        return self._draw({**asked, **write_partial(partial)}, options)

    def complete(self, text: str | Sequence[int], options: Options, partial: PartialReply = NEW) -> Deltas:
        self._prompts.check(self._prompt(text, options)[0])  # before the other process is asked
        asked = {"call": "complete", "text": text if isinstance(text, str) else list(text)}
        return self._draw({**asked, **write_partial(partial)}, options)

    def score(self, text: str | Sequence[int], options: Options) -> Deltas:
        self._prompts.check(self._prompt(text, options)[0])
        return self._draw({"call": "score", "text": text if isinstance(text, str) else list(text)}, options)

    def infill(
        self, prefix: str, suffix: str, options: Options, around: Around = None, partial: PartialReply = NEW
    ) -> Deltas:
        asked = {"call": "infill", "text": prefix, "suffix": suffix, "around": write_surroundings(around)}
        return self._draw({**asked, **write_partial(partial)}, options)

    def find_lines(
        self, prefix: str, suffix: str, around: Around = None, *, width: int = 4, count: int = 4, wanted: Wanted = yes
    ) -> list[Line] | None:
        asked = {"call": "find_lines", "text": prefix, "suffix": suffix, "around": write_surroundings(around)}
        found = self._look({**asked, "width": width, "count": count}, wanted)
        lines = found["lines"] if found else None
        return lines and [Line(text, tuple(tokens), logprob) for text, tokens, logprob in lines]

    def score_lines(
        self, prefix: str, suffix: str, texts: Sequence[str], around: Around = None, *, wanted: Wanted = yes
    ) -> list[float] | None:
        asked = {"call": "score_lines", "text": prefix, "suffix": suffix, "around": write_surroundings(around)}
        found = self._look({**asked, "texts": list(texts)}, wanted)
        scores = found["scores"] if found else None
        return scores and [-math.inf if score is None else score for score in scores]

    def next_token(
        self, prompt: Sequence[Message] | str, wanted: Wanted = yes, *, file_start: bool = False
    ) -> Distribution | None:
        text = {"text": prompt} if isinstance(prompt, str) else {"messages": list(map(write_message, prompt))}
        found = self._look({"call": "next_token", **text, "file_start": file_start}, wanted)
        if not found or found["logits"] is None:
            return None
        logits = np.frombuffer(base64.b64decode(found["logits"]), "<f4")
        return Distribution(logits, found["prompt"], self.tokenizer.detokenizer().describe, self.tokenizer)


def write_partial(partial: PartialReply) -> dict[str, Any]:  # Any: JSON
    """A partial reply as JSON."""
    return {"partial": list(partial.tokens), "seed": partial.seed} if partial != NEW else {}


def draw(engine: EngineContract, asked: Json, options: Options) -> Deltas:
    """Execute a `ProxyEngine`'s call that yields deltas."""
    partial = PartialReply(asked["partial"], asked.get("seed")) if "partial" in asked else NEW
    more = {"partial": partial} if partial != NEW else {}
    if asked["call"] == "chat":
        messages = [read_message(one) for one in asked.get("messages") or ()]
        return engine.chat(messages, options, asked.get("begun", ()), **more)
    if asked["call"] == "complete":
        return engine.complete(asked["text"], options, **more)
    if asked["call"] == "score":
        assert isinstance(engine, Engine)  # engines here are local
        return engine.score(asked["text"], options)
    return engine.infill(asked["text"], asked["suffix"], options, read_surroundings(asked["around"]), **more)


def look(engine: EngineContract, asked: Json, wanted: Wanted) -> Json:
    """Execute a call without deltas; it ends early when nobody waits."""
    if asked["call"] == "next_token":
        messages = asked.get("messages")
        prompt = asked["text"] if messages is None else [read_message(one) for one in messages]
        found = engine.next_token(prompt, wanted, file_start=asked["file_start"])
        if not found:
            return {"logits": None}
        logits = base64.b64encode(found.logits.astype("<f4").tobytes()).decode()
        return {"logits": logits, "prompt": list(found.prompt)}
    around, prefix, suffix = read_surroundings(asked["around"]), asked["text"], asked["suffix"]
    if asked["call"] == "score_lines":
        scores = engine.score_lines(prefix, suffix, asked["texts"], around, wanted=wanted)
        return {"scores": scores and [score if score > -math.inf else None for score in scores]}
    lines = engine.find_lines(prefix, suffix, around, width=asked["width"], count=asked["count"], wanted=wanted)
    return {"lines": lines and [[one.text, list(one.tokens), one.logprob] for one in lines]}


def describe(engine: Engine) -> Mapping[str, Any]:  # Any: JSON
    """The facts that another process needs to count as this engine does."""
    session, place = engine.session, engine.placement
    return {
        "context_length": session.context_length,
        "vocab_size": session.vocab_size,
        "whole_prompts": session.whole_prompts,
        "placement": [place.backend, place.device, place.precision],
    }
