"""OpenAI's protocol: its endpoints and its list of models."""

from chatapp.server.bodies import Anything
from chatapp.server.loaded import date
from chatapp.server.openai_chat import ChatRequest, chat
from chatapp.server.openai_completions import CompletionRequest, FimRequest, complete, fill
from chatapp.server.openai_shapes import form_error
from chatapp.server.protocol import Call, Endpoint, Json, Protocol, refuse_embedding
from model_store import StoredModel


async def list_models(call: Call, body: None) -> None:
    """List the models."""
    stored = await call.service.work(call.service.models.list)
    data = [describe_model(one) for one in stored]
    more = {"has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}  # as Anthropic's clients want it
    await call.send_json({"object": "list", "data": data, **more})


async def show_model(call: Call, body: None) -> None:
    """Send one model."""
    stored = await call.service.work(lambda: call.service.models.find(call.path_part("model")))
    await call.send_json(describe_model(stored))


def describe_model(stored: StoredModel) -> Json:
    """A model with its context length, which some clients read from here."""
    length, written = stored.context_length, date(stored)
    return {
        "id": stored.name,
        "object": "model",
        "type": "model",
        "display_name": stored.name,
        "created": int(written.timestamp()),
        "created_at": f"{written:%Y-%m-%dT%H:%M:%SZ}",
        "owned_by": "chatapp",
        "capabilities": ["completion", *["chat"] * stored.chats],
        "context_length": length,
        "max_model_len": length,
        "meta": {"n_ctx_train": length, "n_params": stored.parameters, "size": stored.size},
    }


PROTOCOL = Protocol(
    "openai",
    (
        Endpoint("GET", "/v1/models", list_models, about="The models on this server"),
        Endpoint("GET", "/v1/models/{model}", show_model, about="One model"),
        Endpoint("POST", "/v1/chat/completions", chat, ChatRequest, "Answer a conversation"),
        Endpoint("POST", "/v1/completions", complete, CompletionRequest, "Continue texts, or fill a gap"),
        Endpoint("POST", "/v1/fim/completions", fill, FimRequest, "Fill a gap, as Mistral's clients ask for it"),
        Endpoint("POST", "/v1/embeddings", refuse_embedding, Anything, "Refused: no model here embeds"),
    ),
    form_error,
)
