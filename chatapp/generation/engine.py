"""A loaded model that can chat, complete text and fill gaps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from backends import Placement, Session
from chatapp.generation.contract import Wanted, yes
from chatapp.generation.decoding.after_thinking import AfterThinking
from chatapp.generation.decoding.constraint import Constraint, Continued, Typed, TypedFirst
from chatapp.generation.decoding.drafts import DraftModel, Lookup, check_draft
from chatapp.generation.decoding.generate import HOLD, Stopwatch, generate
from chatapp.generation.decoding.indentation import Indentation, LineBreaks, end_body
from chatapp.generation.decoding.lines import Line, LineEnds, LineSearch, add_logprobs, read_branches, score, spell
from chatapp.generation.decoding.preview import Distribution
from chatapp.generation.decoding.row import Row
from chatapp.generation.decoding.sampling import Sampler
from chatapp.generation.decoding.speculation import Pace, Speculation, rounds_alike
from chatapp.generation.decoding.stop import StopStrings
from chatapp.generation.delta import Deltas, Token, Usage
from chatapp.generation.errors import GenerationError, PromptTooLong
from chatapp.generation.memory import check_beams
from chatapp.generation.options import OptionError, Options, check_together
from chatapp.generation.partial_reply import NEW, PartialReply
from chatapp.generation.prompt_cache import PromptCache
from chatapp.generation.prompts import Prompts, take_space
from chatapp.generation.text import infill
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.infill import Infill
from chatapp.generation.text.message import Message
from chatapp.generation.text.surroundings import Around
from chatapp.generation.text.thinking import MARKS, Channels, Think, split
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.generation.turn import USUAL, Turn
from chatapp.generation.turns import Turns

if TYPE_CHECKING:
    from chatapp.generation.decoding.grammar import Grammar, Vocabulary

FREE_TEXT = "file_start", "indentation", "stop_at_dedent"
"""Options that apply to free text only."""


class Engine:
    """A session with its tokenizer: text in, deltas out.

    Closing an iterator cancels it at once, keeps the cache and frees the engine. Turns of several threads are computed
    together where backend and model allow it, otherwise one after another.
    """

    def __init__(
        self,
        session: Session,
        tokenizer: Tokenizer,
        chat_template: ChatTemplate | None = None,
        *,
        defaults: Options | None = None,
        load_seconds: float = 0.0,
        lowering_seconds: float = 0.0,
        hold: float = HOLD,
        origin: Callable[[], Mapping[str, str]] = dict,
    ):
        """`hold`: seconds for which tokens may be held back, to be delivered together.

        `origin` tells what computes now: another backend, after one has failed.
        """
        self.defaults = defaults or Options()
        """The publisher's recommended options, to start from."""
        self.session, self.tokenizer, self.chat_template = session, tokenizer, chat_template
        self.load_seconds, self.lowering_seconds, self.hold = load_seconds, lowering_seconds, hold
        self.context_length = session.context_length
        self._origin = origin
        self._prompts = Prompts(session, tokenizer, chat_template)
        self._cache = PromptCache(session)
        self.draft: Engine | None = None
        """The smaller model that drafts tokens, if there is one."""
        self._pace = Pace()
        """What turns have learned about how many tokens to draft."""
        self._next: tuple[list[int], Distribution] | None = None
        """The last prompt of `next_token`, and its answer."""
        self.turns = Turns(session, self._cache)

    @property
    def last_usage(self) -> Usage | None:
        """The usage of the last turn that ended or was cancelled."""
        return self.turns.last_usage

    @property
    def placement(self) -> Placement:
        """Where the model runs, as the runtime reports it; changes if a backend fails."""
        return self.session.placement

    @property
    def origin(self) -> Mapping[str, str]:
        """What computes: the digest of the lowered model, and the versions of what lowered and runs it."""
        return self._origin()

    @property
    def can_chat(self) -> bool:
        return self.chat_template is not None

    @property
    def thinking_choices(self) -> tuple[Think, ...]:
        """The settings for thinking that the chat template knows."""
        return self.chat_template.thinking_choices if self.chat_template else ()

    @property
    def knows_tools(self) -> bool:
        """Whether the chat template supports tools."""
        return self.chat_template is not None and self.chat_template.knows_tools

    @property
    def can_infill(self) -> bool:
        """Whether the model takes the text after a gap into account."""
        return (gap := self._prompts.gap) is not None and gap.sees_suffix

    @property
    def sees_files(self) -> bool:
        """Whether the model was trained on several files of a repository."""
        return isinstance(gap := self._prompts.gap, Infill) and bool(gap.form.placed)

    def count_tokens(self, text: str) -> int:
        """The number of a text's tokens."""
        return len(self.tokenizer.encode(text))

    def count_prompt(self, text: str | Sequence[int], options: Options) -> int:
        """The number of tokens of the prompt for continuing a text, given as text or tokens."""
        return len(self._prompt(text, options)[0])

    def _prompt(self, text: str | Sequence[int], options: Options) -> tuple[list[int], Sequence[int]]:
        """The prompt for continuing a text, and the tokens taken off its end."""
        if not isinstance(text, str):
            return list(text), ()
        prompt = self._prompts.of_text(text, file_start=bool(options.file_start))
        return take_space(self.tokenizer, prompt) if options.indentation and not options.constraint else (prompt, ())

    def count_chat(
        self,
        messages: Sequence[Message],
        begun: Sequence[int] = (),
        *,
        think: Think | None = None,
        tools: Sequence[str] = (),
    ) -> int:
        """The number of tokens of a conversation's prompt; counting stops at many times the context."""
        try:
            return len(self._prompts.of_chat(messages, think, tools)) + len(begun)
        except PromptTooLong as error:
            return error.tokens

    def encode_marked(self, text: str) -> list[int] | None:
        """Tokens of a text in which control tokens count as such; None if it spells none."""
        self._prompts.check_length([Message("user", text)])
        if not self.tokenizer.controls(text):
            return None
        tokens, start = self.tokenizer.encode_template(text), list(self.tokenizer.start)
        return tokens if tokens[: len(start)] == start else [*start, *tokens]

    def render_chat(self, messages: Sequence[Message]) -> str:
        """A conversation's prompt, as its template renders it."""
        return self._prompts.check_template().render_joined(messages)[0]

    def text_of(self, tokens: Sequence[int], think: Think | None = None) -> str:
        """The text of a reply that begins with these tokens, without an incomplete last character."""
        detokenizer = self.tokenizer.detokenizer()
        return self._opening(think) + "".join(map(detokenizer.add, tokens))

    def _opening(self, think: Think | None) -> str:
        return self.chat_template.find_opening(think) if self.chat_template else ""

    def tokens_of(self, text: str, think: Think | None = None) -> list[Token]:
        """A text as tokens of a reply that begins with it; their cost is unknown."""
        detokenizer, text = self.tokenizer.detokenizer(), text.removeprefix(self._opening(think))
        return [Token(token, detokenizer.add(token), None, (), 0.0) for token in self.tokenizer.encode_reply(text)]

    def chat(
        self, messages: Sequence[Message], options: Options, begun: Sequence[int] = (), partial: PartialReply = NEW
    ) -> Deltas:
        """The assistant's reply to a conversation, or the rest of a reply `begun` with these tokens.

        The begun tokens are not repeated, except for a character that they left incomplete; a stop string that starts
        among them is not noticed. What another engine has written of the reply (`partial`) is repeated first.
        """
        started = perf_counter()
        if wrong := next((name for name in FREE_TEXT if getattr(options, name)), None):
            raise OptionError(f"{wrong} is for models that continue text, and this one answers; set it to 0", wrong)
        if begun and self.session.whole_prompts:
            raise GenerationError("this model is an encoder-decoder and cannot continue from a token")
        if begun and begun[-1] in self.tokenizer.eos:
            raise GenerationError("this token ends the answer, so nothing can follow it; choose another one")
        if options.tools and not self.knows_tools:
            raise OptionError("tools need a chat template that supports them, and this model's does not", "tools")
        prompt = self._prompts.of_chat(messages, options.think, options.tools)
        context = prompt if options.constraint else ()  # constrained: leading spaces count too
        turn = self._turn(prompt, options, self.tokenizer.eos, started, context=context, begun=begun, partial=partial)
        turn.channels = [Channels() for _ in turn.rows]
        turn.opening = "" if begun else self._opening(options.think)
        if begun:
            for channels in turn.channels:
                channels.add(self.text_of(begun, options.think))
        if grammar := self._grammar(options):
            self._keep_to(grammar, turn, begun, self._opening(options.think))
        elif options.tools and self.tokenizer.spells_bytes:
            from chatapp.generation.decoding.calls import constrain_calls

            source = self.chat_template.source if self.chat_template else ""
            constrain_calls(turn.rows, self._vocabulary, source, options.tools, self._opening(options.think), begun)
        return self._stream(turn)

    def _keep_to(self, grammar: "Grammar", turn: Turn, begun: Sequence[int], opening: str) -> None:
        """Constrain a turn's answers to a grammar, after any thinking.

        Raises if the tokens `begun` cannot become such an answer.
        """
        think, source = turn.rows[0].sampler.options.think, self.chat_template.source if self.chat_template else ""
        marks = [opening] if opening else [] if think is False else [begin for begin, _ in MARKS if begin in source]
        marks += ["<|channel|>analysis<|message|>"] if self.tokenizer.harmony else []
        whole: Constraint = grammar
        if marks:
            whole = AfterThinking(grammar, self.tokenizer, self.session.vocab_size, marks, opened=bool(opening))
        if begun:
            whole = Continued(whole, begun)
            whole.allowed(())
        for row in turn.rows:
            row.constraint = whole.copy()
        said = split(self.text_of(begun, think)).answer if begun else ""
        turn.fits, turn.said = grammar.fits, [said for _ in turn.rows]

    @cached_property
    def _vocabulary(self) -> "Vocabulary":
        """The vocabulary in the form that grammars need."""
        from chatapp.generation.decoding.grammar import Vocabulary

        return Vocabulary(self.tokenizer, self.session.vocab_size)

    def _grammar(self, options: Options) -> "Grammar | None":
        """The grammar of the whole answer, if the options ask for one; raises if this model cannot keep to it."""
        if (name := options.constraint) is None:
            return None
        from chatapp.generation.decoding.grammar import Grammar, write_grammar

        written = write_grammar(options, name)
        if options.tools and self.chat_template and name in ("json_schema", "json_object"):
            from chatapp.generation.decoding.calls import write_answer_or_calls

            written = write_answer_or_calls(self.tokenizer, self.chat_template.source, options)
        return Grammar(self._vocabulary, written, name)

    def complete(self, text: str | Sequence[int], options: Options, partial: PartialReply = NEW) -> Deltas:
        """Continue a text, given as text or tokens; with an encoder, answer it."""
        started = perf_counter()
        prompt, taken = self._prompt(text, options)
        text = text if isinstance(text, str) else self.tokenizer.decode(text)
        context, end = () if self.session.whole_prompts else prompt, self.tokenizer.eos
        turn = self._turn(prompt, options, end, started, context=context, taken=taken, going_on=True, partial=partial)
        if grammar := self._grammar(options):  # takes precedence over the layout of code
            self._keep_to(grammar, turn, (), "")
            return self._stream(turn)
        for row in turn.rows:
            if options.indentation:
                before = text[: len(text) - len(self.tokenizer.decode(taken))] if taken else text
                rule = Indentation(self._breaks, before, context)
                row.constraint = TypedFirst(row.constraint, rule) if isinstance(row.constraint, Typed) else rule
            if options.stop_at_dedent:
                row.stops = end_body(options.stop, text)
        return self._stream(turn)

    def score(self, text: str | Sequence[int], options: Options) -> Deltas:
        """A text, or its tokens, with each token's log-probability; nothing is generated."""
        started = perf_counter()
        if self.session.whole_prompts:
            raise GenerationError("this model is an encoder-decoder and has no probabilities for a prompt's tokens")
        prompt, taken = self._prompt(text, options)
        turn = self._turn([*prompt, *taken], replace(options, logprobs=options.logprobs or 0), frozenset(), started)
        spelt = self.tokenizer.encode(text) if isinstance(text, str) else text
        return self.turns.score(turn, len(turn.prompt) - len(spelt))

    def limit_gaps(self, most: int) -> None:
        """Limit the tokens of the text around a gap to the `most` nearest ones."""
        self._prompts.longest_gap = most

    @cached_property
    def _breaks(self) -> LineBreaks:
        return LineBreaks(self.tokenizer, self.session.vocab_size)

    def infill(
        self, prefix: str, suffix: str, options: Options, around: Around = None, partial: PartialReply = NEW
    ) -> Deltas:
        """Fill the gap between two texts, with 64 tokens if the options do not say.

        If the texts do not fit the context, what is farthest from the gap is left out. The gap is filled when the model
        begins to repeat the line after it. A model that was not trained to fill gaps continues the prefix.
        """
        started = perf_counter()
        if options.constraint:
            message = f"{options.constraint} constrains a whole answer and cannot be used to fill a gap; leave it out"
            raise OptionError(message, options.constraint)
        gap = self._prompts.check_gap()
        stop = (*options.stop, *infill.line_behind(suffix))
        options = replace(options, max_tokens=options.max_tokens or infill.MAX_TOKENS, stop=stop)
        prompt, taken = self._prompts.of_gap(prefix, suffix, around, options.max_tokens or 0)
        context, end = () if self.session.whole_prompts else prompt, gap.end
        turn = self._turn(prompt, options, end, started, context=context, taken=taken, at_once=True, partial=partial)
        return self._stream(turn)

    def find_lines(
        self, prefix: str, suffix: str, around: Around = None, *, width: int = 4, count: int = 4, wanted: Wanted = yes
    ) -> list[Line] | None:
        """The most likely completions of the current line, at most `count`, by beam search; a width of 1 is greedy.

        `wanted` is called between steps; None if it returns False. The prompt stays in the cache.
        """
        prompt, taken = self._prompts.of_gap(prefix, suffix, around, infill.MAX_TOKENS)
        limit = min(infill.MAX_TOKENS, self.context_length - len(prompt))
        search = LineSearch(self._line_ends, self._typed(taken), width=width, count=count, limit=limit)
        with self.turns.alone(), self._cache.branching(prompt) as unread:
            for _ in generate(self.session, unread, search, Stopwatch(perf_counter())):
                if not wanted():
                    return None
        return search.lines

    def score_lines(
        self, prefix: str, suffix: str, texts: Sequence[str], around: Around = None, *, wanted: Wanted = yes
    ) -> list[float] | None:
        """The log-probability of each text as the rest of the current line, with the line's end.

        Two spellings of each count: tokenised together with the word being typed, and apart from it. Minus infinity if
        the context has no room. `wanted` is called between batches; None if it returns False. The prompt stays in the
        cache.
        """
        gap = self._prompts.check_gap()
        prompt, taken = self._prompts.of_gap(prefix, suffix, around, infill.MAX_TOKENS)
        typed, ends, room = self._typed(taken), self._line_ends, self.context_length - len(prompt)
        spellings = {
            text: [found for each in spell(self.tokenizer, taken, text) if len(found := (*gap.opening, *each)) <= room]
            for text in texts
        }
        every = sorted({spelling for found in spellings.values() for spelling in found})
        scores: dict[tuple[int, ...], float] = {}
        with self.turns.alone(), self._cache.branching(prompt) as unread:
            if (logits := self._cache.read(unread, wanted)) is None:
                return None
            first = logits[0, -1].copy()
            for spelling, after in read_branches(self.session, every):
                if not wanted():
                    return None
                scores[spelling] = score(spelling, [first, *after], ends, typed)
        return [add_logprobs(np.array([scores[each] for each in spellings[text]])) for text in texts]

    def _typed(self, taken: Sequence[int]) -> Typed | None:
        return Typed(self.tokenizer, taken) if taken else None

    @cached_property
    def _line_ends(self) -> LineEnds:
        return LineEnds(self.tokenizer, self._prompts.check_gap().end)

    def next_token(
        self, prompt: Sequence[Message] | str, wanted: Wanted = yes, *, file_start: bool = False
    ) -> Distribution | None:
        """The distribution of the next token after a conversation or a text.

        The prompt is read as for a turn, and stays in the cache; the last answer is remembered. `wanted` is called
        before each part of the prompt; None if it returns False.
        """
        if isinstance(prompt, str):
            tokens = self._prompts.of_text(prompt, file_start=file_start)
        else:
            tokens = self._prompts.of_chat(prompt)
        context = tokens if isinstance(prompt, str) and not self.session.whole_prompts else ()
        turn = self._turn(tokens, Options(), frozenset(), perf_counter(), context=context)
        if (known := self._next) and known[0] == tokens:
            return known[1]
        with self.turns.alone(), self._cache.branching(tokens) as unread:
            if (logits := self._cache.read(unread, wanted)) is None:
                return None
            written = [] if self.session.whole_prompts else tokens
            found = Distribution(logits[0, -1], written, turn.rows[0].detokenizer.describe, self.tokenizer)
            self._next = tokens, found
            return found

    def _turn(
        self,
        prompt: list[int],
        options: Options,
        end: frozenset[int],
        started: float,
        *,
        context: Sequence[int] = (),
        taken: Sequence[int] = (),
        begun: Sequence[int] = (),
        at_once: bool = False,
        going_on: bool = False,
        partial: PartialReply = NEW,
    ) -> Turn:
        """Check a request, and prepare its turn; nothing is computed yet.

        The reply first repeats the text of the tokens `taken` off the end of the prompt. `begun` are tokens of the
        reply that are part of the prompt; those of `partial` are generated again. Tokens are delivered `at_once` if the
        reader may stop at any of them. When `going_on` with a text, empty lines at the beginning are not stop strings.
        """
        check_together(options)
        written = [] if self.session.whole_prompts else prompt  # what the decoder has read, for penalties
        prompt = [*prompt, *begun]
        self._prompts.check(prompt)
        length = min(len(prompt) + (options.max_tokens or USUAL), self.context_length)
        check_beams(options.num_beams, length, self.session.token_bytes)
        typed = self._typed(taken)
        room = self.context_length - len(prompt) + 1  # the last token is never read
        seed = partial.choose_seed(options.seed)
        limit = min(options.max_tokens or room, room)

        def make_row(index: int) -> Row:
            tokenizer, size = self.tokenizer, self.session.vocab_size
            sampler = Sampler(options, seed=seed, index=index, prompt=written, vocab_size=size, tokenizer=tokenizer)
            detokenizer = tokenizer.detokenizer(context, len(typed.text) if typed else 0)
            stops = StopStrings(options.stop, going_on=going_on)
            return Row(index, sampler, detokenizer, stops, options.logprobs, end, limit, typed, partial.tokens)

        rows = [make_row(index) for index in range(options.n)]
        for row in rows:
            row.go_on_from(begun)
        watch, hold = Stopwatch(started), 0.0 if at_once else self.hold
        return Turn(
            prompt,
            rows,
            seed,
            options.seed is not None,
            watch,
            hold,
            lambda: self.placement,
            self.load_seconds,
            self.lowering_seconds,
            lasting=not at_once and options.seed is None,
        )

    def speculate_with(self, draft: "Engine") -> None:
        """Use a smaller model to draft tokens from now on; raises if its vocabulary differs."""
        check_draft(self.tokenizer, self.session, draft.tokenizer, draft.session)
        self.draft, self._pace = draft, Pace()

    def _stream(self, turn: Turn) -> Deltas:
        row, small = turn.rows[0], self.draft and self.draft.session
        options = row.sampler.options  # the reported seed gives the same text again, unless tokens are drafted
        if options.guesses and (options.speculate or rounds_alike(self.placement)):
            drafter = DraftModel(small, row.sampler, self.session.vocab_size) if small else Lookup()
            turn.speculation = Speculation(row, drafter, turn.prompt, turn.watch, self._pace)
        return self.turns.stream(turn)
