"""Exports of ChatGPT, as tests write them."""

from typing import Any


def node(parent: str | None, role: str, text: object, **more: object) -> dict[str, Any]:
    """A node of ChatGPT's tree."""
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    return {"parent": parent, "message": {"author": {"role": role}, "content": content, "create_time": 5.5, **more}}


def chatgpt(**nodes: dict[str, Any]) -> list[dict[str, Any]]:
    """An export of ChatGPT with one conversation."""
    return [{"title": "A\ntitle", "create_time": 1.5, "update_time": 9.5, "current_node": "z", "mapping": nodes}]
