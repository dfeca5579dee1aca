"""The turns of an engine: one by itself, or several whose steps the model computes together."""

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
"""Turns that run at once, where nobody says how many."""
SHORT_PART = 32
"""Tokens of a prompt that are read at a time while others wait for their next token."""
MUCH_LONGER = 4
"""A prompt waits for one that came later, where so many times as much is left to read of it."""


class TurnStream(Deltas):
    """The deltas of a turn as they come: to be drawn, or told."""

    def __init__(self, one: RunningTurn, drawn: Deltas):
        self._one, self._drawn = one, drawn

    def send(self, value: None, /) -> Delta:
        return self._drawn.send(value)

    def throw(self, *error: Any) -> Delta:  # Any: as generators take it
        return self._drawn.throw(*error)

    def tell(self, hear: Callable[[Delta], bool]) -> None:
        """Give each delta to `hear`, until the turn has ended or `hear` says that no more are wanted.

        The thread that computes them calls it, for all turns at the end of each step: no other thread has to wake.
        """
        self._one.hear = hear
        for delta in self._drawn:
            hear(delta)


class Turns:
    """The turns of a session: those that run, and those that wait for a place, first come, first served.

    Nobody computes in the background: whoever waits for a delta computes, for all. One turn by itself has the
    session; several have rows in batches beside it, where the session only reads prompts. With a seed of its own a
    turn has a batch of its own: the steps of several at once are rounded a little otherwise.
    """

    def __init__(self, session: Session, cache: PromptCache):
        self.session, self.cache = session, cache
        self.at_once = AT_ONCE
        self.last_usage: Usage | None = None
        self.running: list[RunningTurn] = []
        self.queue: deque[object] = deque()
        self._batched = session.open_batch() is not None
        """Whether several can run at once."""
        self._packs: list[Pack] = []
        self._reader: RunningTurn | None = None
        """Whose prompt the session reads."""
        self._owed = 0.0
        """Seconds that prompts took from those that wait for tokens, more than these took since."""
        self._idle = 0.0
        """When the last round ended."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        """Of what who wants a place waits for, or who has left."""
        self._driver: int | None = None
        """The thread that computes: nobody else touches the session, or what belongs to turns."""

    def stream(self, turn: Turn) -> TurnStream:
        """The deltas of a turn, as they come."""
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
        """The prompt of a turn, without its first `given` tokens, in deltas whose tokens have log-probabilities.

        Between two parts of it those go before who wait.
        """
        row, prompt, aside = turn.rows[0], turn.prompt, None
        parts = score_prompt(self.session, prompt, given, row.logprobs or 0, row.detokenizer)
        while True:
            with self.alone():
                self.cache.reuse(prompt, reproducible=True, aside=aside)
                turn.watch.resume()
                for tokens in parts:  # from where it was left
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
        """Whether nobody runs or waits."""
        return not self.running and not self.queue and self._driver is None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A time in which no turn runs, and the session is the caller's."""
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
        """Whether a turn that waits is the next, and may run beside those that do."""
        if self.queue[0] is not one or (self.running and (not self._batched or len(self.running) >= self.at_once)):
            return False
        free = available_memory() if self.running else None
        return free is None or one.turn.most_tokens * self.session.token_bytes < free

    def _compute_for(self, one: RunningTurn) -> None:
        """Return when there is something for the reader of a turn; compute, unless another thread does."""
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
        """Wait until there is something for the reader of a turn, or nobody computes."""
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
        """Let go of a turn, which has ended, was cancelled, or has failed; what nobody was told was never said."""
        if sys.is_finalizing():  # nobody will go on
            return
        with self._lock:
            one.left = True
            if one in self.queue:
                self.queue.remove(one)
                self._changed.notify_all()
            elif self._driver != threading.get_ident():  # else it was dropped, and found while computing
                self._changed.wait_for(lambda: self._driver is None or one not in self.running)
                if self._driver is None:
                    self._sweep()

    def _sweep(self) -> None:
        """Let those go of which nothing more is computed, and tell those who wait what they wait for."""
        for one in self.running:
            if one.waits and one.ready:
                one.news.notify()
        self._let_go()
        if self._driver is None and (idle := next((one for one in self.running if one.waits), None)):
            idle.news.notify()  # to compute
        self._changed.notify_all()

    def _let_go(self) -> None:
        """Let those go of which nothing more is computed; what their caches hold may serve the next."""
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
        """Compute a little for every turn that runs."""
        if len(self.running) == 1 and not self._packs and not self._reader or not self._batched:
            self._go_on_inline(self.running[0])
            return
        passed = perf_counter() - self._idle if self._idle else 0.0
        for one in self.running:
            one.turn.watch.leave_out(passed)  # readers took their time
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
        """Compute for a turn that has the session for itself."""
        one.turn.watch.resume()
        try:
            if one.inline is None:
                one.inline = self._begin_inline(one)
            growth = next(one.inline, None)
            if growth:
                one.growth, one.step = growth, growth.step
                one.tell()
            one.ended = growth is None
        except Exception as error:  # of the model's backend, or a wrong request
            one.error = error
        except BaseException:
            one.broken = True
            raise

    def _begin_inline(self, one: RunningTurn) -> Generator[Growth, None, None]:
        turn, decoding = one.turn, one.decoding
        if one.step:  # it was in a batch that failed
            self.cache.forget()
            chosen = 1 + len(one.step.more)
            rows = [row.tokens[:-chosen] for row in decoding.rows if not row.finish_reason]
            replay(self.session, [[*turn.prompt, *tokens] for tokens in rows])
            step = one.step._replace(parents=range(len(rows)))
            return generate(self.session, [], decoding, turn.watch, turn.hold, step)
        return generate(self.session, self._take_up(one), decoding, turn.watch, turn.hold)

    def _take_up(self, one: RunningTurn) -> list[int]:
        """Begin a prompt, or go on with one that was set aside; return what is to be read of it."""
        turn, aside = one.turn, one.aside
        unread = self.cache.reuse(turn.prompt, reproducible=turn.reproducible, aside=aside)
        one.aside = None
        if not aside:
            turn.cached_tokens = len(turn.prompt) - len(unread)
        return unread

    def _move(self, one: RunningTurn) -> None:
        """Put a turn that ran by itself beside others: into a batch, or its prompt among those that are read."""
        assert one.inline
        one.inline.close()
        one.inline, turn = None, one.turn
        if one.ended or one.error:
            return
        if one.step and not one.step.tokens:  # its reader has not come back to hear that this was all
            one.ended = True
            self.cache.keep([*turn.prompt, *one.decoding.cached], lasting=turn.lasting)
        elif one.step:
            self._join(one)
            self.cache.keep([*turn.prompt, *one.decoding.cached])
        else:
            one.unread, self._reader = turn.prompt[self.session.length :], one

    def _join(self, one: RunningTurn) -> None:
        """Give a turn rows in a batch, which go on from those of the session."""
        place, apart = self.session.placement, one.turn.reproducible
        pack = next((pack for pack in self._packs if not (apart or pack.apart) and pack.placement == place), None)
        if pack is None:
            batch = self.session.open_batch()
            assert batch  # as at the beginning
            pack = Pack(batch, place, apart)
            self._packs.append(pack)
        pack.join(one, self.session)
        if one.step and one.turn.speculation:
            one.step = one.turn.speculation.give_up(one.step)

    def _choose_prompt(self) -> RunningTurn | None:
        """Whose prompt is read next: of who came first, but for short ones that come while a long one is read.

        They pass it while they are no more tokens than were read of it: so it takes twice as long, at most.
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
        """Keep what was read of a prompt while another one is; False where memory is short."""
        if one is not self._reader:
            return True
        one.aside = self.cache.set_aside(one.turn.prompt)
        if one.aside:
            one.unread = self._reader = None
        return one.aside is not None

    def _read_part(self, others: bool) -> float:
        """Read a part of a prompt, short where others wait for tokens; return the seconds it took."""
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
            if one.step and one.step.more and one.step.last == 1:  # what it has to say is read like a prompt
                one.unread = [*one.step.tokens, *one.step.more]
                return perf_counter() - start
            if not one.ended:
                self._join(one)
            self.cache.keep([*turn.prompt, *one.decoding.cached])
        except Exception as error:  # of the model's backend, or a wrong request
            one.error = error
        self._reader = None
        return perf_counter() - start

    def _step(self, pack: Pack) -> None:
        """Read a token for each row of a batch; where that fails, its turns go on one after the other."""
        for one in pack.members if len(pack.members) > 1 else ():
            if one.stalled:  # alone in a batch it keeps nobody waiting
                self._packs.append(pack.part(one, self.session))
        try:
            pack.step()
        except Exception as error:  # a foreign runtime raises what it likes
            if not self._batched:
                raise
            self._packs, self._batched, self._reader = [], False, None
            for one in self.running:
                if isinstance(one.decoding, Beams) and one.step:  # its rows are not what it has read
                    one.error = error
