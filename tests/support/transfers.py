"""Files to be fetched in tests, and how they are, with little patience."""

import hashlib
import os
from pathlib import Path

import pytest

from model_store.hub import hub, transfer
from model_store.hub.hub import Repository
from model_store.hub.partial import Wanted
from model_store.hub.transfer import Transfer
from model_store.hub.web import Answer, Patience, Site
from support.loopback_hub import LoopbackHub
from support.pulls import QUICK

SIZE = 3_000_000
WEIGHTS = "model.safetensors"


@pytest.fixture
def source(loopback: LoopbackHub, tmp_path: Path) -> Repository:
    """A repository with a large file and a small one."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / WEIGHTS).write_bytes(os.urandom(SIZE))
    (folder / "config.json").write_bytes(b"{}")
    loopback.publish("org/name", folder)
    return found(loopback)


def found(loopback: LoopbackHub, token: str | None = "secret") -> Repository:
    return hub.repository(Site(loopback.url, token), "org/name", None, patience=QUICK, on_wait=lambda *told: None)


def fetch(source: Repository, folder: Path, patience: Patience = QUICK) -> list[Transfer]:
    """Fetch everything, check it, and give back what was told meanwhile."""
    folder.mkdir(exist_ok=True)
    told: list[Transfer] = []

    def ask(file: Wanted, offset: int) -> Answer:
        return source.open(file, offset, stall=patience.stall)

    transfer.fetch(list(source.files.values()), folder, ask, on_transfer=told.append, patience=patience)
    for file in source.files.values():
        assert digest(folder / file.digest, file) == file.digest
    assert sorted(path.name for path in folder.iterdir()) == sorted(file.digest for file in source.files.values())
    return told


def digest(path: Path, file: Wanted) -> str:
    content = path.read_bytes()
    if len(file.digest) == 64:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
