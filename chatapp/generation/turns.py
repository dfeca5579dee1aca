"""Run the turns of an engine: one alone, or several whose steps are computed together."""

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np

from backends import Session
from backends.rereading import PART, Foreseeing, replay
from chatapp.generation.decoding.beams import Beams
from chatapp.generation.decoding.generate import Growth, generate
from chatapp.generation.decoding.scoring import score_prompt
from chatapp.generation.delta import Delta, Deltas, Timings, Usage
from chatapp.generation.memory import available_memory
from chatapp.generation.pack import Pack
from chatapp.generation.prompt_cache import PromptCache
from chatapp.generation.running import RunningTurn
from chatapp.generation.turn import Turn

AT_ONCE = 8
"""Default for turns that run at once."""
SHORT_PART = 32
"""Tokens of a prompt read per call while other turns wait for their next token."""
MUCH_LONGER = 4
"""A prompt lets a later one overtake if it has this many times as much left to read."""


class TurnStream(Deltas):
    """A turn's deltas: iterate over them, or have them passed to a function."""

    def __init__(self, one: RunningTurn, drawn: Deltas):
        self._one, self._drawn = one, drawn

    def send(self, value: None, /) -> Delta:
        return self._drawn.send(value)

    def throw(self, *error: Any) -> Delta:  # Any: as generators take it
        return self._drawn.throw(*error)

    def tell(self, hear: Callable[[Delta], bool]) -> None:
        """Pass each delta to `hear` until the turn ends, or `hear` returns False.

        It is called by the computing thread at the end of each step, so that no other thread need wake up.
        """
        self._one.hear = hear
        for delta in self._drawn:
            hear(delta)


