"""One conversation with a model: what is asked, edited, answered again, and which branch is shown."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from chatapp.conversation.prompting import Answering
from chatapp.conversation.saving import Saving
from chatapp.conversation.setup import Setup, facts
from chatapp.conversation.texts import Text, beginning, ends, parts_of, shortened
from chatapp.conversation.tree import Tree
from chatapp.conversation.turn import Request, Turn, go_on_from, is_cut_off, is_unanswered
from chatapp.generation import Delta, Engine, GenerationError, Options, Reply, Timings, Token, Usage
from chatapp.history import Conversation, HistoryError, Kind, Message, Role
from chatapp.history.text import clean
from chatapp.text.printable import printable

if TYPE_CHECKING:
    from chatapp.history import History

CONTINUATION = 128
"""Tokens after which a text's continuation pauses, if the options do not say: a base model seldom ends by itself."""
BEGINNING = Delta("", 0, (), None, Timings(0.0, 0.0, 0.0, 0.0), None)
Stream = Callable[[Turn], Generator[Delta, None, None]]


class Dialogue:
    """A tree of messages, kept in memory and saved where there is a history.

    Nothing is lost while this object lives: what cannot be saved is saved when that works again, and `warn` is
    told of it, once each way. Numbers of messages may be negative until then, and are understood ever after.
    """

    def __init__(
        self,
        history: "History | None",
        conversation: Conversation | None = None,
        *,
        kind: Kind,
        setup: Setup,
        warn: Callable[[str], None],
        logprobs: int | None = None,
    ) -> None:
        """Begin a conversation, or open one of the history; `logprobs` are asked for where the options do not say."""
        self._history = history
        self.kind: Kind = conversation.kind if conversation else kind
        self.logprobs = logprobs
        stored = history.tree(conversation.id) if history and conversation else ()
        self._tree = Tree(stored, conversation.leaf if conversation else None)
        number = conversation.id if conversation else None
        self._saving = Saving(history, self._tree, conversation=number, kind=self.kind, warn=warn)
        self._saving.setup = setup
        self._answering = Answering(self._tree, self._saving)

    @property
    def conversation(self) -> int | None:
        """Its number in the history, once something was said."""
        return self._saving.conversation

    @property
    def setup(self) -> Setup:
        """How it is answered."""
        return self._saving.setup

    @property
    def failure(self) -> HistoryError | None:
        """Why it is not being saved, where that is so."""
        return self._saving.failure

    @property
    def is_ahead(self) -> bool:
        """Whether there are words here that are not on the disk."""
        return bool(self._saving.new or self._saving.changed)

    def change(self, setup: Setup) -> None:
        """Answer in another way from now on."""
        self._saving.setup, self._saving.setup_changed = setup, True
        self._saving.save_if_well()

    def keep_draft(self, draft: str) -> None:
        """Keep what the user has not sent yet, once there is a conversation to keep it with."""
        self._saving.draft = draft
        self._saving.save_if_well()

    def save(self) -> bool:
        """Try to save what could not be saved before; whether everything is."""
        self._saving.save()
        return not self._saving.is_behind

    def keep_in(self, history: "History") -> None:
        """Save everything in a history that could not be opened before."""
        self._history = self._saving.history = history
        self._saving.save()

    # What there is

    def messages(self) -> Sequence[Message]:
        """All of its messages, each after its parent."""
        return self._tree.messages()

    def branch(self) -> Sequence[Message]:
        """What is shown, from the first message to the last."""
        return self._tree.branch(self._tree.leaf)

    def message(self, message: int) -> Message:
        """One message as it is now."""
        return self._tree[message]

    def tokens(self, message: int) -> Sequence[Token]:
        """The tokens of a reply, where they are known."""
        number = self._tree.number(message)
        return self._saving.tokens.get(number) or (self._history.tokens(number) if self._history else ())

    def latencies(self, message: int) -> Sequence[float]:
        """The seconds that each token of a reply took, all but the first."""
        number = self._tree.number(message)
        return self._saving.latencies.get(number) or (self._history.latencies(number) if self._history else ())

    def select(self, message: int) -> None:
        """Show the branch through a message, to its newest end."""
        self._show(self._tree.newest(message))
        self._saving.save_if_well()

    def follow(self, text: str) -> bool:
        """Show the branch of a text as a screen shows it, or the reply that it breaks off in; whether there is one."""
        last, rest = self._tree.written(clean(text))
        shown = {one.id for one in self.branch()}
        replies = [one for one in self._tree.after(last) if one.role == "assistant"]
        fitting = [one for one in replies if rest and printable(one.text).startswith(rest)]
        if fitting:
            last = max(fitting, key=lambda one: (one.id in shown, one.versions.index(one.id))).id
        if last is None or (rest and not fitting):
            return False
        if last != self._tree.leaf:
            self._show(last)
            self._saving.save_if_well()
        return True

    # What can be said

    def ask(self, engine: Engine, text: str, n: int = 1) -> Turn:
        """Say something, which is answered; a question that got no answer is left aside."""
        leaf = self._tree.leaf
        while leaf is not None and is_unanswered(self._tree[leaf]):
            leaf = self._tree[leaf].parent
        return self._asked(self._request(engine, n, leaf), text)

    def edit(self, engine: Engine, message: int, text: str) -> Turn:
        """Say something else in place of a message, which is answered."""
        return self._asked(self._request(engine, 1, self._tree[message].parent), text)

    def again(self, engine: Engine, message: int, n: int = 1) -> Turn:
        """Another answer, or n, beside a reply; or to a question that has none."""
        return self._chat(self._request(engine, n, self._question(message)))

    def go_on(self, engine: Engine, message: int, tokens: Sequence[Token], *, n: int = 1, after: str = "") -> Turn:
        """Another version of a reply, or n, which begins with these tokens; in a text, before what is `after` it."""
        self._check_author(self._tree[message].model)
        request = self._request(engine, n, self._question(message))
        request.tokens = tokens
        if self.kind == "chat":
            return self._chat(request)
        request.parent = self._tree[message].parent
        before = self._tree.text(request.parent) + "".join(token.text for token in tokens)
        return self._filled(request, before, clean(after)) if after else self._continued(request, before)

    def resume(self, engine: Engine, message: int) -> Turn:
        """Let an answer that was cut off go on, in the same message."""
        found = self._tree[message]
        if not is_cut_off(found):
            raise GenerationError("this answer ended by itself; /again asks for another one")
        if self._tree.after(found.id):
            raise GenerationError("only the last answer can go on")
        self._check_author(found.model)
        request = self._request(engine, 1, found.parent)
        known, think = self.tokens(found.id), request.options.think
        whole = bool(known) and engine.text_of([token.id for token in known], think) == found.text
        request.tokens, request.resumed = known if whole else engine.tokens_of(found.text, think), found
        return self._chat(request)

    def _check_author(self, wrote: str) -> None:
        """Tokens mean something to the model that wrote them only."""
        model = self.setup.model
        if wrote and model and wrote != model:
            raise GenerationError(
                f"{wrote} wrote this answer: its tokens mean nothing to {model}; choose {wrote} again"
            )

    def write(self, text: Text) -> None:
        """Make a text this one: what its user changed becomes a branch."""
        self._write(text)
        self._saving.save_if_well()

    def continue_text(self, engine: Engine, text: Text, n: int = 1) -> Turn:
        """Let the model continue a text."""
        request = self._request(engine, n, None)
        self._write(text, request)
        return self._continued(request, self._tree.text(request.parent))

    def fill(self, engine: Engine, before: Text, after: str) -> Turn:
        """Let the model write what is missing between two texts; the branch reads on behind it."""
        request = self._request(engine, 1, None)
        self._write(before, request)
        return self._filled(request, self._tree.text(request.parent), clean(after))

    # How it begins

    def _request(self, engine: Engine, n: int, parent: int | None) -> Request:
        options = self.setup.taken(engine.defaults)
        logprobs = self.logprobs if options.logprobs is None else options.logprobs
        return Request(engine, replace(options, n=n, logprobs=logprobs), self._tree.leaf, parent)

    def _asked(self, request: Request, text: str) -> Turn:
        """Say a text, and let it be answered."""
        request.question = self._add("user", text, request.parent)
        request.added.append(request.question.id)
        request.parent = request.question.id
        return self._chat(request)

    def _chat(self, request: Request) -> Turn:
        return self._turn(request, lambda turn: self._answering.reply(request, turn))

    def _continued(self, request: Request, text: str) -> Turn:
        """Let a text go on."""
        request.options = replace(request.options, max_tokens=request.options.max_tokens or CONTINUATION)
        return self._turn(request, lambda turn: self._answering.continuation(request, text, turn))

    def _filled(self, request: Request, before: str, after: str) -> Turn:
        """Let the gap between two texts be filled."""
        request.after = after
        return self._turn(request, lambda turn: request.engine.infill(before, after, request.options))

    def _turn(self, request: Request, stream: Stream) -> Turn:
        """Begin the replies, save that, and make ready what draws them."""
        options = self._counted_on(request)
        begun = [token.id for token in request.tokens]
        text = request.engine.text_of(begun, options.think) if begun and self.kind == "chat" else ""
        text = text or "".join(token.text for token in request.tokens)
        reply = Message(
            0,
            0,
            request.parent,
            "assistant",
            text,
            time.time(),
            finished=False,
            model=self.setup.model,
            options=facts(asdict(options)),
        )
        if request.resumed:
            replies = [request.resumed.id]
            self._tree.change(replies[0], finished=False, finish_reason=None)
            self._saving.changed.add(replies[0])
        else:
            replies = [self._put(reply).id for _ in range(options.n)]
            request.added += replies
        if request.after:
            request.added.append(self._add("user", request.after, replies[0]).id)
        else:
            self._show(replies[0])
        self._saving.save_if_well()  # a locked history is waited for, but not by each question
        question = request.question and self._tree[request.question.id]
        turn = Turn(question, tuple(self._tree[one] for one in replies), resumed=request.resumed is not None)
        turn.deltas = self._drawn(request, turn, stream)
        next(turn.deltas)  # from here on it is noticed when it is closed
        return turn

    def _counted_on(self, request: Request) -> Options:
        """A fixed seed counts on, or another answer would be the same."""
        options = request.options
        if options.seed is not None:
            attempts = sum(one.role == "assistant" for one in self._tree.after(request.parent))
            request.options = replace(options, seed=(options.seed + attempts) % 2**64)
        return request.options

    def _question(self, message: int) -> int | None:
        """What a reply answers; a question itself."""
        found = self._tree[message]
        return found.id if found.role == "user" else found.parent

    def _write(self, text: Text, request: Request | None = None) -> None:
        """Find the branch that reads so, or begin it; what its user goes on typing stays one message."""
        parts = parts_of(text)
        last, rest = self._tree.written(clean("".join(part for _, part in parts)))
        new = ends(parts, len(rest))
        leaf = None if self._tree.leaf is None else self._tree[self._tree.leaf]
        own = leaf and leaf.role == "user" and leaf.text and not self._tree.after(leaf.id)
        if leaf and own and not request and [role for role, _ in new] == ["user"] and last in (leaf.id, leaf.parent):
            self._tree.change(leaf.id, text=(leaf.text if last == leaf.id else "") + rest)
            self._saving.changed.add(leaf.id)
            return
        for role, part in new:
            added = self._add(role, part, last)
            if role == "assistant":
                self._credit(added)
            last = added.id
            if request:
                request.question = added
                request.added.append(last)
        if last is not None and not new:
            self._show(last)
        if request:
            request.parent = last

    def _credit(self, message: Message) -> None:
        """What is left of a reply that its user shortened keeps its tokens."""
        if whole := shortened(message, self._tree.after(message.parent)):
            self._tree.change(message.id, model=whole.model, finish_reason="cancelled")
            self._saving.tokens[message.id] = beginning(self.tokens(whole.id), message.text)
            self._saving.latencies[message.id] = ()

    def _add(self, role: Role, text: str, parent: int | None) -> Message:
        return self._put(Message(0, 0, parent, role, clean(text), time.time()))

    def _put(self, message: Message) -> Message:
        new = self._tree.add(message)
        self._saving.new.append(new.id)
        return new

    def _show(self, message: int) -> None:
        self._tree.leaf = self._tree.number(message)
        self._saving.leaf_changed = True

    # How it is answered

    def _drawn(self, request: Request, turn: Turn, stream: Stream) -> Generator[Delta, None, None]:
        """The deltas, saved as they pass."""
        replies = [Reply(tokens=list(request.tokens), begun=len(request.tokens)) for _ in turn.replies]
        if cut := request.resumed:
            go_on_from(cut, replies[0], self.latencies(cut.id))
        usage: Usage | None = None
        failed = True
        try:
            yield BEGINNING
            with closing(stream(turn)) as deltas:
                for delta in deltas:
                    usage = delta.usage
                    replies[delta.index].add(delta)
                    self._grow(turn.replies[delta.index].id, delta.text)
                    yield delta
            failed = False
        except GeneratorExit:
            failed = False
            raise
        finally:
            if any(reply.is_heard for reply in replies):
                usage = usage or request.engine.last_usage
                for message, reply in zip(turn.replies, replies, strict=True):
                    self._end(message.id, reply, usage, failed=failed)
            else:
                self._withdraw(request)
                turn.withdrawn = True
            self._saving.save()

    def _grow(self, message: int, text: str) -> None:
        self._tree.grow(message, clean(text))
        self._saving.changed.add(self._tree.number(message))
        self._saving.grown()

    def _end(self, message: int, reply: Reply, usage: Usage | None, *, failed: bool) -> None:
        """An answer that the model broke off by failing stays, unfinished; what it had begun with was no prompt."""
        number = self._tree.number(message)
        summary = usage.as_dict() if usage else {}
        summary.pop("latencies", None)
        if summary and self.kind == "chat":
            summary["prompt_tokens"] -= reply.begun
        if reply.thinking_tokens:
            summary |= {"thinking_tokens": reply.thinking_tokens, "thinking_seconds": reply.thinking_seconds}
        reason = None if failed else reply.finish_reason
        self._saving.tokens[number], self._saving.latencies[number] = reply.tokens, reply.latencies
        self._tree.change(number, finished=not failed, finish_reason=reason, usage=summary)
        self._saving.changed.add(number)

    def _withdraw(self, request: Request) -> None:
        """Take back what nothing was said to, as far as nothing follows it by now."""
        if cut := request.resumed:
            self._tree.change(cut.id, finished=cut.finished, finish_reason=cut.finish_reason)
            self._saving.changed.add(self._tree.number(cut.id))
        gone: list[int] = []
        for message in reversed(request.added):
            number = self._tree.number(message)
            if not self._tree.after(number):
                self._saving.withdraw(number)
                self._tree.remove(number)
                gone.append(number)
        if self._tree.leaf in gone:
            self._tree.leaf = None if request.before is None else self._tree.number(request.before)
            self._saving.leaf_changed = True
