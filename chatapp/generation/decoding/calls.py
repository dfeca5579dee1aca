"""Lets what a model writes as a call of a function be one: behind the mark with which it begins one."""

from __future__ import annotations  # as in chatapp.text.child

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chatapp.generation.decoding.constraint import Constraint, Continued, Following, Lenient
from chatapp.generation.decoding.grammar import Grammar, Vocabulary, check_schema, write_rules
from chatapp.generation.options import Options
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.generation.text.tools import LENIENT, LONGEST, OPENERS, Function, describe_calls

if TYPE_CHECKING:
    import numpy as np

    from chatapp.generation.decoding.row import Row

NAME = "a call of a function"
BARE = '{"name": '
"""What Llama 3 begins a call with, which has no mark: it is the whole reply."""


class Calls(Following, Lenient):
    """The constraint of a reply that may call functions: free until a call begins, and again when that is whole."""

    def __init__(
        self, vocabulary: Vocabulary, opener: str, call: Grammar, thinking: str = "", names: Sequence[str] = ()
    ):
        """`opener` begins a call, and `call` says what it may be; the prompt may have opened the `thinking`.

        Of calls without a mark, `names` are those of the functions: JSON with another name is an answer.
        """
        self.vocabulary, self.opener, self.call, self.names = vocabulary, opener, call, names
        self.bare = re.compile(rf'[\s;]*(\{{\s*"name"\s*:\s*"(?:{"|".join(map(re.escape, names))})".*)', re.DOTALL)
        spelt = vocabulary.tokenizer.encode_template(opener)
        self.mark = spelt[0] if len(spelt) == 1 else None
        """The one token that begins a call, which may have no text."""
        super().__init__(vocabulary.tokenizer, thinking)

    def start(self) -> None:
        super().start()
        self.text = ""
        """The end of what was read, in which an opener may begin; the beginning, where calls have no mark."""
        self.begun: Constraint | None = None
        """What the call that was begun may be."""
        self.place = 0
        """Where in the reply its tokens begin."""

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        self.follow(tokens)
        return self.begun.allowed(tokens[self.place :]) if self.begun else None

    def forced(self, tokens: Sequence[int]) -> Sequence[int]:
        self.follow(tokens)
        return self.begun.forced(tokens[self.place :]) if self.begun else ()

    def copy(self) -> Calls:
        return Calls(self.vocabulary, self.opener, self.call.copy(), self.thinking, self.names)

    def take(self, place: int, tokens: Sequence[int]) -> None:
        token = tokens[place]
        if self.begun:
            if self.begun.ends(tokens[self.place : place + 1]):  # or the reply was begun with what is no call
                self.begun, self.text = None, ""
            return
        text = self.detokenizer.add(token)
        self.channels.add(text)
        if self.channels.is_thinking:
            return
        self.text += text
        found = self._find()
        if found is not None or token == self.mark:
            begun = self.vocabulary(found) if found and found.strip() else []
            if self.call.takes(begun):
                self.begun, self.place = Continued(self.call.copy(), begun), place + 1
            else:  # a token says more than the mark, or the call is of another form: neither is looked at again
                self.text = (found or "").removeprefix("{")
        self.text = self.text[:LONGEST] if self.names else self.text[-len(self.opener) :]

    def _find(self) -> str | None:
        """What is written of a call already; None where none has begun."""
        if self.names:
            found = self.bare.match(self.text)
            return found[1] if found else None
        _, opened, rest = self.text.partition(self.opener)
        return rest if opened else None


def constrain_calls(
    rows: Sequence[Row], vocabulary: Vocabulary, source: str, tools: Sequence[str], thinking: str, begun: Sequence[int]
) -> None:
    """Let the calls in replies be what their schemas say, where a template, whose `source` this is, shows them in JSON.

    `tools` are in JSON, as options have them.
    """
    functions, opener = [read_function(json.loads(one)) for one in tools], find_opener(source)
    if not opener:
        return
    names = [one.name for one in functions] if opener == BARE else ()
    call = Grammar(vocabulary, write_rules("BLANKS? call", call=describe_behind(opener, functions)), NAME)
    for row in rows:
        calls = Calls(vocabulary, opener, call.copy(), thinking, names)
        row.constraint = Continued(calls, begun) if begun else calls


def describe_behind(opener: str, functions: Sequence[Function]) -> dict[str, Any]:  # Any: JSON
    """The schema of what stands behind the opener of calls."""
    schema = describe_calls(functions, "parameters" if opener == BARE else "arguments")
    return {"type": "array", "items": schema, "minItems": 1} if opener == "[TOOL_CALLS]" else schema


def write_answer_or_calls(tokenizer: Tokenizer, source: str, options: Options) -> str:
    """The grammar of a reply that is JSON as the options want it, or calls as the template shows them.

    Where these are no JSON, anything may follow their mark.
    """
    functions, opener = [read_function(json.loads(one)) for one in options.tools], find_opener(source)
    answer = json.loads(options.json_schema) if options.json_schema else {"type": "object"}

    def mark(text: str) -> str:
        spelt = tokenizer.encode_template(text)
        return f"({json.dumps(text)} | <[{spelt[0]}]>)" if len(spelt) == 1 else json.dumps(text)

    calls = "call" if opener in ("", BARE) else f"{mark(opener)} BLANKS? call"
    if opener == "<tool_call>":
        calls = f"({calls} BLANKS? {mark('</tool_call>')} BLANKS?)+"
    elif not opener and (own := next((one for one in OPENERS if one in source), "")):
        calls = f"call | {mark(own)} <[*]>*"
    return write_rules(f"answer | {calls}", answer=answer, call=describe_behind(opener, functions))


def find_opener(source: str) -> str:
    """What a template begins a call in JSON with, a mark or none; empty where it shows none, or in another form."""
    if "<function=" in source or "[ARGS]" in source:
        return ""
    shown = next((mark for mark in ("<tool_call>", "[TOOL_CALLS]") if mark in source), "")
    return shown or (BARE if BARE in source and '"parameters": ' in source else "")


def read_function(tool: dict[str, Any]) -> Function:  # Any: JSON
    """A function of the options; one whose schema no grammar can be made of takes any object."""
    told = tool["function"]
    parameters = told.get("parameters")
    usable = isinstance(parameters, dict) and not check_schema(parameters | LENIENT)
    return Function(told["name"], None, parameters if usable else {"type": "object"})
