"""Shared by all protocols: gives a request a place and a model, and streams its deltas."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TypeVar

from chatapp.generation import Delta, Deltas, Engine, Token, Usage
from chatapp.generation.contract import Wanted
from chatapp.generation.delta import Alternative
from chatapp.generation.engine import Engine as LocalEngine
from chatapp.placement.selection import PlacementOptions
from chatapp.server.asks import Ask
from chatapp.server.drawing import Drawing, Wakeups
from chatapp.server.loaded import LoadedModel, LoadedModels, Log
from chatapp.server.metrics import Metrics
from chatapp.server.queue import FairQueue
from chatapp.server.refusals import Refusal, refuse_length
from chatapp.server.response_store import ResponseStore
from chatapp.server.settings import ServerSettings
from chatapp.settings.running import RunningServer
from chatapp.text.threads import in_thread
from chatapp.workspace import Workspace

Result = TypeVar("Result")


class Stream:
    """The deltas of one request; the first one has already arrived."""

    def __init__(self, loaded: LoadedModel, deltas: AsyncIterator[Delta], first: Delta, queued: float):
        self.model, self.engine, self._deltas, self._first = loaded.name, loaded.engine, deltas, first
        self.queued = queued
        """Seconds until there was a place and the model was open."""
        self.usages: list[Usage] = []
        """One for each finished prompt."""
        self.thinking_tokens = 0

    async def __aiter__(self) -> AsyncIterator[Delta]:
        yield self._count(self._first)
        async for delta in self._deltas:
            yield self._count(delta)

    def _count(self, delta: Delta) -> Delta:
        if delta.usage:
            self.usages.append(delta.usage)
        if delta.channel == "thinking":
            self.thinking_tokens += len(delta.tokens)
        return delta

    def list_bytes(self, token: Token | Alternative) -> list[int]:
        """The bytes of a token, which may be part of a character."""
        tokenizer = self.engine.tokenizer if isinstance(self.engine, LocalEngine) else None
        if tokenizer and tokenizer.whole(token.id) is None and token.id not in tokenizer.hidden:
            return [*(tokenizer.bytes_of(token.id) or token.text.encode())]
        return [*token.text.encode()]

    @property
    def prompt_tokens(self) -> int:
        return sum(usage.prompt_tokens for usage in self.usages)

    @property
    def completion_tokens(self) -> int:
        return sum(usage.completion_tokens for usage in self.usages)

    @property
    def cached_tokens(self) -> int:
        return sum(usage.cached_tokens for usage in self.usages)


class Service:
    """A user's models behind a fair queue; used from a single event loop."""

    def __init__(self, workspace: Workspace, settings: ServerSettings, placement: PlacementOptions | None, log: Log):
        self.workspace, self.settings, self.log = workspace, settings, log
        self.own: RunningServer | None = None
        """Its entry for the user's other programs, if it is shared with them."""
        self.queue = FairQueue(settings.places, settings.queue, settings.patience)
        self.metrics = Metrics()
        self.responses = ResponseStore()
        self.models = LoadedModels(workspace, settings, placement, log)

    @cached_property
    def wakeups(self) -> Wakeups:
        """Wakes the event loop once for all answers that have new deltas."""
        return Wakeups()

    @asynccontextmanager
    async def use(self, model: str, client: str, *, keep_alive: float | None = None) -> AsyncIterator[LoadedModel]:
        """A place and an open model, for the duration of the block."""
        asked = time.perf_counter()
        async with self.queue.place(client):
            self.metrics.waited.observe(time.perf_counter() - asked)
            async with self.models.use(model, keep_alive) as loaded:
                yield loaded

    @asynccontextmanager
    async def answer(
        self, model: str, ask: Ask, client: str, *, keep_alive: float | None = None
    ) -> AsyncIterator[Stream]:
        """The stream of an answer; leaving the block cancels it. Refusals and errors are raised on entry."""
        asked = time.perf_counter()
        async with self.use(model, client, keep_alive=keep_alive) as loaded:
            queued = time.perf_counter() - asked
            drawing = Drawing(partial(self._draw, loaded.engine, ask), self.wakeups)
            stream = None
            try:
                async with asyncio.timeout(self.settings.timeout):
                    deltas = aiter(drawing)
                    stream = Stream(loaded, deltas, await anext(deltas), queued)
                    yield stream
            except TimeoutError as error:
                message = f"the answer took longer than {self.settings.timeout:g} seconds; ask for fewer tokens"
                raise Refusal(504, message, code="timeout") from error
            finally:
                drawing.close()
                await asyncio.shield(drawing.ended.wait())
                for usage in stream.usages if stream else ():
                    self.metrics.add_usage(loaded.name, usage)

    def _draw(self, engine: Engine, ask: Ask) -> Deltas:
        most = self.settings.max_prompt
        if most is not None and (count := ask.count(engine)) > most:
            message = f"the prompt is too long: it has {count:,} tokens, and this server allows at most {most:,}"
            raise refuse_length(message)
        return ask.draw(engine, self.settings.max_tokens)

    async def wait_for(self, act: Callable[[Wanted], Result]) -> Result:
        """Run `act` in a thread; its argument says whether the caller is still waiting."""
        wanted = True
        working = in_thread(lambda: act(lambda: wanted))
        try:
            return await asyncio.shield(working)
        finally:
            wanted = False
            if not working.done():  # it uses the engine until it has ended
                await asyncio.wait({working})

    async def work(self, act: Callable[[], Result]) -> Result:
        """Run something slow in a thread."""
        return await in_thread(act)
