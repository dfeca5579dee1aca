"""`chatapp replay`: the answers of a conversation, computed again by the model that wrote them."""

import json
from pathlib import Path

import pytest

from chatapp.history import History
from support.checkpoints import MakeCheckpoint, Run


@pytest.fixture
def tiny(checkpoint: MakeCheckpoint) -> str:
    return str(checkpoint(chats=True))


def test_answers_are_identical_until_their_tokens_are_altered(chatapp: Run, tiny: str, home: Path) -> None:
    assert chatapp("run", tiny, "hello", "--max-tokens", "5", "--seed", "1", "--backend", "onnx").returncode == 0
    assert chatapp("run", "-c", "and then?", "--max-tokens", "4", "--seed", "2", "--backend", "onnx").returncode == 0
    every = chatapp("replay", "--all")
    assert every.returncode == 0, every.stderr
    assert [line.partition(": ")[2].partition(",")[0] for line in every.stdout.splitlines()] == ["identical"] * 2
    with History(home / "history.db") as history:
        [conversation] = history.list()
        last = history.messages(conversation.id)[-1]
        tokens = history.tokens(last.id)
        other = tokens[0].__class__((tokens[2].id + 1) % 50, "?", -1.5, (), 0.1)
        history.change(last, tokens=[*tokens[:2], other, *tokens[3:]])
    altered = chatapp("replay", "1", "--json")
    assert altered.returncode == 1
    facts = json.loads(altered.stdout)
    assert (facts["identical"], facts["place"], facts["was"]["logprob"]) == (False, 2, -1.5)
    assert "differs at token 3 of 4: was '?' (-1.500)" in chatapp("replay", "1", "--answer", "2").stdout
    assert chatapp("replay", "1", "--answer", "1").returncode == 0


def test_what_is_not_there_cannot_be_replayed(chatapp: Run, tiny: str) -> None:
    assert "no conversations yet" in chatapp("replay").stderr
    assert chatapp("run", tiny, "hello", "--max-tokens", "2").returncode == 0
    assert "1 answers" in chatapp("replay", "1", "--answer", "3").stderr
    assert "there is no conversation 9" in chatapp("replay", "9").stderr
