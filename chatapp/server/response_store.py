"""Responses that later requests continue: in memory while the server runs, the oldest dropped first."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chatapp.generation import Message
from chatapp.server.bodies import given
from chatapp.server.refusals import Refusal
from chatapp.server.tools import join_name

MOST = 1000
"""Maximum responses."""
BYTES = 64 << 20
"""Maximum bytes of all responses; what two share counts twice."""


@dataclass(frozen=True)
class StoredResponse:
    """A response, and the conversation that ends with it."""

    client: str
    said: Sequence[Message]
    """Without instructions, which apply to one request only."""
    response: dict[str, Any]  # Any: JSON

    @cached_property
    def size(self) -> int:
        """Its approximate size in bytes."""
        return len(repr((self.said, self.response)))

    def list_input(self) -> list[dict[str, Any]]:
        """The conversation before the response as OpenAI's items, including earlier responses."""
        items = list[dict[str, Any]]()
        offered = self.response["tools"]
        spaces = {join_name(one["name"], tool["name"]): one["name"] for one in offered for tool in one.get("tools", ())}
        for one in self.said[:-1]:
            if one.answers:
                items.append({"type": "function_call_output", "call_id": one.answers.id, "output": one.text})
            elif one.text or not one.calls:
                own = one.role == "assistant"
                part = {"type": "output_text", "annotations": []} if own else {"type": "input_text"}
                items.append({"type": "message", "role": one.role, "content": [{**part, "text": one.text}]})
            for call in one.calls:
                space = spaces.get(call.name)
                name = call.name.removeprefix(join_name(space, ""))
                called = {"call_id": call.id, "name": name, **given(namespace=space), "arguments": call.arguments}
                items.append({"type": "function_call", **called})
        name = self.response["id"].removeprefix("resp_")
        return [{"id": f"item_{name}_{place}", "status": "completed", **one} for place, one in enumerate(items)]


class ResponseStore:
    """The responses of all clients; each sees only its own."""

    def __init__(self, *, most: int = MOST, size: int = BYTES):
        self.most, self.room = most, size
        self.stored: OrderedDict[str, StoredResponse] = OrderedDict()

    def add(self, one: StoredResponse) -> None:
        """Store a response, and drop the oldest ones if there are too many."""
        self.stored[one.response["id"]] = one
        self.room -= one.size
        while self.stored and (len(self.stored) > self.most or self.room < 0):
            self.room += self.stored.popitem(last=False)[1].size

    def find(self, name: str, client: str) -> StoredResponse:
        """A response of this client; Refusal if there is none."""
        found = self.stored.get(name)
        if found is None or found.client != client:
            why = "they are kept in memory until the server stops, unless `store` is false, and the oldest are dropped"
            raise Refusal(404, f"there is no response {name[:100]!r} here; {why}", code="not_found")
        return found

    def find_previous(self, name: str, client: str) -> StoredResponse:
        """The response that a request continues; Refusal in OpenAI's form if there is none."""
        try:
            return self.find(name, client)
        except Refusal as error:
            message = f"{error}: send the whole conversation as `input`"
            raise Refusal(400, message, param="previous_response_id", code="previous_response_not_found") from error

    def find_item(self, name: str, client: str) -> Mapping[str, Any]:
        """An output item of a response of this client; Refusal if there is none."""
        for one in reversed(self.stored.values()):
            for item in one.response["output"] if one.client == client else ():
                if item["id"] == name:
                    return dict(item)
        message = f"there is no item {name[:100]!r} here (or no longer): send the whole conversation as `input`"
        raise Refusal(404, message, param="input", code="not_found")

    def remove(self, name: str, client: str) -> None:
        """Remove a response of this client; Refusal if there is none."""
        self.room += self.find(name, client).size
        del self.stored[name]
