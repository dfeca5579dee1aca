"""Conversations of very many messages: costs grow with them, and what cannot fit is not counted to its end."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from chatapp.cli.main import main
from chatapp.history.imported import read
from support.checkpoints import MakeCheckpoint


def exported(count: int) -> str:
    """Our own export of one conversation, each message after the one before."""
    messages: list[dict[str, Any]] = [  # Any: JSON
        {"id": place, "parent": place - 1 or None, "role": "assistant" if place % 2 == 0 else "user", "created": 1e9}
        | {"text": f"message {place} says a few words", "finished": True, "finish_reason": None, "model": ""}
        | {"options": {}, "usage": {}}
        for place in range(1, count + 1)
    ]
    one = {"title": "long", "kind": "chat", "model": "", "created": 1e9, "updated": 1e9, "leaf": count}
    return json.dumps(
        {"format": "chatapp-conversations", "version": 1, "conversations": [{**one, "messages": messages}]}
    )


def test_reading_our_own_export_is_linear() -> None:
    text = exported(40_000)
    start = time.process_time()
    assert len(read(text, "a file").conversations[0].messages) == 40_000
    assert time.process_time() - start < 6  # 17 s where each message looked through all before it


def test_a_conversation_of_many_times_the_context_is_refused_before_it_is_all_counted(
    checkpoint: MakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "long.json").write_text(exported(3000))
    main(["sessions", "import", str(tmp_path / "long.json")])
    main(["import", str(checkpoint("tiny", chats=True, max_position_embeddings=512))])
    start = time.process_time()
    assert main(["run", "tiny", "hi", "--session", "1", "--max-tokens", "1"]) == 1
    told = capsys.readouterr().err
    assert "the prompt is too long by more than 1," in told and "of 512)" in told
    assert time.process_time() - start < 10
    main(["sessions", "show", "1"])
    assert "message 3000 says" in capsys.readouterr().out
