"""One user's home: its settings, models, conversations and files are opened here, and nowhere else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.settings import settings
from chatapp.settings.settings import Settings, SettingsError
from chatapp.text.errors import UsageError
from chatapp.text.printable import printable

if TYPE_CHECKING:  # imported where they are used: the first frame needs none of them
    from chatapp.completion.acceptance import Acceptance
    from chatapp.conversation import Setup
    from chatapp.conversation.tools.toolset import Toolset
    from chatapp.generation import Engine
    from chatapp.generation.text.thinking import Think
    from chatapp.history import History
    from chatapp.models.jobs import Job, Jobs
    from chatapp.placement.measuring import Measuring
    from chatapp.placement.record import Measurement
    from chatapp.placement.selection import PlacementOptions
    from chatapp.remote.address import Remote
    from model_store import Progress, Store, StoredModel


@dataclass(frozen=True)
class Opened:
    """A model ready to answer, and what to tell about it."""

    engine: Engine
    name: str
    parameters: int
    seconds: float
    """How long opening took."""
    leaves: str = ""
    """The other machine that text goes to; nothing, where it stays on this one."""

    @property
    def place(self) -> str:
        """Backend, device and precision; of a model elsewhere, where text goes."""
        from chatapp.evaluation.compare import describe

        place = self.engine.placement
        return f"text goes to {self.leaves} · {place.precision}" if self.leaves else describe(place)

    @property
    def context_length(self) -> int:
        """The tokens that its context holds; 0, where its server does not tell."""
        from chatapp.generation.contract import UNKNOWN_CONTEXT

        length = self.engine.context_length
        return length if length < UNKNOWN_CONTEXT else 0

    @property
    def about(self) -> str:
        """How large it is, or where it answers."""
        from chatapp.text.units import count

        return f"{count(self.parameters)} parameters" if self.parameters else f"on {self.engine.placement.device}"


class Workspace:
    """Opens what is in a user's home; every time as the settings say by then."""

    def __init__(self, home: Path | None = None, *, shares: bool = False) -> None:
        """The user's own home, unless another is given; where it `shares`, models of a running server are used."""
        self.home, self.shares = home or settings.home(), shares

    # The user's files

    def read_settings(self) -> Settings:
        """The settings; SettingsError tells what is wrong with them."""
        return settings.read(self.home / "settings.toml")

    def choose_theme(self, name: str) -> None:
        """Keep a theme for the next start; SettingsError tells why it cannot be kept."""
        settings.choose_theme(self.home / "settings.toml", name)

    def read_setup(
        self, preset: str | None, system: str | None, think: Think | None = None, tools: Sequence[str] | None = None
    ) -> Setup:
        """How answers are to be: options of a preset, a system prompt, perhaps by its name, and servers of tools."""
        from chatapp.conversation import Setup
        from chatapp.settings import presets, system_prompts

        options = dict(presets.find(self.home / "presets.toml", preset).over({})) if preset is not None else {}
        if think is not None:
            options["think"] = think
        used = tuple(one.name for one in self.open_tools(print).find_servers(tools)) if tools else ()
        prompt = system_prompts.resolve(self.home / "prompts", system) if system else ""
        return Setup(options=options, system=prompt, tools=used)

    # Models

    def open_store(self) -> Store:
        """The models, in all folders that are there; says on standard error which are not."""
        from model_store import Store

        folders = [Path(os.path.expanduser(text)) for text in self.read_settings().stores]
        for folder in folders:
            if not folder.is_absolute():
                raise SettingsError(f"the store folder {folder} must be an absolute path; see `stores` in the settings")
            if not folder.is_dir():
                where = printable(str(folder))
                print(f"Note: the store folder {where} is not there; its models are left out", file=sys.stderr)
        there = [folder for folder in folders if folder.is_dir()]
        usual = self.home / "models"
        first = next((folder for folder in there if os.access(folder, os.W_OK)), usual)
        rest = [folder for folder in dict.fromkeys([*there, usual]) if folder != first]
        return Store(first, settings.places(), rest)

    def choose_placement(
        self,
        backend: str | None = None,
        *,
        device: str | None = None,
        precision: str | None = None,
        objective: str | None = None,
    ) -> PlacementOptions:
        """Where a model is to run: as is asked for, else as the settings say."""
        from chatapp.placement.selection import PlacementOptions

        chosen = self.read_settings()
        return PlacementOptions(backend or chosen.backend or None, device, precision, objective or chosen.objective)

    def open_model(
        self,
        name: str,
        placement: PlacementOptions | None = None,
        *,
        on_progress: Progress | None = None,
        on_fallback: Callable[[str], object] = lambda reason: None,
        draft: str = "",
    ) -> Opened:
        """Open a model, and the one that is to `draft` for it, if there is one.

        `on_fallback` is told, then or later, that a backend failed and another goes on.
        MODEL@SERVER is one that a server has: its name, or its address.
        """
        start = time.perf_counter()
        if elsewhere := self.split_remote(name):
            if draft:
                raise UsageError(f"{name} answers on its server, where no model of yours can draft; leave it out")
            return self._open_remote(*elsewhere)
        from chatapp.generation.resuming import ResumingEngine
        from chatapp.generation.states import STATES, States
        from chatapp.placement.opening import open_engine

        store, options = self.open_store(), placement or self.choose_placement()
        model = store.get(name)

        def open_here() -> Engine:
            with store.adopting():
                engine = open_engine(store, name, options, on_progress=on_progress, on_fallback=on_fallback)
                if draft:
                    engine.speculate_with(open_engine(store, draft, options, on_progress=on_progress))
            return ResumingEngine(engine, States(self.home / STATES))

        shares = self.shares and not draft
        served = self._open_served(store, model, options, open_here, on_fallback) if shares else None
        engine = served or open_here()
        return Opened(engine, model.name, model.parameters, time.perf_counter() - start)

    def _open_served(
        self,
        store: Store,
        model: StoredModel,
        options: PlacementOptions,
        open_here: Callable[[], Engine],
        on_fallback: Callable[[str], object],
    ) -> Engine | None:
        """The model, as the user's running server has it; None where there is no such server."""
        if not (self.home / "server.json").exists():  # before anything is imported for it
            return None
        from chatapp.placement import served

        def go_on_here() -> Engine:
            on_fallback(f"the server that had {model.name} has ended, so it is opened here")
            return open_here()

        return served.open_served(self.home, store, model, options, go_on_here)

    def _open_remote(self, model: str, server: str) -> Opened:
        from chatapp.remote.opening import open_remote

        engine, full = open_remote(self.home, model, server)
        return Opened(engine, full, 0, engine.load_seconds, engine.connection.remote.elsewhere)

    def split_remote(self, name: str) -> tuple[str, str] | None:
        """The model and the server of a name that has both; None of a model that is here."""
        if "@" not in name or os.path.exists(name):
            return None
        from chatapp.remote.address import split_model

        return split_model(name)

    def find_model(self, name: str) -> str:
        """The full name of a model that is here; of one on a server, the name as it is."""
        return name if self.split_remote(name) else self.open_store().get(name).name

    def read_remotes(self) -> Sequence[Remote]:
        """The servers that were given names."""
        from chatapp.remote import remotes

        return list(remotes.read(self.home).values())

    def open_tools(self, warn: Callable[[str], object]) -> Toolset:
        """The tools of one conversation, of the servers in the settings; none is started before it is looked at."""
        from chatapp.conversation.tools.toolset import Toolset

        return Toolset(lambda: self.read_settings().mcp, warn)

    def list_remote_models(self) -> list[str]:
        """The full names of the models that servers had when they were named."""
        from chatapp.remote.address import join_model

        return [join_model(model, one.name) for one in self.read_remotes() for model in one.models or ("",)]

    def measure(
        self,
        name: str,
        placement: PlacementOptions | None = None,
        on_end: Callable[[list[Measurement]], object] = lambda ranking: None,
    ) -> Measuring:
        """The thread that measures a model's backends once all is quiet; `on_end` is told the ranking."""
        from chatapp.placement.measuring import Measuring

        return Measuring(self.open_store(), name, placement or self.choose_placement(), on_end=on_end)

    def open_jobs(self, on_change: Callable[[Job], None]) -> Jobs:
        """What is done with models in processes of their own, and was left undone the last time."""
        from chatapp.models.jobs import Jobs

        return Jobs(on_change, path=self.home / "jobs.json")

    def open_acceptance(self) -> Acceptance:
        """What became of offers in editors."""
        from chatapp.completion.acceptance import Acceptance

        return Acceptance(self.home / "completions.jsonl")

    # Conversations

    def open_history(self, patience: float | None = None) -> History:
        """The conversations; HistoryError tells why they cannot be kept.

        With `patience`, another program's writing is waited for so many seconds at most.
        """
        from chatapp.history import History

        history = History(self.home / "history.db")
        if patience is not None:
            history.wait_at_most(patience)
        return history

    def peak_memory(self) -> int:
        """Bytes that this process has taken at most."""
        from chatapp.generation.memory import peak_memory

        return peak_memory()
