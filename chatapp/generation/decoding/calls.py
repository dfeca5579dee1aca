"""Constrain function calls: what follows the mark that begins a call must be one."""

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
"""How Llama 3 begins a call, which has no mark and is the whole reply."""


class Calls(Following, Lenient):
    """The constraint of a reply that may call functions: free text until a call begins, and after it."""

    def __init__(
        self, vocabulary: Vocabulary, opener: str, call: Grammar, thinking: str = "", names: Sequence[str] = ()
    ):
        """`opener` begins a call, `call` is its grammar; the prompt may have opened the `thinking`.

        For calls without a mark, `names` are the functions': JSON with another name is an answer.
        """
        self.vocabulary, self.opener, self.call, self.names = vocabulary, opener, call, names
        self.bare = re.compile(rf'[\s;]*(\{{\s*"name"\s*:\s*"(?:{"|".join(map(re.escape, names))})".*)', re.DOTALL)
        spelt = vocabulary.tokenizer.encode_template(opener)
        self.mark = spelt[0] if len(spelt) == 1 else None
        """The single token that begins a call, if there is one; its text may be hidden."""
        super().__init__(vocabulary.tokenizer, thinking)

    def start(self) -> None:
        super().start()
        self.text = ""
        """The end of the text read so far, where an opener may begin; without marks, its beginning."""
        self.begun: Constraint | None = None
        """The grammar of the call that has begun."""
        self.place = 0
        """Where in the reply the call's tokens begin."""

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
            if self.begun.ends(tokens[self.place : place + 1]):  # or the reply began with what is no call
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
            else:  # a token says more than the mark, or the call has another form: ignore it from now on
                self.text = (found or "").removeprefix("{")
        self.text = self.text[:LONGEST] if self.names else self.text[-len(self.opener) :]

    def _find(self) -> str | None:
        """The beginning of a call in the text; None if there is none."""
        if self.names:
            found = self.bare.match(self.text)
            return found[1] if found else None
        _, opened, rest = self.text.partition(self.opener)
        return rest if opened else None


def constrain_calls(
    rows: Sequence[Row], vocabulary: Vocabulary, source: str, tools: Sequence[str], thinking: str, begun: Sequence[int]
) -> None:
    """Constrain calls in replies to their schemas, if the template's `source` shows calls as JSON.

    `tools` are JSON, as in Options.
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
    """The schema of what follows the opener."""
    schema = describe_calls(functions, "parameters" if opener == BARE else "arguments")
    return {"type": "array", "items": schema, "minItems": 1} if opener == "[TOOL_CALLS]" else schema


def write_answer_or_calls(tokenizer: Tokenizer, source: str, options: Options) -> str:
    """The grammar of a reply that is JSON as the options want it, or calls as the template shows them.

    Where calls are not JSON, anything may follow their mark.
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
    """What a template begins a call in JSON with, a mark or BARE; "" if it shows none, or another form."""
    if "<function=" in source or "[ARGS]" in source:
        return ""
    shown = next((mark for mark in ("<tool_call>", "[TOOL_CALLS]") if mark in source), "")
    return shown or (BARE if BARE in source and '"parameters": ' in source else "")


def read_function(tool: dict[str, Any]) -> Function:  # Any: JSON
    """Read a function of the options; if its schema makes no grammar, any object is accepted."""
    told = tool["function"]
    parameters = told.get("parameters")
    usable = isinstance(parameters, dict) and not check_schema(parameters | LENIENT)
    return Function(told["name"], None, parameters if usable else {"type": "object"})
