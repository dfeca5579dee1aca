"""The open models: opened on demand, kept for a while, and closed when memory is short."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from backends.suggest import suggest
from chatapp.completion.completer import Completer
from chatapp.generation import Engine
from chatapp.generation.engine import Engine as LocalEngine
from chatapp.generation.text import infill
from chatapp.generation.text.tokenizer import open_tokenizer
from chatapp.placement.selection import PlacementOptions
from chatapp.server.refusals import UNAVAILABLE, Refusal, unknown_model
from chatapp.server.settings import ServerSettings
from chatapp.text.child import Child, parse
from chatapp.text.threads import in_thread
from chatapp.text.units import size
from chatapp.workspace import Opened, Workspace
from model_store import ModelNotFound, StoredModel, fit
from model_store.hub.catalog import refer

Log = Callable[[str], object]
"""Writes a line to the log."""
FOREVER = float("inf")
SHARE = 0.6
"""Default share of this machine's memory for models."""


@dataclass
class LoadedModel:
    """An open model; memory in bytes, times in seconds."""

    opened: Opened
    stored: StoredModel
    memory: int
    """The estimated memory it takes."""
    keep_alive: float
    users: int = 0
    """Requests that use it now."""
    used: float = 0.0
    """When it was last used, by the monotonic clock."""

    def __post_init__(self) -> None:
        self.engine: Engine = self.opened.engine
        self.name = self.opened.name
        self.completer = Completer(self.engine)
        self.completing = Lock()
        """Held while offers are computed."""

    @property
    def seconds_left(self) -> float:
        """Seconds until it is closed if no request comes."""
        return self.keep_alive if self.users else self.used + self.keep_alive - time.monotonic()

    @property
    def expires(self) -> datetime:
        """The time at which it is closed; ten years ahead if never."""
        return datetime.now(UTC).astimezone() + timedelta(seconds=min(self.seconds_left, 10 * 365 * 86400))


def date(stored: StoredModel) -> datetime:
    """When the model's checkpoint was written; the epoch if its files are gone."""
    try:
        return datetime.fromtimestamp((stored.folder / "config.json").stat().st_mtime, UTC)
    except OSError:
        return datetime.fromtimestamp(0, UTC)


