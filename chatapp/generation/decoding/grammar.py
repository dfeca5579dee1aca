"""Constrain a whole reply, with llguidance: JSON of a schema, a regular expression, a grammar, or one of some texts."""

from __future__ import annotations  # as in chatapp.text.child

import json
import re
from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from chatapp.generation.decoding.generate import count_shared
from chatapp.generation.errors import GenerationError
from chatapp.generation.options import GRAMMARS, OptionError, Options
from chatapp.generation.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing import Self

BLANKS = r" |\n[ \t]{0,32}"
"""White space allowed in JSON, limited because models have been seen to write it for ever."""
DEFINITIONS = "$defs", "definitions"
PLACE = re.compile(r"(?:at )?(\d+)\((\d+)\): (.*)")
"""How llguidance names a place in a grammar: line(column)."""
QUIET = LLParserLimits(verbose_errors=False)
ENDED = "NoExtension"
"""The beginning of the matcher's error when nothing may follow."""
IMPOSSIBLE = "Unsatisfiable"
EMPTY = "allows no text at all, so no answer is possible"


def check_grammar(options: Options) -> None:
    """Raise for an invalid schema, expression or grammar; the message names the place."""
    for name in GRAMMARS:
        if getattr(options, name):
            write_grammar(options, name)


def write_grammar(options: Options, name: str) -> str:
    """The grammar that one of the options GRAMMARS asks for, in llguidance's form."""
    value = getattr(options, name)
    if name in ("json_schema", "json_object"):
        try:
            return _write_schema(_read_schema(value) if name == "json_schema" else {"type": "object"})
        except RecursionError:
            raise OptionError("json_schema is nested too deeply; make it flatter", name) from None
    if name == "choice":
        return LLMatcher.grammar_from_lark(f"start: {' | '.join(json.dumps(one, ensure_ascii=False) for one in value)}")
    grammar = LLMatcher.grammar_from_regex(value) if name == "regex" else LLMatcher.grammar_from_lark(value)
    failed, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    if failed:
        described = _describe_regex(messages[0]) if name == "regex" else _describe(messages[0])
        raise OptionError(f"{name} {described}", name)
    return grammar


def _read_schema(text: str) -> Any:  # Any: JSON
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        message = f"json_schema is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        raise OptionError(message, "json_schema") from error


def _write_schema(schema: Any) -> str:  # Any: JSON
    if not isinstance(schema, (dict, bool)):
        raise OptionError(f"json_schema must be an object, true or false, not {json.dumps(schema)[:40]}", "json_schema")
    if schema is True:  # as an object, so that white space can be set
        schema = {}
    if wrong := check_schema(schema):
        if "recursion limit" in wrong:  # Python could read it, llguidance cannot
            raise RecursionError
        place, message = _find_place(schema, wrong)
        raise OptionError(f"json_schema at {place}: {message}", "json_schema")
    return LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults={"whitespace_pattern": BLANKS})


def write_rules(start: str, **schemas: dict[str, Any]) -> str:  # Any: JSON
    """A grammar with the rule `start`, which refers to JSON of these schemas by name."""
    lenient = {"x-guidance": {"whitespace_pattern": BLANKS, "lenient": True}}
    rules = [f"{name}: %json {json.dumps(schema | lenient)}" for name, schema in schemas.items()]
    return LLMatcher.grammar_from_lark("\n".join([f"start: {start}", r"BLANKS: /[ \n]{1,4}/", *rules]))


