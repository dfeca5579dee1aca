"""The gateway: the server of `chatapp serve`, whose only model is the deployed one."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter as Counts
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import Counter, Gauge, Histogram

from chatapp.deploy.ray.engine import DeployedEngine, Replicas
from chatapp.deploy.ray.version import Version
from chatapp.server import anthropic, openai, responses
from chatapp.server.loaded import LoadedModel, Log
from chatapp.server.service import Service
from chatapp.server.settings import ServerSettings
from chatapp.text.threads import in_thread
from chatapp.workspace import Opened, Workspace
from model_store import ModelNotFound, Store, StoredModel

if TYPE_CHECKING:
    from chatapp.deploy.ray.cluster import Cluster

SPOKEN = (openai.PROTOCOL, responses.PROTOCOL, anthropic.PROTOCOL)
"""Protocols that only ask a model; others also pull and delete, which would affect only one node."""
LOOKING = 1.0
"""Seconds between checks for the current version."""
UNBOUNDED = 1 << 62
"""Bytes: the model uses the replicas' memory, not the gateway's."""


class DeployedStore(Store):
    """This node's store as clients see it: one model, under its deployed name."""

    def __init__(self, store: Store, model: StoredModel, name: str):
        super().__init__(store.root, None, store.roots[1:])
        self.stored, self.shown = model, replace(model, name=name)

    def every_location(self) -> dict[str, Any]:
        """The location of the model."""
        return {self.shown.name: self.location(self.stored.name)}

    def get(self, name: str) -> StoredModel:
        """The model; ModelNotFound for any other name."""
        if name != self.shown.name:
            raise ModelNotFound(f"there is no model {name!r}; this gateway serves {self.shown.name}")
        return self.shown

    def list(self) -> list[StoredModel]:
        """The model."""
        return [self.shown]

    def tokenizer(self, model: StoredModel) -> Path:
        """Its tokenizer.json."""
        return super().tokenizer(self.stored)


class DeployedWorkspace(Workspace):
    """A workspace whose only model is the deployed one."""

    def __init__(self, workspace: Workspace, name: str):
        super().__init__(workspace.home)
        self.name = name
        self.version: Version | None = None
        self.replicas: Replicas | None = None
        self.model: StoredModel | None = None
        self.on_failover: Callable[[float], object] = lambda seconds: None

    def open_store(self) -> Store:
        """The store with the one model."""
        assert self.model  # set before the first request
        return DeployedStore(super().open_store(), self.model, self.name)

    def open_model(self, name: str, *given: Any, **options: Any) -> Opened:
        """The model, computed by the replicas of the current version."""
        store, replicas, version = self.open_store(), self.replicas, self.version
        model = store.get(name)
        assert replicas and version
        engine = DeployedEngine(
            replicas,
            model.folder,
            store.tokenizer(model),
            chats=model.chats,
            digest=version.digest,
            on_failover=lambda seconds: self.on_failover(seconds),
        )
        return Opened(engine, model.name, model.parameters, 0.0)


class Gateway:
    """A server in front of a cluster; it follows the current version, and reports which one it uses."""

    def __init__(self, workspace: DeployedWorkspace, settings: ServerSettings, cluster: Cluster, shared: str, log: Log):
        self.workspace, self.cluster, self.shared, self.log = workspace, cluster, shared, log
        self.id = secrets.token_hex(8)
        self.service = Service(workspace, replace(settings, models=(workspace.name,), memory=UNBOUNDED), None, log)
        self._left = list[LoadedModel]()
        """Models of earlier versions that still have answers in progress."""
        self._said = ""
        registry = self.service.metrics.registry
        self.failovers = Histogram(
            "chatapp_failover_seconds",
            "From the last text of a lost replica to the next one",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            registry=registry,
        )
        self.updates = Counter("chatapp_updates", "Times that another version became current", registry=registry)
        self.replicas = Gauge("chatapp_replicas", "Replicas by their state", ("state",), registry=registry)
        workspace.on_failover = self.failovers.observe

    def take(self, version: Version) -> None:
        """Send new requests to this version; runs in a thread, as its files may have to be downloaded."""
        one = self.workspace
        model = self.cluster.provide(Workspace.open_store(one), version, self.shared)
        one.version, one.model, one.replicas = version, model, self.cluster.open_replicas(version)

    async def follow(self) -> None:
        """Check every second which version is current, and report this gateway's state."""
        while True:
            with suppress(Exception):  # without the head node, running answers continue
                await self.look()
            await asyncio.sleep(LOOKING)

    async def look(self) -> None:
        """Report this gateway's state, and switch to the current version."""
        version, name = self.workspace.version, self.workspace.name
        assert version
        self._leave_old(version)
        current = await self._hear(version)
        counts = await in_thread(lambda: self.cluster.count_replicas(version))
        self.replicas.clear()
        for state, count in counts.items():
            self.replicas.labels(state).set(count)
        if current and current.digest != version.digest:
            taking = in_thread(lambda: self.take(current))
            while not (await asyncio.wait([taking], timeout=LOOKING))[0]:
                with suppress(Exception):  # keep reporting during a long download, or the gateway counts as gone
                    await self._hear(version)
            if error := taking.exception():
                self._say(f"{name} stays version {version.digest[:12]}: {current.digest[:12]} cannot be had: {error}")
                return
            self._leave_old(current)
            self.updates.inc()
            self._say(f"{name} is version {current.digest[:12]} now")

    async def _hear(self, version: Version) -> Version | None:
        """Report which version this gateway uses; returns the current one."""
        streams = self.count_streams()
        hear, name = self.cluster.ledger.hear, self.workspace.name
        return await in_thread(lambda: hear(self.id, name, version.digest, streams))

    def _say(self, line: str) -> None:
        """Log a line unless it repeats the last one, since failures are retried every second."""
        if line != self._said:
            self.log(line)
        self._said = line

    def _leave_old(self, version: Version) -> None:
        """Let the next request open the model anew if it is of another version; running answers continue."""
        models, name = self.service.models, self.workspace.name
        self._left = [loaded for loaded in self._left if loaded.users]
        if (loaded := models.open.get(name)) and digest_of(loaded) != version.digest:
            self._left.append(loaded)
            models.close(name)

    def count_streams(self) -> Mapping[str, int]:
        """The number of answers in progress, by the digest of their version."""
        counts = Counts[str]()
        for loaded in [*self._left, *self.service.models.open.values()]:
            counts[digest_of(loaded)] += loaded.users
        return counts


def digest_of(loaded: LoadedModel) -> str:
    """The digest of the version that an open model belongs to."""
    return str(loaded.engine.origin["digest"])
