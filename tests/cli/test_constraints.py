"""Answers that must be something, from the command line."""

import json
import re
from pathlib import Path

import pytest

from support.checkpoints import MakeCheckpoint, Run

SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}


def test_an_answer_is_json_of_the_schema_in_a_file(checkpoint: MakeCheckpoint, chatapp: Run, tmp_path: Path) -> None:
    file, folder = tmp_path / "schema.json", str(checkpoint())
    file.write_text(json.dumps(SCHEMA))
    found = json.loads(chatapp("run", folder, "def f", "--json-schema", str(file), "--json").stdout)
    assert found["valid"] and json.loads(found["text"]) in ({"a": 1}, {"a": 2})
    plain = chatapp("run", folder, "def f", "--json-schema", str(file), "--max-tokens", "2")
    assert "Not valid: it was cut off. Raise --max-tokens." in plain.stderr
    assert "valid" not in json.loads(chatapp("run", folder, "def f", "--max-tokens", "2", "--json").stdout)


def test_an_answer_is_one_of_some_texts_or_of_a_grammar(
    checkpoint: MakeCheckpoint, chatapp: Run, tmp_path: Path
) -> None:
    folder = str(checkpoint())
    assert chatapp("run", folder, "x", "--choice", "yes", "--choice", "no").stdout in ("yes\n", "no\n")
    grammar = tmp_path / "sum.lark"
    grammar.write_text('start: /[0-9]/ "+" /[0-9]/')
    assert re.fullmatch(r"[0-9]\+[0-9]\n", chatapp("run", folder, "x", "--grammar", str(grammar)).stdout)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--regex", "(a"], "regex is wrong at character 1: unclosed group"),
        (["--json-schema", "/no/such/file"], "cannot read /no/such/file"),
        (["--regex", "a", "--json-object"], "--json-object: not allowed with argument --regex"),
        (["--choice", ""], "choice must be a list of non-empty texts"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_a_model_is_opened(chatapp: Run, words: list[str], reason: str) -> None:
    found = chatapp("run", "no-such-model", "x", *words)
    assert found.returncode and reason in found.stderr