class LoadedModels:
    """The open models by name, most recently used last."""

    def __init__(self, workspace: Workspace, settings: ServerSettings, placement: PlacementOptions | None, log: Log):
        self.workspace, self.settings, self.placement, self.log = workspace, settings, placement, log
        self.default = settings.models[0] if settings.models else workspace.read_settings().model
        self.budget = settings.memory or round(SHARE * fit.memory())
        self.open: dict[str, LoadedModel] = {}
        self.loads = 0
        self._gaps: dict[str, str] = {}
        self.opening = asyncio.Lock()
        """Only one model is opened at a time, since the memory of two could not be foreseen."""
        self._timer: asyncio.TimerHandle | None = None

    def list(self) -> list[StoredModel]:
        """All models, the default first, since many clients take the first."""
        return sorted(self.workspace.open_store().list(), key=lambda one: one.name != self.default)

    def resolve(self, name: str) -> str:
        """The store's name for a client's model name; empty means the default, and paths are not names."""
        if name in self.open:
            return name
        store = self.workspace.open_store()
        wanted = name.strip() or self.default
        bare = wanted.removesuffix(":latest")
        known = store.every_location()
        spellings = [wanted, bare, bare.replace(":", "-")]
        with suppress(ModelNotFound):
            spellings.append(refer(bare).name)
        for spelling in spellings:
            if spelling in known:
                return spelling
        raise unknown_model(wanted, suggest(bare, known) or "GET /v1/models lists the models here")

    def find(self, name: str) -> StoredModel:
        """The stored model that a client names."""
        return self.workspace.open_store().get(self.resolve(name))

    def find_gap(self, stored: StoredModel) -> str:
        """The template of a model's infill prompt in Ollama's syntax; empty if it has none."""
        if stored.name not in self._gaps:
            store = self.workspace.open_store()
            form = infill.find(open_tokenizer(stored.folder, store.tokenizer(stored))).form
            template = form.gap.replace("{prefix}", "{{ .Prompt }}").replace("{suffix}", "{{ .Suffix }}")
            self._gaps[stored.name] = "" if form == infill.LEFT_TO_RIGHT else template
        return self._gaps[stored.name]

    def pull(self, name: str) -> Generator[Mapping[str, Any], None, None]:
        """Pull a model in a child process, yielding its events; closing it stops the process."""
        from chatapp.models.jobs import COMMAND, stop
        from chatapp.settings import offline

        if offline.wanted():
            raise Refusal(UNAVAILABLE, "this server was started with --offline and does not use the network")
        with Child((*COMMAND, "pull", "--json", name)) as child:
            try:
                for line in child.lines():
                    if (facts := parse(line)).get("event"):
                        yield facts
                if child.process.wait():
                    raise Refusal(502, child.complaint().removeprefix("Error: ") or "the pull failed", param="model")
            finally:
                if child.process.poll() is None:
                    stop(child)

    @asynccontextmanager
    async def use(self, name: str, keep_alive: float | None = None) -> AsyncIterator[LoadedModel]:
        """An open model, which stays open during the block and `keep_alive` seconds after.

        Without `keep_alive`, the last value stays; the models of the command line are always kept.
        """
        loaded = await self._open(name)
        loaded.users += 1
        if keep_alive is not None and loaded.name not in self.settings.models:
            loaded.keep_alive = keep_alive
        try:
            yield loaded
        finally:
            loaded.users -= 1
            loaded.used = time.monotonic()
            self.sweep()

    async def _open(self, name: str) -> LoadedModel:
        resolved = name if name in self.open else await in_thread(lambda: self.resolve(name))
        if resolved not in self.open:
            async with self.opening:
                if resolved not in self.open:  # another request may have opened it meanwhile
                    self.open[resolved] = await self._load(resolved)
        self.open[resolved] = loaded = self.open.pop(resolved)
        return loaded

    async def _load(self, name: str) -> LoadedModel:
        from chatapp.models.catalogue import estimate_memory

        stored = await in_thread(lambda: self.workspace.open_store().get(name))
        memory = estimate_memory(stored.family, stored.parameters, stored.precision)
        self._make_room(stored, memory)
        opened = await in_thread(
            lambda: self.workspace.open_model(name, self.placement, on_fallback=lambda why: self.log(f"{name}: {why}"))
        )
        if self.settings.max_prompt is not None and isinstance(opened.engine, LocalEngine):
            opened.engine.limit_gaps(self.settings.max_prompt)
        self.loads += 1
        self.log(f"opened {name} on {opened.place} in {opened.seconds:.1f} s")
        keep_alive = FOREVER if name in self.settings.models else self.settings.keep_alive
        return LoadedModel(opened, stored, memory, keep_alive, used=time.monotonic())

    def _make_room(self, stored: StoredModel, memory: int) -> None:
        """Close unused models, least recently used first, until this one fits."""
        if memory > self.budget:
            raise Refusal(
                UNAVAILABLE,
                f"{stored.name} takes about {size(memory)} of memory and the server may use {size(self.budget)}: "
                "start it with a larger --memory, or choose a smaller model",
            )
        for name in list(self.open):
            if memory + sum(one.memory for one in self.open.values()) <= self.budget:
                return
            if not self.open[name].users:
                self.close(name)
        if memory + sum(one.memory for one in self.open.values()) > self.budget:
            message = f"not enough memory for {stored.name} while other models answer; try again later"
            raise Refusal(UNAVAILABLE, message, retry_after=10)

    def close(self, name: str) -> None:
        """Close a model; running answers continue."""
        if self.open.pop(name, None):
            gc.collect()  # sessions have reference cycles
            self.log(f"closed {name}")

    def sweep(self) -> None:
        """Close the models whose time is over, and schedule the next sweep."""
        if self._timer:
            self._timer.cancel()
        idle = [one for one in self.open.values() if not one.users]
        for one in idle:
            if one.seconds_left <= 0:
                self.close(one.name)
        soonest = min((one.seconds_left for one in idle if one.seconds_left > 0), default=FOREVER)
        if soonest < FOREVER:
            self._timer = asyncio.get_running_loop().call_later(soonest + 0.01, self.sweep)
