"""Ollama's endpoints about models: tags, show, ps, pull, copy, delete."""

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from chatapp.generation.text.chat_template import mentions_tools
from chatapp.generation.text.thinking import find_choices
from chatapp.server.bodies import Anything, Body
from chatapp.server.drawing import Drawing
from chatapp.server.loaded import LoadedModels, date
from chatapp.server.protocol import LINES, Call, Endpoint, Json, line, refuse_embedding
from chatapp.server.refusals import Refusal, unsupported
from model_store import StoredModel, StoreError
from model_store.hub.catalog import refer
from model_store.models import BUILTIN
from model_store.tokenizers.chat_template import chat_template

REFERENCE = re.compile(r"(?:(?:hf\.co|huggingface\.co)/)?([\w][\w.-]*(?:/[\w][\w.-]*)?)(?::([\w.-]+))?")
"""A catalogue name, or a repository of the Hub and perhaps a quantisation, as Ollama's clients write it."""


class Named(Body):
    """A body that names a model, by either of two words."""

    model: str | None = None
    name: str | None = None

    @property
    def name_given(self) -> str:
        """The name of the model."""
        return self.model or self.name or ""


class Shown(Named):
    """A model to be shown."""

    verbose: bool | None = None
    system: str | None = None
    template: str | None = None
    options: dict[str, Any] | None = None


class Pulled(Named):
    """A model to be pulled."""

    stream: bool | None = None
    insecure: bool | None = None
    username: str | None = None
    password: str | None = None


class Copied(Body):
    """A model to be given a second name."""

    source: str
    destination: str


async def list_tags(call: Call, body: None) -> None:
    """List the models."""
    models = await call.service.work(lambda: [describe(one) for one in call.service.models.list()])
    await call.send_json({"models": models})


def describe(stored: StoredModel) -> dict[str, Any]:
    """A model in a list."""
    return {
        "name": stored.name,
        "model": stored.name,
        "modified_at": date(stored).isoformat().replace("+00:00", "Z"),
        "size": stored.size,
        "digest": hashlib.sha256(stored.name.encode()).hexdigest(),
        "details": describe_details(stored),
        "capabilities": list_capabilities(stored),
    }


def list_capabilities(stored: StoredModel) -> list[str]:
    """A model's capabilities without `insert`, for which its tokenizer would have to be read."""
    source = ""
    with suppress(StoreError):  # reported when the model is used
        source = (stored.chats and chat_template(stored.folder)) or ""
    return ["completion", *["thinking"] * bool(find_choices(source)), *["tools"] * mentions_tools(source)]


def describe_details(stored: StoredModel) -> Json:
    """Size and format of a model."""
    millions = stored.parameters / 1e6
    return {
        "parent_model": "",
        "format": "chatapp",
        "family": stored.family,
        "families": [stored.family],
        "parameter_size": f"{millions / 1000:.1f}B" if millions >= 1000 else f"{millions:.0f}M",
        "quantization_level": stored.precision,
    }


async def show(call: Call, body: Shown) -> None:
    """Send everything about a model."""
    await call.send_json(await call.service.work(lambda: describe_fully(call.service.models, body.name_given)))


def describe_fully(models: LoadedModels, name: str) -> Json:
    """A model's capabilities and context length, which clients check before they use it."""
    stored = models.find(name)
    source, gap = chat_template(stored.folder) if stored.chats else None, models.find_gap(stored)
    prompt = source or "{{ .Prompt }}"
    template = f"{{{{- if .Suffix }}}}{gap}{{{{ else }}}}{prompt}{{{{ end }}}}" if gap else prompt
    family = stored.family
    return {
        "license": "",
        "modelfile": f"FROM {stored.name}",
        "parameters": f"num_ctx {stored.context_length}",
        "template": template,
        "details": describe_details(stored),
        "model_info": {
            "general.architecture": family,
            "general.basename": stored.name,
            "general.parameter_count": stored.parameters,
            f"{family}.context_length": stored.context_length,
        },
        "capabilities": [*list_capabilities(stored), *["insert"] * bool(gap)],
        "modified_at": describe(stored)["modified_at"],
    }


