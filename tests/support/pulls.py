"""What is pulled in tests: a repository of the hub on this machine, planned and fetched with little patience."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from model_store import Store, fit
from model_store.hub import pull
from model_store.hub.pull import Plan
from model_store.hub.transfer import Transfer
from model_store.hub.web import Patience, Site
from support.checkpoints import MakeCheckpoint
from support.loopback_hub import LoopbackHub

QUICK = Patience(stall=20, tries=3, pause=0.01)
ORG = "org/tiny"

Pull = Callable[..., Path]


@pytest.fixture
def folder(checkpoint: MakeCheckpoint, loopback: LoopbackHub) -> Path:
    """The files of a repository that is published."""
    made = checkpoint("tiny")
    loopback.publish(ORG, made)
    return made


@pytest.fixture
def planned(store: Store, loopback: LoopbackHub) -> Callable[..., Plan]:
    def plan(name: str = ORG, token: str | None = None, precision: str | None = None) -> Plan:
        return pull.plan(store.roots, name, site=Site(loopback.url, token), precision=precision, patience=QUICK)

    return plan


@pytest.fixture
def pulling(store: Store, planned: Callable[..., Plan]) -> Pull:
    def run(name: str = ORG, **options: object) -> Path:
        return planned(name, **options).fetch(on_transfer=lambda now: None, patience=QUICK)

    return run


def foreseen(folder: Path) -> int:
    """The weights that a plan would count in a checkpoint, by the header of its file."""
    path = folder / "model.safetensors"
    return fit.read_header(path.name, path.stat().st_size, lambda size: pull.start_of(path, size)).parameters


def everything(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


# The whole way


def sharded(folder: Path, weight_map: dict[str, str]) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


# Going on


def stalled(home: Path) -> bool:
    """Whether a file came as far as a server sends it that stalls after 200,000 bytes."""
    with suppress(FileNotFoundError):  # another one has just become whole
        return any(part.stat().st_size == 200_000 for part in home.rglob("*.part"))
    return False


def interrupted(store: Store, plan: Plan, at: int) -> None:
    def interrupt(now: Transfer) -> None:
        if now.done >= at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan.fetch(on_transfer=interrupt, patience=Patience(stall=1000))
