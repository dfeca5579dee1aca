"""`chatapp deploy ray`: deploy a version, replace another by it, answer requests, remove it."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.deploy.ray import environment
from chatapp.deploy.ray.fetching import FolderSource, fetch
from chatapp.deploy.ray.plan import Plan
from chatapp.deploy.ray.version import Version, describe_version
from chatapp.placement.selection import PlacementOptions
from chatapp.server.settings import ServerSettings, read_keys
from chatapp.server.start import log, make_server, run
from chatapp.text.errors import InputError
from chatapp.workspace import Workspace
from model_store import Store, StoredModel

if TYPE_CHECKING:
    from chatapp.deploy.ray.cluster import Cluster


def deploy(workspace: Workspace, plan: Plan, settings: ServerSettings, placement: PlacementOptions) -> int:
    """Deploy a model, replacing its previous version, and answer requests; returns the exit code."""
    environment.check_installed()
    described = describe(workspace.open_store(), plan, placement) if plan.model else None
    environment.prepare(workspace.home, plan.address)
    from chatapp.deploy.ray.cluster import Cluster

    with closing(Cluster(plan.address)) as cluster:
        log(f"Ray is at {cluster.address}")
        name = described[0].name if described else plan.name
        if described:
            roll(cluster, *described, plan)
        if plan.answers:
            answer(workspace, cluster, name, settings, plan.shared)
    return 0


def describe(store: Store, plan: Plan, placement: PlacementOptions) -> tuple[Version, StoredModel]:
    """The version that a plan's model makes, with its files copied to the shared folder if there is one."""
    model = store.get(plan.model)
    version = describe_version(store, model, placement, plan.name)
    if plan.shared:
        share(Path(plan.shared), version, model)
    return version, model


def share(shared: Path, version: Version, model: StoredModel) -> None:
    """Copy the files of a version to the folder all nodes can read, unless they are there."""
    target, part = shared / version.stored, shared / f".{version.stored}.part"
    if target.is_dir():
        return
    if not shared.is_dir():
        raise InputError(f"there is no folder {shared}; choose one that all nodes can reach, or leave out --shared")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for file in version.files:
        fetch(part, file, version.name, lambda: FolderSource(model.folder), 0.0)
    part.rename(target)


def roll(cluster: Cluster, version: Version, model: StoredModel, plan: Plan) -> None:
    """Start a version beside the previous one, switch requests to it, and end the old one after its answers."""
    before = cluster.ledger.current(version.name)
    if not plan.shared:
        cluster.offer(version, model.folder)
    cluster.deploy(version, plan)
    log(f"{version.name} is ready: version {version.digest[:12]}")
    cluster.ledger.promote(version)
    if before and before.digest != version.digest:
        log(f"{version.name} was version {before.digest[:12]}; its open answers are finished first")
        cluster.retire(before, plan.drain)
        log(f"version {before.digest[:12]} has stopped")


def answer(workspace: Workspace, cluster: Cluster, name: str, settings: ServerSettings, shared: str) -> None:
    """Answer requests until told to end."""
    from chatapp.deploy.ray.gateway import SPOKEN, DeployedWorkspace, Gateway

    if not (version := cluster.ledger.current(name)):
        known = ", ".join(cluster.ledger.names()) or "nothing"
        raise InputError(f"no model called {name!r} is deployed there; what is: {known}")
    gateway = Gateway(DeployedWorkspace(workspace, name), settings, cluster, shared, log)
    gateway.take(version)
    run(make_server(gateway.service, SPOKEN), gateway.follow())


def remove(workspace: Workspace, name: str, address: str, patience: float) -> int:
    """Remove a deployed model after its answers have ended; returns the exit code."""
    environment.check_installed()
    environment.prepare(workspace.home, address)
    from chatapp.deploy.ray.cluster import Cluster

    with closing(Cluster(address)) as cluster:
        if not (version := cluster.ledger.current(name)):
            raise InputError(f"no model called {name!r} is deployed there")
        cluster.ledger.forget(name)
        cluster.retire(version, patience)
    return 0


def find_keys(workspace: Workspace, given: Path | None) -> tuple[str, ...]:
    """The keys for clients: from a file, or one that is created on first use."""
    if given:
        return read_keys(given)
    environment.check_installed()  # before a key is created in vain
    path = environment.keep_secret(workspace.home / "deploy" / "keys")
    log(f"clients need the key in {path}")
    return read_keys(path)