async def list_open(call: Call, body: None) -> None:
    """List the open models."""
    models = [
        {
            **describe(one.stored),
            "size": one.memory,
            "size_vram": 0,
            "expires_at": one.expires.isoformat(),
            "context_length": one.engine.context_length,
        }
        for one in call.service.models.open.values()
    ]
    await call.send_json({"models": models})


async def pull(call: Call, body: Pulled) -> None:
    """Pull a model, only from the configured Hub."""
    if body.username or body.password:
        raise unsupported("username", "the Hub uses tokens, not passwords; to save one, run: chatapp login")
    name = read_reference(body.name_given)
    drawing = Drawing(lambda: call.service.models.pull(name))
    try:
        if body.stream is not False:
            await call.send_stream(LINES, (line(one) async for one in tell_pull(drawing)))
        else:
            async for _ in drawing:
                pass
            await call.send_json({"status": "success"})
    finally:
        drawing.close()


def read_reference(name: str) -> str:
    """The name to pull; URLs and paths are refused."""
    found = REFERENCE.fullmatch(name)
    if not found:
        raise Refusal(400, f"{name[:80]!r} is neither in the catalogue nor a repository", param="model")
    reference, tag = found.groups()
    joint = ":" if "/" in reference else "-"
    wanted = str(reference) if not tag or tag == "latest" else f"{reference}{joint}{tag}"
    refer(wanted)
    return wanted


async def tell_pull(drawing: Drawing[Mapping[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """The progress lines of a pull."""
    yield {"status": "pulling manifest"}
    async for facts in drawing:
        if facts["event"] == "progress":
            digest = f"sha256:{hashlib.sha256(str(facts.get('model', '')).encode()).hexdigest()}"
            size, done = facts["size"], facts["done"]
            yield {"status": f"pulling {digest[7:19]}", "digest": digest, "total": size, "completed": done}
        elif facts["event"] == "step":
            yield {"status": str(facts["step"])}
        elif facts["event"] == "ready":
            for status in ("verifying sha256 digest", "writing manifest", "success"):
                yield {"status": status}


async def delete(call: Call, body: Named) -> None:
    """Delete a model; an empty name does not mean the default here."""
    models = call.service.models
    if not body.name_given.strip():
        raise Refusal(400, "model is missing: send the name of the model to delete", param="model")
    name = await call.service.work(lambda: models.resolve(body.name_given))
    if name == BUILTIN:
        raise Refusal(400, f"{name} is part of chatapp and cannot be deleted", param="model")
    if name in models.open and models.open[name].users:
        raise Refusal(409, f"{name} is answering a request; try again later", param="model")
    models.close(name)
    await call.service.work(lambda: models.workspace.open_store().remove(name))
    await call.send_json({})


async def copy(call: Call, body: Copied) -> None:
    """Give a model a second name."""
    from model_store.upkeep import copies

    models = call.service.models
    if not body.source.strip():
        raise Refusal(400, "source is missing: send the name of the model to copy", param="source")
    name = await call.service.work(lambda: models.resolve(body.source))
    try:
        await call.service.work(lambda: copies.copy(models.workspace.open_store(), name, body.destination))
    except StoreError as error:
        raise Refusal(400, str(error), param="destination") from error
    await call.send_json({})


async def refuse_making(call: Call, body: Anything) -> None:
    """Refuse to create or publish models."""
    raise Refusal(400, "this server pulls, copies and deletes models, but does not create or push them")


ENDPOINTS = (
    Endpoint("GET", "/api/tags", list_tags, about="The models on this server"),
    Endpoint("POST", "/api/show", show, Shown, "Details of a model"),
    Endpoint("GET", "/api/ps", list_open, about="The models that are open"),
    Endpoint("POST", "/api/pull", pull, Pulled, "Pull a model from the Hub"),
    Endpoint("DELETE", "/api/delete", delete, Named, "Delete a model"),
    Endpoint("POST", "/api/copy", copy, Copied, "Copy a model to a second name"),
    Endpoint("POST", "/api/embed", refuse_embedding, Anything, "Refused: no model here embeds"),
    Endpoint("POST", "/api/embeddings", refuse_embedding, Anything, "Refused: no model here embeds"),
    Endpoint("POST", "/api/create", refuse_making, Anything, "Refused"),
    Endpoint("POST", "/api/push", refuse_making, Anything, "Refused"),
)
