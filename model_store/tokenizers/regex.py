"""Refuse regular expressions that could search for ever, and compute the shortest match of others.

Oniguruma, which tokenizers uses, tries every way to match a text, and panics after ten million. There are too many if a
repetition repeats something of varying length, such as (a+)+, and if repetitions, or many choices, follow each other
before something that may be missing, such as .*.*x.
"""

import re
from dataclasses import dataclass, replace

LONGEST = 20_000
"""Most characters of an expression, also with its counts expanded."""
IN_A_ROW = 2
"""Most unbounded repetitions in a row, if nothing optional follows."""
WAYS = 200
"""Most ways to match the other parts of an expression in a row."""
FEW = 100
"""Repetitions up to this many count as bounded."""
LINEAR = (r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",)
"""EXAONE's expression, which nests repetitions but can be matched in one way only."""
COUNT = re.compile(r"\{(\d{0,9})(,?)(\d{0,9})\}")
FLAGS = re.compile(r"[imsWDSPa-]*")
PROPERTY = re.compile(r"\{\^?\w+\}")
CODE = re.compile(r"x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{4}|0[0-7]{0,2}")


@dataclass(frozen=True)
class Extent:
    """What a part of an expression can match."""

    least: int
    """Bytes."""
    repetitions: int = 0
    """Unbounded repetitions in a row."""
    size: int = 1
    """Number of parts, with counts expanded."""
    fixed: bool = True
    """Whether it has a fixed length, and matches in one way only."""
    ways: int = 1
    """The number of ways it can match at one place, repetitions aside."""
    asserts: bool = False
    """Whether it contains an assertion about its surroundings, which may fail."""


def check(pattern: str) -> int:
    """The fewest bytes that an expression matches; ValueError if a search could take too long."""
    for linear in LINEAR:
        pattern = pattern.replace(linear, r"\p{L}+")
    if len(pattern) > LONGEST:
        raise ValueError(f"it has a regular expression of {len(pattern):,} characters")
    reader = Reader(pattern)
    found = reader.alternatives(0)
    if reader.place < len(pattern):
        raise reader.refusal("it has one parenthesis too many")
    return found.least


class Reader:
    """Parses an expression, once."""

    def __init__(self, pattern: str):
        self.pattern, self.place = pattern, 0

    def alternatives(self, depth: int) -> Extent:
        """Everything up to the end, or a closing parenthesis."""
        if depth > 50:
            raise self.refusal("it nests too many groups")
        found = [self.sequence(depth)]
        while self.take("|"):
            found.append(self.sequence(depth))
        if len(found) == 1:
            return found[0]
        return Extent(
            min(one.least for one in found),
            max(one.repetitions for one in found),
            self.bounded(sum(one.size for one in found)),
            fixed=False,
            ways=sum(one.ways for one in found),
            asserts=any(one.asserts for one in found),
        )

    def sequence(self, depth: int) -> Extent:
        """Consecutive parts."""
        found = Extent(0)
        while self.place < len(self.pattern) and self.pattern[self.place] not in "|)":
            part = self.repeated(self.atom(depth))
            may_be_missing = not part.repetitions and (part.least or part.asserts)
            if found.repetitions + part.repetitions + bool(may_be_missing and found.repetitions > 1) > IN_A_ROW:
                raise self.refusal("what it repeats is followed by more, and there are too many ways to match that")
            found = Extent(
                found.least + part.least,
                found.repetitions + part.repetitions,
                self.bounded(found.size + part.size),
                fixed=found.fixed and part.fixed,
                ways=found.ways * part.ways,
                asserts=found.asserts or part.asserts,
            )
            if found.ways > WAYS:
                raise self.refusal("it leaves so many choices that there are too many ways to match it")
        return found

    def repeated(self, part: Extent) -> Extent:
        """A part with its quantifiers."""
        while self.place < len(self.pattern):
            if self.take("?"):
                part = Extent(0, part.repetitions, part.size, fixed=False, ways=part.ways + 1)
            elif self.take("*"):
                part = self.repetition(part, 0, None)
            elif self.take("+"):
                part = self.repetition(part, 1, None)
            elif (count := COUNT.match(self.pattern, self.place)) and (count[1] or count[3]):
                self.place = count.end()
                least = int(count[1] or 0)
                part = self.repetition(part, least, int(count[3]) if count[3] else None if count[2] else least)
                self.take("?")
                continue
            else:
                break
            if not self.take("?"):  # lazy
                self.take("+")  # possessive
        return part

    def repetition(self, part: Extent, least: int, most: int | None) -> Extent:
        if most is not None and most <= FEW:
            if not part.fixed and most > 4:
                raise self.refusal("what it repeats varies, and there are too many ways to match that")
            size, fixed = self.bounded(part.size * max(most, 1)), part.fixed and least == most
            ways = 1 if fixed else sum(part.ways**times for times in range(least, most + 1))
            return Extent(part.least * least, part.repetitions * most, size, fixed, ways=ways, asserts=part.asserts)
        if not part.fixed or part.repetitions or not part.least:
            raise self.refusal("what it repeats varies, and there are too many ways to match that")
        return Extent(part.least * least, 1, self.bounded(part.size * max(least, 1, most or 1)), fixed=False)

    def atom(self, depth: int) -> Extent:
        """A character, a class of characters, a group or an assertion."""
        if self.take("("):
            return self.group(depth)
        if self.take("["):
            return self.bracket()
        if self.take("\\"):
            return self.escape()
        letter = self.pattern[self.place]
        self.place += 1
        return Extent(0, asserts=True) if letter in "^$" else Extent(1 if letter == "." else len(letter.encode()))

    def group(self, depth: int) -> Extent:
        asserts = False
        if self.take("?"):
            asserts = any(self.take(sign) for sign in ("=", "!", "<=", "<!"))
            if not asserts and not self.take(">"):
                flags = FLAGS.match(self.pattern, self.place)
                self.place = flags.end() if flags else self.place
                if self.take(")"):
                    return Extent(0)
                if not self.take(":"):
                    raise self.refusal("it has a group of an unknown kind")
        inner = self.alternatives(depth + 1)
        if not self.take(")"):
            raise self.refusal("a parenthesis is missing")
        return replace(inner, least=0, fixed=False, asserts=True) if asserts else inner

    def bracket(self) -> Extent:
        """A character class, perhaps nested; any of its characters may be the shortest."""
        self.take("^")
        self.take("]")  # as the first one it is a character
        depth = 1
        while depth:
            if self.place >= len(self.pattern):
                raise self.refusal("a bracket is missing")
            letter = self.pattern[self.place]
            self.place += 2 if letter == "\\" else 1
            depth += (letter == "[") - (letter == "]")
        return Extent(1)

    def escape(self) -> Extent:
        letter = self.pattern[self.place : self.place + 1]
        if not letter or letter in "123456789kgKXRQcCMyYNO":
            raise self.refusal(f"it has \\{letter}")
        code = CODE.match(self.pattern, self.place)
        self.place = code.end() if code else self.place + 1
        if letter in "pP" and (name := PROPERTY.match(self.pattern, self.place)):
            self.place = name.end()
        return Extent(0, asserts=True) if letter in "bBAZzG" else Extent(1)

    def take(self, sign: str) -> bool:
        """Consume `sign` if it comes next; returns whether it did."""
        found = self.pattern.startswith(sign, self.place)
        self.place += len(sign) if found else 0
        return found

    def bounded(self, size: int) -> int:
        if size > LONGEST:
            raise self.refusal("it counts to too great a number")
        return size

    def refusal(self, why: str) -> ValueError:
        short = self.pattern if len(self.pattern) < 60 else f"{self.pattern[:57]}..."
        return ValueError(f"the regular expression {short} cannot be used: {why}")