class Turns:
    """The turns of a session: the running ones, and a queue.

    There is no background thread: whichever thread waits for a delta computes, for all turns. A single turn uses the
    session itself; several have rows in batches beside it, and the session only reads their prompts. A turn with a
    chosen seed has a batch of its own, since the steps of several turns are rounded slightly differently.
    """

    def __init__(self, session: Session, cache: PromptCache):
        self.session, self.cache = session, cache
        self.at_once = AT_ONCE
        self.last_usage: Usage | None = None
        self.running: list[RunningTurn] = []
        self.queue: deque[object] = deque()
        self._batched = session.open_batch() is not None
        """Whether several turns can run at once."""
        self._packs: list[Pack] = []
        self._reader: RunningTurn | None = None
        """The turn whose prompt the session is reading."""
        self._owed = 0.0
        """Seconds by which reading prompts is ahead of decoding."""
        self._idle = 0.0
        """When the last computing thread stopped."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        """Notified when a place becomes free, or the computing thread stops."""
        self._driver: int | None = None
        """The thread that computes; only it may touch the session and running turns."""

    def stream(self, turn: Turn) -> TurnStream:
        """A turn's deltas, as they come."""
        one = RunningTurn(turn, self._lock)
        return TurnStream(one, self._draw(one))

    def _draw(self, one: RunningTurn) -> Deltas:
        with self._lock:
            self.queue.append(one)
        try:
            self._enter(one)
            one.turn.watch.resume()
            while True:
                self._compute_for(one)
                while one.deltas and not one.left:
                    yield one.deltas.popleft()
                if one.error:
                    raise one.error
                if one.ended or one.left:
                    return
        finally:
            self._leave(one)

    def score(self, turn: Turn, given: int) -> Deltas:
        """A turn's prompt without its first `given` tokens, as deltas with log-probabilities.

        Other turns that wait go first between two parts.
        """
        row, prompt, aside = turn.rows[0], turn.prompt, None
        parts = score_prompt(self.session, prompt, given, row.logprobs or 0, row.detokenizer)
        while True:
            with self.alone():
                self.cache.reuse(prompt, reproducible=True, aside=aside)
                turn.watch.resume()
                for tokens in parts:  # continues where it stopped
                    turn.prefill_seconds += (seconds := turn.watch.lap())
                    yield Delta("".join(token.text for token in tokens), tokens=tokens, timings=Timings(seconds))
                    turn.watch.resume()
                    others = self.session.length < len(prompt) and (self.running or self.queue)
                    if others and (aside := self.cache.set_aside(prompt)):
                        break
                else:
                    self.cache.keep(prompt, lasting=turn.lasting)
                    break
        self.last_usage = turn.sum_up()
        yield Delta(finish_reason="length", usage=self.last_usage)

    @property
    def idle(self) -> bool:
        """Whether no turn runs or waits."""
        return not self.running and not self.queue and self._driver is None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Context in which no turn runs, and the session is the caller's."""
        me = object()
        with self._lock:
            self.queue.append(me)
            try:
                self._changed.wait_for(lambda: self.queue[0] is me and not self.running and self._driver is None)
                self._driver = threading.get_ident()
            finally:
                self.queue.remove(me)
                self._changed.notify_all()
        try:
            yield
        finally:
            self._stop_driving()

    def _enter(self, one: RunningTurn) -> None:
        with self._lock:
            self._changed.wait_for(lambda: self._has_place(one))
            self.queue.popleft()
            self.running.append(one)
            self._changed.notify_all()

    def _has_place(self, one: RunningTurn) -> bool:
        """Whether a waiting turn is next, and may run beside the others."""
        if self.queue[0] is not one or (self.running and (not self._batched or len(self.running) >= self.at_once)):
            return False
        free = available_memory() if self.running else None
        return free is None or one.turn.most_tokens * self.session.token_bytes < free

    def _compute_for(self, one: RunningTurn) -> None:
        """Wait until a turn is ready for its reader, computing for all turns unless another thread does."""
        while True:
            with self._lock:
                self._wait(one)
                if one.ready:
                    return
                self._driver = threading.get_ident()
            try:
                while not one.ready:
                    self._compute()
                    for other in self.running:
                        other.hand_over()
                    if len(self.running) > 1 or self.queue:
                        with self._lock:
                            self._sweep()
            finally:
                self._stop_driving()

    def _wait(self, one: RunningTurn) -> None:
        """Wait until a turn is ready for its reader, or no thread computes."""
        one.waits = True
        try:
            one.news.wait_for(lambda: one.ready or self._driver is None)
        finally:
            one.waits = False

    def _stop_driving(self) -> None:
        with self._lock:
            self._driver, self._idle = None, perf_counter()
            self._sweep()

    def _leave(self, one: RunningTurn) -> None:
        """Remove a turn that has ended, failed or was cancelled; undelivered tokens are discarded."""
        if sys.is_finalizing():  # the process is ending
            return
        with self._lock:
            one.left = True
            if one in self.queue:
                self.queue.remove(one)
                self._changed.notify_all()
            elif self._driver != threading.get_ident():  # else it was garbage-collected while computing
                self._changed.wait_for(lambda: self._driver is None or one not in self.running)
                if self._driver is None:
                    self._sweep()

    def _sweep(self) -> None:
        """Remove finished turns, and notify those who wait."""
        for one in self.running:
            if one.waits and one.ready:
                one.news.notify()
        self._let_go()
        if self._driver is None and (idle := next((one for one in self.running if one.waits), None)):
            idle.news.notify()  # it takes over computing
        self._changed.notify_all()

    def _let_go(self) -> None:
        """Remove finished turns, and keep their caches for later prompts."""
        for one in [one for one in self.running if one.over]:
            self.running.remove(one)
            turn = one.turn
            turn.take_back(one.deltas if one.left else ())
            known = not (one.error or one.broken)
            history = [*turn.prompt, *one.decoding.cached]
            if one.inline:
                one.inline.close()
            if pack := next((pack for pack in self._packs if one in pack.members), None):
                if known and turn.lasting and pack.placement == self.session.placement:
                    self.cache.store(history, *pack.export(one))
                pack.remove(one)
                self._packs = [pack for pack in self._packs if pack.members]
            elif known and (one.inline or one is self._reader):
                self.cache.keep(history, lasting=turn.lasting)
            self._reader = None if self._reader is one else self._reader
            self.last_usage = turn.usage or turn.sum_up()

    def _compute(self) -> None:
        """Compute a step for every running turn."""
        if len(self.running) == 1 and not self._packs and not self._reader or not self._batched:
            self._go_on_inline(self.running[0])
            return
        passed = perf_counter() - self._idle if self._idle else 0.0
        for one in self.running:
            one.turn.watch.leave_out(passed)  # the readers' own time
            if one.inline:
                self._move(one)
        self._idle = 0.0
        waiting = [pack for pack in self._packs if not all(one.stalled for one in pack.members)]
        if not waiting or self._owed <= 0:
            spent = self._read_part(bool(waiting))
            self._owed = spent if waiting else 0.0
        for pack in waiting:
            start = perf_counter()
            self._step(pack)
            self._owed -= perf_counter() - start

    def _go_on_inline(self, one: RunningTurn) -> None:
        """Compute for a turn that has the session to itself."""
        one.turn.watch.resume()
        try:
            if one.inline is None:
                one.inline = self._begin_inline(one)
            growth = next(one.inline, None)
            if growth:
                one.growth, one.step = growth, growth.step
                one.tell()
            one.ended = growth is None
        except Exception as error:  # the backend's, or the request's
            one.error = error
        except BaseException:
            one.broken = True
            raise

    def _begin_inline(self, one: RunningTurn) -> Generator[Growth, None, None]:
        turn, decoding = one.turn, one.decoding
        if one.step:  # its batch failed
            self.cache.forget()
            chosen = 1 + len(one.step.more)
            rows = [row.tokens[:-chosen] for row in decoding.rows if not row.finish_reason]
            replay(self.session, [[*turn.prompt, *tokens] for tokens in rows])
            step = one.step._replace(parents=range(len(rows)))
            return generate(self.session, [], decoding, turn.watch, turn.hold, step)
        return generate(self.session, self._take_up(one), decoding, turn.watch, turn.hold)

    def _take_up(self, one: RunningTurn) -> list[int]:
        """Begin or continue a prompt; returns the tokens still to read."""
        turn, aside = one.turn, one.aside
        unread = self.cache.reuse(turn.prompt, reproducible=turn.reproducible, aside=aside)
        one.aside = None
        if not aside:
            turn.cached_tokens = len(turn.prompt) - len(unread)
        return unread

    def _move(self, one: RunningTurn) -> None:
        """Move a turn that ran alone into a batch, or to the prompts that are being read."""
        assert one.inline
        one.inline.close()
        one.inline, turn = None, one.turn
        if one.ended or one.error:
            return
        if one.step and not one.step.tokens:  # all is chosen, but its reader has not come back
            one.ended = True
            self.cache.keep([*turn.prompt, *one.decoding.cached], lasting=turn.lasting)
        elif one.step:
            self._join(one)
            self.cache.keep([*turn.prompt, *one.decoding.cached])
        else:
            one.unread, self._reader = turn.prompt[self.session.length :], one

    def _join(self, one: RunningTurn) -> None:
        """Move a turn's rows from the session into a batch."""
        place, apart = self.session.placement, one.turn.reproducible
        pack = next((pack for pack in self._packs if not (apart or pack.apart) and pack.placement == place), None)
        if pack is None:
            batch = self.session.open_batch()
            assert batch  # as in `__init__`
            pack = Pack(batch, place, apart)
            self._packs.append(pack)
        pack.join(one, self.session)
        if one.step and one.turn.speculation:
            one.step = one.turn.speculation.give_up(one.step)

    def _choose_prompt(self) -> RunningTurn | None:
        """The turn whose prompt is read next: the first, unless a much shorter one waits.

        Shorter ones may overtake while they have no more tokens than were read of it, so that it takes at most twice as
        long.
        """
        waiting = [one for one in self.running if one.step is None and not one.over]
        if not waiting or (self._reader and self._reader is not waiting[0]):
            return self._reader
        first, shortest = waiting[0], min(waiting, key=lambda one: one.left_to_read)
        more = shortest.left_to_read
        read = len(first.turn.prompt) - first.left_to_read
        if first.left_to_read < MUCH_LONGER * more or first.passed + more > read or not self._set_aside(first):
            return first
        first.passed += more
        return shortest

    def _set_aside(self, one: RunningTurn) -> bool:
        """Set a partly read prompt aside; False if memory is short."""
        if one is not self._reader:
            return True
        one.aside = self.cache.set_aside(one.turn.prompt)
        if one.aside:
            one.unread = self._reader = None
        return one.aside is not None

    def _read_part(self, others: bool) -> float:
        """Read a part of a prompt, a short one if others wait for tokens; returns the seconds it took."""
        start = perf_counter()
        one = self._choose_prompt()
        if one is None:
            return 0.0
        turn = one.turn
        try:
            if one.unread is None:
                self._reader = one
                one.unread = self._take_up(one)
                if isinstance(self.session, Foreseeing):
                    self.session.expect(len(turn.prompt))
            size = SHORT_PART if others and not turn.reproducible else PART
            part, one.unread = one.unread[:size], one.unread[size:]
            logits = self.session.forward(np.array([part], np.int64))
            one.growth.prefill += turn.watch.lap()
            one.growth.read += len(part)
            if one.unread:
                one.tell()
                return perf_counter() - start
            one.draw(logits, self.session.top, 0.0)
            if one.step and one.step.more and one.step.last == 1:  # forced tokens are read like a prompt
                one.unread = [*one.step.tokens, *one.step.more]
                return perf_counter() - start
            if not one.ended:
                self._join(one)
            self.cache.keep([*turn.prompt, *one.decoding.cached])
        except Exception as error:  # the backend's, or the request's
            one.error = error
        self._reader = None
        return perf_counter() - start

    def _step(self, pack: Pack) -> None:
        """Compute a step of a batch; if that fails, its turns continue one after another."""
        for one in pack.members if len(pack.members) > 1 else ():
            if one.stalled:  # alone, it holds nobody up
                self._packs.append(pack.part(one, self.session))
        try:
            pack.step()
        except Exception as error:  # runtimes raise anything
            if not self._batched:
                raise
            self._packs, self._batched, self._reader = [], False, None
            for one in self.running:
                if isinstance(one.decoding, Beams) and one.step:  # beams cannot be replayed
                    one.error = error