def check_schema(schema: dict[str, Any] | bool) -> str:  # Any: JSON
    """The error in a schema; "" if it is valid."""
    failed, messages = LLMatcher.validate_grammar_with_warnings(LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    return _join_lines(messages[0]).partition(" while processing ")[0] if failed else ""


def _find_place(schema: Any, message: str) -> tuple[str, str]:  # Any: JSON
    """The innermost part of a schema with the same error, as a JSON pointer, and the error."""
    known = {name: schema[name] for name in DEFINITIONS if isinstance(schema, dict) and name in schema}
    place, part, found = "#", schema, True
    while found:
        found = False
        for path, inner in _list_parts(part):
            whole = {**known, **inner} if isinstance(inner, dict) else inner
            wrong = check_schema(whole)
            if wrong == message or (wrong.startswith(IMPOSSIBLE) and message.startswith(IMPOSSIBLE)):
                place, part, message, found = f"{place}/{path}", inner, wrong, True
                break
    return place, message


def _list_parts(schema: Any) -> Iterator[tuple[str, Any]]:  # Any: JSON
    """The direct subschemas of a schema, with their places in it."""
    if not isinstance(schema, dict):
        return
    for name, value in schema.items():
        if isinstance(value, (dict, bool)) and name in ("items", "additionalProperties", "not", "if", "then", "else"):
            yield name, value
        elif isinstance(value, dict) and name in ("properties", "patternProperties", *DEFINITIONS):
            yield from ((f"{name}/{key}", inner) for key, inner in value.items() if isinstance(inner, (dict, bool)))
        elif isinstance(value, list) and name in ("anyOf", "oneOf", "allOf", "prefixItems"):
            yield from ((f"{name}/{place}", inner) for place, inner in enumerate(value))


def _describe(message: str) -> str:
    """The error in a Lark grammar, and its place."""
    first = message.partition("\n")[0] or message
    found = PLACE.match(first)
    return f"is wrong at line {found[1]}, column {found[2]}: {found[3]}" if found else f"is wrong: {first}"


def _describe_regex(message: str) -> str:
    """The error in a regular expression, and its place."""
    error = re.search(r"^error: (.*)$", message, re.MULTILINE)
    caret = re.search(r"^    ( *)\^", message, re.MULTILINE)
    if error and caret:
        return f"is wrong at character {len(caret[1]) + 1}: {error[1]}"
    return _describe(message)


def _join_lines(message: str) -> str:
    return " ".join(message.split())


class Vocabulary:
    """A model's tokens as grammars see them: the bytes that each stands for."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int):
        """For logits of `vocab_size`; raises if the tokenizer's tokens are not bytes."""
        if not tokenizer.spells_bytes:
            raise GenerationError(
                "this model's tokenizer puts words together by rules of its own, so that its tokens stand for no "
                f"bytes, which {', '.join(GRAMMARS)} need; leave these out, or choose another model"
            )
        self.tokenizer, self.size = tokenizer, vocab_size
        self.eos_token_id, self.bos_token_id = vocab_size, None
        """An extra token ends the text, for models that have no such token."""
        self.tokens = [*map(tokenizer.content, range(vocab_size)), b""]
        self.special_token_ids = [token for token, content in enumerate(self.tokens) if not content]
        ends = [vocab_size, *(token for token in sorted(tokenizer.eos) if token < vocab_size)]
        asked = copy(self)  # a cycle through llguidance would never be freed
        self.tokens_of_text = LLTokenizer(TokenizerWrapper(asked), n_vocab=vocab_size + 1, eos_token=ends)

    def __call__(self, text: str | bytes) -> list[int]:
        """Encode a text within a reply, for llguidance."""
        return self.tokenizer.encode_behind(text if isinstance(text, str) else text.decode())


class Grammar:
    """Constrains a reply to a grammar."""

    def __init__(self, vocabulary: Vocabulary, grammar: str, name: str):
        """`name` is the option that asks for it; raises if the grammar allows nothing."""
        self.vocabulary, self.grammar, self.name = vocabulary, grammar, name
        self.matcher = LLMatcher(vocabulary.tokens_of_text, grammar, log_level=0, limits=QUIET)
        self.consumed: list[int] = []
        """The reply's tokens that the matcher has seen."""
        self.spelt: Sequence[int] | None = None
        """The tokens that must follow; None before they were asked for."""
        possible = self._mask()
        possible[vocabulary.special_token_ids] = False
        self._check()
        if not possible.any() or not self.matcher.deep_copy().try_consume_tokens([int(possible.argmax())]):
            raise OptionError(f"{name} {EMPTY}", name)

    def allowed(self, tokens: Sequence[int]) -> np.ndarray:
        """The tokens that may follow, (vocab,) bool; OptionError if the vocabulary has none."""
        if not self._move(tokens):
            raise OptionError(f"{self.name} does not allow the answer's beginning; start a new answer", self.name)
        mask = self._mask()
        self._check()
        if not mask[:-1].any():
            raise OptionError(f"{self.name} needs text that no token of this model can write; change it", self.name)
        return mask[:-1]

    def forced(self, tokens: Sequence[int]) -> Sequence[int]:
        """The tokens that must follow: if only one text is possible, as the tokenizer spells it."""
        if not self._move(tokens):
            return ()
        if self.spelt is None:
            found = self.matcher.compute_ff_tokens()
            self.spelt = found if found and self.matcher.validate_tokens(found) == len(found) else ()
        return self.spelt

    def ends(self, tokens: Sequence[int]) -> bool:
        """Whether nothing may follow; true also after what the grammar does not allow."""
        return not self._move(tokens) or self.matcher.is_stopped()

    def copy(self) -> Self:
        """A copy for another continuation of the reply."""
        other = copy(self)
        other.matcher, other.consumed = self.matcher.deep_copy(), list(self.consumed)
        return other

    def takes(self, tokens: Sequence[int]) -> bool:
        """Whether these tokens may follow."""
        return self.matcher.validate_tokens(list(tokens)) == len(tokens)

    def fits(self, text: str) -> bool:
        """Whether a whole text fits the grammar."""
        matcher = LLMatcher(self.vocabulary.tokens_of_text, self.grammar, log_level=0)
        tokens = self.vocabulary.tokens_of_text.greedy_tokenize(text)
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    def _mask(self) -> np.ndarray:
        """The tokens that may follow, and in the last place whether the reply may end."""
        bits = np.frombuffer(self.matcher.compute_bitmask(), np.uint8)
        return np.unpackbits(bits, count=self.vocabulary.size + 1, bitorder="little").view(bool)

    def _move(self, tokens: Sequence[int]) -> bool:
        """Bring the matcher to exactly these tokens; False if the grammar does not allow them."""
        known = self.consumed
        if len(tokens) == len(known) and tokens == known:
            return True
        if tokens[: len(known)] != known:
            shared = count_shared(known, tokens)
            self.matcher.rollback(len(known) - shared)
            del known[shared:]
            self.spelt = None
        more = list(tokens[len(known) :])
        if not self.matcher.consume_tokens(more):
            return False
        known += more
        foreseen = self.spelt or ()
        self.spelt = (foreseen[len(more) :] or None) if list(foreseen[: len(more)]) == more else None
        return True

    def _check(self) -> None:
        """Raise if the matcher has failed."""
        error = self.matcher.get_error() if self.matcher.is_error() else ""
        if error and not error.startswith(ENDED):
            raise OptionError(f"{self.name}: {_join_lines(error)}", self.name)
