"""One conversation with a model: asking, editing, answering again, and which branch is shown."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from chatapp.conversation import receipt, tool_calls
from chatapp.conversation.prompting import Prompting
from chatapp.conversation.saving import Saving
from chatapp.conversation.setup import Setup, options_as_json, wrong_thinking
from chatapp.conversation.texts import Reached, Text, find_original, fitting_tokens, last_parts, parts_of
from chatapp.conversation.tree import Tree
from chatapp.conversation.turn import BEGINNING, Turn, hide_calls, is_cut_off, is_unanswered, resume_figures, take_beams
from chatapp.generation import Deltas, Engine, GenerationError, Options, Reply, Token, ToolCall, Usage
from chatapp.generation.options import without_free_text
from chatapp.history import Conversation, HistoryError, Kind, Message, Role
from chatapp.history.text import clean
from chatapp.text.printable import printable

if TYPE_CHECKING:
    from chatapp.conversation.tools import Result
    from chatapp.conversation.tools.toolset import Toolset
    from chatapp.history import History

CONTINUATION = 128
"""Default maximum of new tokens when continuing a text: a base model seldom stops by itself."""


def limit(options: Options) -> Options:
    """The options with the default token limit of a continuation, unless they set one."""
    return replace(options, max_tokens=options.max_tokens or CONTINUATION)


class Dialogue:
    """One conversation: a tree of messages in memory, saved to the history if there is one.

    Nothing is lost while this object lives: what could not be saved is retried later, and `warn` is called once when
    saving fails and once when it works again. Unsaved messages have negative ids, which stay valid after saving.
    """

    def __init__(
        self,
        history: "History | None",
        conversation: Conversation | None = None,
        *,
        kind: Kind,
        setup: Setup,
        warn: Callable[[str], object],
        logprobs: int | None = None,
        toolset: "Toolset | None" = None,
    ) -> None:
        """Begin a conversation, or open a saved one; `logprobs` is the default where the options set none."""
        self._history, self.toolset = history, toolset
        self.kind: Kind = conversation.kind if conversation else kind
        self.logprobs = logprobs
        stored = history.tree(conversation.id) if history and conversation else ()
        self._tree = Tree(stored, conversation.leaf if conversation else None)
        number = conversation.id if conversation else None
        self._saving = Saving(history, self._tree, conversation=number, kind=self.kind, warn=warn)
        self._saving.setup = setup
        self._prompting = Prompting(self._tree, self._saving)
        self._draft: str | None = None if conversation else ""
        """The draft that was saved last; None if unknown."""

    @property
    def conversation(self) -> int | None:
        """Its id in the history; None until something was said."""
        return self._saving.conversation

    @property
    def setup(self) -> Setup:
        """The model, options and system prompt it is answered with."""
        return self._saving.setup

    @property
    def failure(self) -> HistoryError | None:
        """Why the last save failed; None if it succeeded."""
        return self._saving.failure

    @property
    def is_ahead(self) -> bool:
        """Whether some of its text is not saved yet."""
        return bool(self._saving.new or self._saving.changed or self.unsaved_draft)

    @property
    def unsaved_draft(self) -> str:
        """The draft, if it is not saved yet; empty for a completion with messages, since its draft repeats them."""
        return "" if self.kind == "completion" and self.branch() else self._saving.draft or ""

    def change(self, setup: Setup) -> None:
        """Use another setup from now on."""
        self._saving.setup, self._saving.setup_changed = setup, True
        self._saving.save_if_well()

    def change_model(self, engine: Engine, model: str) -> str:
        """Use another model from now on; returns why its thinking option had to be dropped, or an empty string."""
        setup, wrong = replace(self.setup, model=model), wrong_thinking(engine, model, self.setup.options)
        if wrong:
            setup = setup.without_thinking()
        if setup != self.setup:
            self.change(setup)
        return wrong

    def keep_draft(self, draft: str) -> None:
        """Save what the user has typed but not sent; this alone creates a conversation."""
        if draft != self._draft:
            self._draft = self._saving.draft = draft
            self._saving.save_if_well()

    def split_by_author(self, text: str) -> Sequence[tuple[Role, str]]:
        """Split a text into parts by author: what matches a branch, and the rest as the user's."""
        last, rest = self._tree.match(clean(text))
        return [*((one.role, one.text) for one in self._tree.branch(last)), ("user", rest)]

    def save(self) -> bool:
        """Save what is still unsaved; returns whether everything is saved now."""
        self._saving.save()
        return not self._saving.is_behind

    def save_to(self, history: "History") -> None:
        """Save everything to a history that could not be opened before."""
        self._history = self._saving.history = history
        self._saving.save()

    # Its messages

    def messages(self) -> Sequence[Message]:
        """All of its messages, each after its parent."""
        return self._tree.messages()

    def branch(self) -> Sequence[Message]:
        """The messages of the branch that is shown, in order."""
        return self._tree.branch(self._tree.leaf)

    def last(self, role: Role) -> Message | None:
        """The last message of this role in the branch that is shown."""
        return next((one for one in reversed(self.branch()) if one.role == role), None)

    @property
    def unanswered(self) -> Message | None:
        """The user's message that the branch ends with, if it has no answer."""
        branch = self.branch()
        return branch[-1] if branch and branch[-1].role == "user" else None

    def message(self, message: int) -> Message:
        """A message in its current state."""
        return self._tree[message]

    def tokens(self, message: int) -> Sequence[Token]:
        """The tokens of a reply; empty if they were not kept."""
        number = self._tree.number(message)
        return self._saving.tokens.get(number) or (self._history.tokens(number) if self._history else ())

    def latencies(self, message: int) -> Sequence[float]:
        """The seconds that each token of a reply took, without the first token."""
        number = self._tree.number(message)
        return self._saving.latencies.get(number) or (self._history.latencies(number) if self._history else ())

    def select(self, message: int) -> None:
        """Show the branch through a message, down to its newest leaf."""
        self._saving.show(self._tree.newest_leaf(message))
        self._saving.save_if_well()

    def follow(self, text: str) -> bool:
        """Show the branch that has this displayed text, perhaps ending within a reply; returns whether there is one."""
        last, rest = self._tree.match(clean(text))
        shown = {one.id for one in self.branch()}
        replies = [one for one in self._tree.children(last) if one.role == "assistant"]
        fitting = [one for one in replies if rest and printable(one.text).startswith(rest)]
        if fitting:
            last = max(fitting, key=lambda one: (one.id in shown, one.versions.index(one.id))).id
        if last is None or (rest and not fitting):
            return False
        if last != self._tree.leaf:
            self._saving.show(last)
            self._saving.save_if_well()
        return True

    def find_reached(self, text: str, turn: Turn | None) -> Reached | None:
        """The reply that a displayed text ends in, even if cut short; or the reply of `turn` that fills a gap in it."""
        self.follow(text)
        newest = [self.message(one.id).id for one in turn.replies] if turn and not turn.withdrawn else []
        branch = list(self.branch())
        for place in reversed([place for place, one in enumerate(branch) if one.role == "assistant"]):
            reply, parts = branch[place], branch[:place]
            before, said, after = (
                "".join(printable(one.text) for one in part) for part in (parts, [reply], branch[place + 1 :])
            )
            there = text[len(before) : len(text) - len(after)]
            if text != before + there + after or not said.startswith(there) or (after and reply.id not in newest):
                return None
            if there or after:
                tokens = fitting_tokens(self.tokens(reply.id), there)
                rest = there[len(printable("".join(token.text for token in tokens))) :]
                return Reached([(one.role, one.text) for one in parts], reply, tokens, rest, there == said, after)
            branch = parts
        return None

    def before(self, message: Message) -> Sequence[Message]:
        """The messages before this one on its branch."""
        return self._tree.branch(message.parent)

    # What a user does with it

    def ask(self, engine: Engine, text: str, n: int = 1) -> Turn:
        """Add a user's message and answer it; a preceding question without an answer is dropped from the branch."""
        leaf = self._tree.leaf
        while leaf is not None and is_unanswered(self._tree[leaf]):
            leaf = self._tree[leaf].parent
        return self._begin(engine, self._turn(engine, leaf, n, question=text))

    def edit(self, engine: Engine, message: int, text: str) -> Turn:
        """Add another version of a user's message and answer it."""
        return self._begin(engine, self._turn(engine, self._tree[message].parent, question=text))

    def again(self, engine: Engine, message: int, n: int = 1) -> Turn:
        """Generate n more replies beside a reply, or to a question that has none."""
        return self._begin(engine, self._turn(engine, self._question(message), n))

    def go_on(self, engine: Engine, message: int, tokens: Sequence[Token], *, n: int = 1, after: str = "") -> Turn:
        """Generate n versions of a reply that begin with these tokens; `after` is the text behind a gap to fill."""
        self._check_author(self._tree[message].model)
        parent = self._question(message) if self.kind == "chat" else self._tree[message].parent
        turn = self._turn(engine, parent, n)
        turn.tokens, turn.after = tokens, clean(after) if after else None
        return self._begin(engine, turn)

    def resume(self, engine: Engine, message: int) -> Turn:
        """Continue a reply that was cut off, in the same message."""
        found = self._tree[message]
        if not is_cut_off(found):
            raise GenerationError("this answer is complete; for another one: /again")
        if self._tree.children(found.id):
            raise GenerationError("only the last answer can be continued")
        self._check_author(found.model)
        turn = self._turn(engine, found.parent)
        known, think = self.tokens(found.id), turn.options.think
        whole = bool(known) and engine.text_of([token.id for token in known], think) == found.text
        turn.tokens, turn.resumed = known if whole else engine.tokens_of(found.text, think), found
        return self._begin(engine, turn)

    def open_calls(self) -> Sequence[ToolCall]:
        """The tool calls of the last reply that have no result yet."""
        return tool_calls.find_open(self.branch())

    def answer_call(self, call: ToolCall, result: "Result", **about: str | float) -> None:
        """Add the result of a tool call."""
        usage = {"outcome": result.outcome, **about}
        leaf, text = self._tree.leaf, clean(result.text)
        self._saving.add(Message(0, 0, leaf, "tool", text, time.time(), calls=(call,), usage=usage))
        self._saving.save_if_well()

    def go_on_with_results(self, engine: Engine) -> Turn:
        """Let the model continue after its tool calls have results."""
        return self._begin(engine, self._turn(engine, self._tree.leaf))

    def write(self, text: Text) -> None:
        """Replace the text of a completion; what the user changed becomes a new branch."""
        parts = parts_of(text)
        last, new = self._find(parts)
        leaf = None if self._tree.leaf is None else self._tree[self._tree.leaf]
        own = leaf and leaf.role == "user" and leaf.text and not self._tree.children(leaf.id)
        if leaf and own and [role for role, _ in new] == ["user"] and last in (leaf.id, leaf.parent):
            self._saving.change(leaf.id, text=(leaf.text if last == leaf.id else "") + new[0][1])  # typing goes on
        else:
            self._write(last, new)
        self._saving.save_if_well()

    def continue_text(self, engine: Engine, text: Text, n: int = 1) -> Turn:
        """Let the model continue a text."""
        return self._begin(engine, self._turn(engine, None, n, text=text))

    def fill(self, engine: Engine, before: Text, after: str) -> Turn:
        """Let the model fill the gap between two texts; the branch continues with `after`."""
        turn = self._turn(engine, None, text=before)
        turn.after = clean(after)
        turn.options = replace(
            self.setup.apply_to(without_free_text(engine.defaults)), n=1, logprobs=turn.options.logprobs
        )
        return self._begin(engine, turn)

    # From a question to its stream of deltas

    def _turn(
        self, engine: Engine, parent: int | None, n: int = 1, *, question: str | None = None, text: Text | None = None
    ) -> Turn:
        """A turn with the current options: after a message, after a new question, or after a text."""
        options = self.setup.apply_to(engine.defaults)
        logprobs = self.logprobs if options.logprobs is None else options.logprobs
        turn = Turn(replace(options, n=n, logprobs=logprobs), parent, before=self._tree.leaf)
        if question is not None:
            turn.added = self._write(parent, [("user", clean(question))])
        elif text is not None:
            turn.parent, new = self._find(parts_of(text))
            turn.added = self._write(turn.parent, new)
        if turn.added:
            turn.parent = turn.added[-1]
            turn.question = self._tree[turn.parent]
        return turn

    def _begin(self, engine: Engine, turn: Turn) -> Turn:
        """Add and save the empty replies, and prepare the stream that fills them."""
        turn.options = self._count_on(turn)
        told = "".join(token.text for token in turn.tokens)
        if turn.resumed:
            replies = [turn.resumed.id]
            self._saving.change(turn.resumed.id, finished=False, finish_reason=None)
        else:
            begun = [token.id for token in turn.tokens]
            text = (engine.text_of(begun, turn.options.think) if begun and self.kind == "chat" else "") or told
            reply = Message(0, 0, turn.parent, "assistant", text, time.time(), finished=False, model=self.setup.model)
            reply = replace(reply, options=options_as_json(asdict(turn.options)))
            replies = [self._saving.add(reply) for _ in range(turn.options.n)]
            turn.added += replies
        if turn.after:
            turn.added += self._write(replies[0], [("user", turn.after)])
        else:
            self._saving.show(replies[0])
        self._saving.save_if_well()  # a locked history must not delay every question
        turn.question = turn.question and self._tree[turn.question.id]
        turn.replies = tuple(self._tree[one] for one in replies)
        if self.kind == "chat":
            stream = self._prompting.answer(engine, turn, self.toolset)
        else:
            before = "".join(one.text for one in self._tree.branch(turn.parent))
            stream = self._prompting.complete(engine, turn, before + told)
        turn.deltas = self._draw(engine, turn, stream)
        next(turn.deltas)  # enter its try block, so that closing it runs the cleanup
        return turn

    def _draw(self, engine: Engine, turn: Turn, stream: Deltas) -> Deltas:
        """Pass on the deltas of a turn, saving them on the way."""
        replies = [Reply(tokens=list(turn.tokens), begun=len(turn.tokens)) for _ in turn.replies]
        if cut := turn.resumed:
            resume_figures(cut, replies[0], self.latencies(cut.id))
        usage: Usage | None = None
        failed = True
        try:
            yield BEGINNING
            with closing(stream):
                for delta in stream:
                    usage = delta.usage
                    replies[delta.index].add(delta)
                    if turn.options.num_beams > 1:
                        spent = delta.timings
                        turn.beams.add(delta.beams, spent.prefill + spent.decode + spent.sampling)
                    number = self._tree.grow(turn.replies[delta.index].id, clean(delta.text))
                    self._saving.grow(number)
                    yield hide_calls(turn, delta)
            failed = False
        except GeneratorExit:
            failed = False
            raise
        finally:
            if turn.beams.steps and not any(reply.is_heard for reply in replies):
                spell = partial(engine.text_of, think=turn.options.think)
                turn.taken = take_beams(turn, spell, spell(()) if self.kind == "chat" and not turn.tokens else "")
                for delta in turn.taken:
                    replies[delta.index].add(delta)
                    self._tree.grow(turn.replies[delta.index].id, clean(delta.text))
            if any(reply.is_heard for reply in replies):
                usage = usage or engine.last_usage
                for index, (message, reply) in enumerate(zip(turn.replies, replies, strict=True)):
                    n, again = turn.options.n, turn.options if turn.resumed or turn.listener else None
                    how = receipt.write(engine, turn.asked, index=index, n=n, begun=reply.begun, again=again)
                    self._end(message.id, reply, usage, how, failed=failed)
                if turn.calls:
                    self._saving.change(turn.replies[0].id, calls=turn.calls)
            else:
                self._withdraw(turn)
            self._saving.save()

    def _count_on(self, turn: Turn) -> Options:
        """The options of a turn; a fixed seed is advanced per attempt, or each answer would be the same."""
        options = turn.options
        if self.kind == "completion" and turn.after is None:
            options = limit(options)
        if options.seed is not None:
            attempts = sum(one.role == "assistant" for one in self._tree.children(turn.parent))
            options = replace(options, seed=(options.seed + attempts) % 2**64)
        return options

    def _check_author(self, wrote: str) -> None:
        """Refuse to reuse tokens that another model generated: token ids mean nothing to this one."""
        model = self.setup.model
        if wrote and model and wrote != model:
            raise GenerationError(
                f"{wrote} wrote this answer, and {model} cannot continue its tokens; choose {wrote} again"
            )

    def _question(self, message: int) -> int | None:
        """The message that a reply answers; for a question, the question itself."""
        found = self._tree[message]
        return found.id if found.role == "user" else found.parent

    def _find(self, parts: Sequence[tuple[Role, str]]) -> tuple[int | None, list[tuple[Role, str]]]:
        """The last message of the longest branch the text begins with, and the parts of the text after it."""
        last, rest = self._tree.match(clean("".join(part for _, part in parts)))
        return last, last_parts(parts, len(rest))

    def _write(self, last: int | None, parts: Sequence[tuple[Role, str]]) -> list[int]:
        """Add parts of a text after a message and show them; returns the new ids."""
        added = list[int]()
        for role, part in parts:
            last = self._saving.add(Message(0, 0, last, role, part, time.time()))
            added.append(last)
            if role == "assistant":
                self._credit(self._tree[last])
        if last is not None and not added:
            self._saving.show(last)
        return added

    def _credit(self, message: Message) -> None:
        """If a message is a reply that the user shortened, keep that reply's model and the tokens that remain."""
        if whole := find_original(message, self._tree.children(message.parent)):
            self._tree.change(message.id, model=whole.model, finish_reason="cancelled")
            self._saving.tokens[message.id] = fitting_tokens(self.tokens(whole.id), message.text)
            self._saving.latencies[message.id] = ()

    def _end(self, message: int, reply: Reply, usage: Usage | None, how: Mapping[str, Any], *, failed: bool) -> None:
        """Record how a reply ended; after an error it stays unfinished. Tokens it began with are not prompt tokens."""
        number = self._tree.number(message)
        summary = usage.as_dict() if usage else {}
        summary.pop("latencies", None)
        if summary and self.kind == "chat":
            summary["prompt_tokens"] -= reply.begun
        if reply.thinking_tokens:
            summary |= {"thinking_tokens": reply.thinking_tokens, "thinking_seconds": reply.thinking_seconds}
        if reply.valid is not None:
            summary["valid"] = reply.valid
        summary["receipt"] = dict(how)
        self._saving.tokens[number], self._saving.latencies[number] = reply.tokens, reply.latencies
        reason = None if failed else reply.finish_reason
        self._saving.change(number, finished=not failed, finish_reason=reason, usage=summary)

    def _withdraw(self, turn: Turn) -> None:
        """Remove the messages of a turn that got no answer, unless something follows them by now."""
        if cut := turn.resumed:
            self._saving.change(cut.id, finished=cut.finished, finish_reason=cut.finish_reason)
        gone: list[int] = []
        for message in reversed(turn.added):
            number = self._tree.number(message)
            if not self._tree.children(number):
                self._saving.withdraw(number)
                self._tree.remove(number)
                gone.append(number)
        if self._tree.leaf in gone:
            self._tree.leaf = self._tree.number(turn.before)
            self._saving.leaf_changed = True
        turn.withdrawn = True
