"""A repository that holds only a Core ML package says what it has and what to do."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from model_store import Store, UnsupportedCheckpoint
from model_store.hub import pull
from model_store.hub.web import Site
from support.loopback_hub import LoopbackHub
from support.pulls import QUICK


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ('{"model_type": "llama"}', r"Core ML packages \(tiny.mlpackage\).*download one.*: chatapp import PATH"),
        ("", "has no config.json, but a Core ML model; it cannot be run"),
    ],
)
def test_what_is_there_and_what_to_do_is_told(tmp_path: Path, config: str, complaint: str) -> None:
    folder = tmp_path / "repository"
    data = folder / "tiny.mlpackage" / "Data" / "com.apple.CoreML"
    (data / "weights").mkdir(parents=True)
    (data / "model.mlmodel").write_bytes(b"graph")
    (data / "weights" / "weight.bin").write_bytes(b"weights")
    (folder / "tiny.mlpackage" / "Manifest.json").write_text("{}")
    Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")).save(str(folder / "tokenizer.json"))
    if config:
        (folder / "config.json").write_text(config)
    with LoopbackHub() as hub:
        hub.publish("org/tiny", folder)
        with pytest.raises(UnsupportedCheckpoint, match=complaint):
            pull.plan(Store(tmp_path / "models").roots, "org/tiny", site=Site(hub.url), patience=QUICK)
