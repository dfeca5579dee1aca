"""What the server says about itself: Prometheus metrics, and its endpoints as OpenAPI."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from chatapp import __version__
from chatapp.server.metrics import CONTENT_TYPE
from chatapp.server.openai_shapes import form_error
from chatapp.server.protocol import Call, Endpoint, Json, Protocol

REFUSED = ("400", "401", "403", "404", "413", "415", "422", "429", "500", "503", "504")
"""Error statuses that any endpoint may return."""


async def tell_metrics(call: Call, body: None) -> None:
    """Send the metrics."""
    content = call.service.metrics.write(call.service.queue, call.service.models)
    await call.send_bytes(content, CONTENT_TYPE)


def describe_protocols(protocols: Sequence[Protocol]) -> Json:
    """The endpoints of these protocols in OpenAPI 3.1, from the models of their bodies."""
    paths: dict[str, dict[str, Any]] = {}  # Any: JSON
    bodies = {endpoint.body: None for protocol in protocols for endpoint in protocol.endpoints if endpoint.body}
    references, found = models_json_schema(
        [(body, "validation") for body in bodies], ref_template="#/components/schemas/{model}"
    )  # all at once, since bodies of two protocols may have the same name
    schemas = found["$defs"]
    for protocol in protocols:
        for endpoint in protocol.endpoints:
            described = describe_endpoint(protocol, endpoint)
            if endpoint.body:
                reference = references[endpoint.body, "validation"]
                required = bool(schemas[reference["$ref"].rpartition("/")[2]].get("required"))
                described["requestBody"] = {
                    "required": required,
                    "content": {"application/json": {"schema": reference}},
                }
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = described
    info = {"title": "chatapp", "version": __version__, "description": "Language models that run on this machine."}
    security = {"key": {"type": "http", "scheme": "bearer"}}
    components = {"schemas": schemas, "securitySchemes": security}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components, "security": [{"key": []}, {}]}


def describe_endpoint(protocol: Protocol, endpoint: Endpoint) -> dict[str, Any]:  # Any: JSON
    """An operation without its body."""
    said: dict[str, Any] = {
        "tags": [protocol.name],
        "summary": endpoint.about,
        "responses": {"200": {"description": "The answer"}}
        | {status: {"description": "Refused, and why"} for status in REFUSED},
    }
    if names := re.findall(r"\{(\w+)\}", endpoint.path):
        part = {"in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        said["parameters"] = [{"name": name, **part} for name in names]
    return said


def make_protocol(protocols: Sequence[Protocol]) -> Protocol:
    """The protocol with the endpoints about all others."""

    async def tell_openapi(call: Call, body: None) -> None:
        """Send the OpenAPI description."""
        await call.send_json(description)

    endpoints = (
        Endpoint("GET", "/metrics", tell_metrics, about="Figures for Prometheus"),
        Endpoint("GET", "/openapi.json", tell_openapi, about="This description"),
    )
    own = Protocol("chatapp", endpoints, form_error)
    description = describe_protocols([*protocols, own])
    return own
