"""One user's home folder: the only place that opens its settings, models, conversations and other files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.settings import settings
from chatapp.settings.settings import Settings, SettingsError
from chatapp.text.errors import UsageError
from chatapp.text.printable import printable

if TYPE_CHECKING:  # imported where they are used, to speed up the first frame
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
    """An opened model, and what the fronts show about it."""

    engine: Engine
    name: str
    parameters: int
    seconds: float
    """How long opening took."""
    leaves: str = ""
    """The machine that text is sent to; empty for a model on this one."""

    @property
    def place(self) -> str:
        """Backend, device and precision; for a remote model, where text goes."""
        from chatapp.evaluation.compare import describe

        place = self.engine.placement
        return f"text goes to {self.leaves} · {place.precision}" if self.leaves else describe(place)

    @property
    def context_length(self) -> int:
        """The model's context length in tokens; 0 if its server does not report one."""
        from chatapp.generation.contract import UNKNOWN_CONTEXT

        length = self.engine.context_length
        return length if length < UNKNOWN_CONTEXT else 0

    @property
    def about(self) -> str:
        """The number of parameters, or the server of a remote model."""
        from chatapp.text.units import count

        return f"{count(self.parameters)} parameters" if self.parameters else f"on {self.engine.placement.device}"


class Workspace:
    """Opens what is in a user's home. Settings are read anew each time, so changes take effect at once."""

    def __init__(self, home: Path | None = None, *, shares: bool = False) -> None:
        """Use `home`, by default the user's own; if it `shares`, models that a running server has open are used."""
        self.home, self.shares = home or settings.home(), shares

    # The user's files

    def read_settings(self) -> Settings:
        """Read the settings; SettingsError says what is wrong with them."""
        return settings.read(self.home / "settings.toml")

    def choose_theme(self, name: str) -> None:
        """Save the theme for the next start; SettingsError says why it cannot be saved."""
        settings.choose_theme(self.home / "settings.toml", name)

    def read_setup(
        self, preset: str | None, system: str | None, think: Think | None = None, tools: Sequence[str] | None = None
    ) -> Setup:
        """How a conversation is answered: a preset's options, a system prompt (text or name), and tool servers."""
        from chatapp.conversation import Setup
        from chatapp.settings import presets, system_prompts

        options = dict(presets.find(self.home / "presets.toml", preset).over({})) if preset is not None else {}
        if think is not None:
            options["think"] = think
        used = tuple(one.name for one in self.open_tools(print).find_servers(tools)) if tools else ()
        prompt = system_prompts.resolve(self.home / "prompts", system) if system else ""
        return Setup(options=options, system=prompt, tools=used)

    def read_system(self, model: str) -> str:
        """The system prompt of new conversations with a model: the one of its name, else that of the settings."""
        from chatapp.settings import system_prompts

        folder = self.home / "prompts"
        named = f"@{model}" if system_prompts.is_own(folder, model) else self.read_settings().system
        return system_prompts.resolve(folder, named)

    # Models

    def open_store(self) -> Store:
        """The model store over every configured folder that exists; missing ones are noted on standard error."""
        from model_store import Store

        folders = [Path(os.path.expanduser(text)) for text in self.read_settings().stores]
        for folder in folders:
            if not folder.is_absolute():
                raise SettingsError(f"the store folder {folder} must be an absolute path; see `stores` in the settings")
            if not folder.is_dir():
                where = printable(str(folder))
                print(f"Note: the store folder {where} does not exist; its models are left out", file=sys.stderr)
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
        """Where a model is to run: the arguments given, otherwise what the settings say."""
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
        """Open a model, and the model `draft` for speculative decoding if one is named.

        `on_fallback` is called, now or later, with the reason when a backend failed and another took over.
        MODEL@SERVER names a model on another server, by the server's name or address.
        """
        start = time.perf_counter()
        if elsewhere := self.split_remote(name):
            if draft:
                raise UsageError(f"{name} runs on a server, where --draft-model does not work; leave it out")
            return self._with_preset(self._open_remote(*elsewhere))
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
        return self._with_preset(Opened(engine, model.name, model.parameters, time.perf_counter() - start))

    def _with_preset(self, opened: Opened) -> Opened:
        """A model whose defaults are those of the user's preset with its name, before what its publisher recommends."""
        if (path := self.home / "presets.toml").exists():
            from chatapp.settings import presets

            if preset := presets.read_own(path).get(opened.name):
                opened.engine.defaults = replace(opened.engine.defaults, **preset.options)
        return opened

    def _open_served(
        self,
        store: Store,
        model: StoredModel,
        options: PlacementOptions,
        open_here: Callable[[], Engine],
        on_fallback: Callable[[str], object],
    ) -> Engine | None:
        """The model as the user's running server has it open; None if there is no such server."""
        if not (self.home / "server.json").exists():  # checked before importing anything
            return None
        from chatapp.placement import served

        def go_on_here() -> Engine:
            on_fallback(f"the server that had {model.name} open has stopped; opening it here")
            return open_here()

        return served.open_served(self.home, store, model, options, go_on_here)

    def _open_remote(self, model: str, server: str) -> Opened:
        from chatapp.remote.opening import open_remote

        engine, full = open_remote(self.home, model, server)
        return Opened(engine, full, 0, engine.load_seconds, engine.connection.remote.elsewhere)

    def split_remote(self, name: str) -> tuple[str, str] | None:
        """Split MODEL@SERVER into model and server; None for a local model."""
        if "@" not in name or os.path.exists(name):
            return None
        from chatapp.remote.address import split_model

        return split_model(name)

    def find_model(self, name: str) -> str:
        """The full name of a local model; the name of a remote one is returned unchanged."""
        return name if self.split_remote(name) else self.open_store().get(name).name

    def read_remotes(self) -> Sequence[Remote]:
        """The saved remote servers."""
        from chatapp.remote import remotes

        return list(remotes.read(self.home).values())

    def open_tools(self, warn: Callable[[str], object]) -> Toolset:
        """The tools of one conversation, from the servers in the settings, each started on first use."""
        from chatapp.conversation.tools.toolset import Toolset

        return Toolset(lambda: self.read_settings().mcp, warn)

    def list_remote_models(self) -> list[str]:
        """The full names of the models that the saved servers had when they were added."""
        from chatapp.remote.address import join_model

        return [join_model(model, one.name) for one in self.read_remotes() for model in one.models or ("",)]

    def measure(
        self,
        name: str,
        placement: PlacementOptions | None = None,
        on_end: Callable[[list[Measurement]], object] = lambda ranking: None,
    ) -> Measuring:
        """A thread that measures the model's backends once the app is idle; `on_end` is called with the ranking."""
        from chatapp.placement.measuring import Measuring

        return Measuring(self.open_store(), name, placement or self.choose_placement(), on_end=on_end)

    def open_jobs(self, on_change: Callable[[Job], None]) -> Jobs:
        """The model jobs, which run in processes of their own, with those left unfinished by the last run."""
        from chatapp.models.jobs import Jobs

        return Jobs(on_change, path=self.home / "jobs.json")

    def open_acceptance(self) -> Acceptance:
        """The record of which completions were accepted in editors."""
        from chatapp.completion.acceptance import Acceptance

        return Acceptance(self.home / "completions.jsonl")

    # Conversations

    def open_history(self, patience: float | None = None) -> History:
        """The conversation history; HistoryError says why it cannot be opened.

        `patience` is how many seconds to wait at most while another program writes to it.
        """
        from chatapp.history import History

        history = History(self.home / "history.db")
        if patience is not None:
            history.wait_at_most(patience)
        return history

    def peak_memory(self) -> int:
        """The peak memory of this process, in bytes."""
        from chatapp.generation.memory import peak_memory

        return peak_memory()
