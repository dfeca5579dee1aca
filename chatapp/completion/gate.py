"""Judge a text for a place: whether it parses there, repeats what follows, or uses unknown names."""

import builtins
import re
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chatapp.completion.place import Place
from chatapp.completion.syntax import STRING, Syntax, follow_brackets, list_keywords, load_grammar, name_language

NAME = re.compile(r"[^\W\d]\w*")
COMMENT = re.compile(r"#.*|//.*")
DEFINED = re.compile(
    r"(?:\b(?:def|class|import|as|for|fn|func|function|struct|enum|trait|interface|type|let|mut|var|const|package|mod)\s+"
    r"(?P<named>[^\W\d]\w*))|(?P<assigned>[^\W\d]\w*)(?=\s*(?:,\s*[^\W\d]\w*\s*)*(?::[^=,()]*)?(?::=|=)(?!=))"
)
"""Names that a line defines, which need not be known."""
KEY = re.compile(r"(?<![\w$.])([^\W\d]\w*)\??:(?!:)")
"""Names of properties in JavaScript objects and types, like Python's keyword arguments."""
SAID = 4
"""Least letters and digits of a line whose repetition is no accident."""
LINES = 200
"""Lines before the place that are searched for brackets that a line closes."""
LONGEST_LINE = 2_000
"""Characters of the line before and after the place that are considered: generated files have endless lines."""
PROSE = frozenset((".md", ".markdown", ".rst", ".txt", ".adoc", ".tex", ".html", ".htm", ""))
"""Endings of files in which quotes and brackets are no pairs."""
BUILTINS = {
    "python": "self cls args kwargs "
    + " ".join(name for kind in (builtins, str, bytes, list, dict, set, int, float, Path) for name in dir(kind)),
    "javascript": """
        console log warn error Math JSON parse stringify Object keys values entries Array Promise String Number Boolean
        Map Set WeakMap WeakSet Date RegExp Error TypeError RangeError Symbol BigInt Proxy Reflect Intl ArrayBuffer
        Uint8Array Float32Array Function globalThis document window process env Buffer module exports require undefined
        NaN Infinity constructor prototype arguments name message cause length size then map filter forEach reduce push
        pop shift unshift slice splice split join concat includes indexOf lastIndexOf find findIndex findLast some every
        sort reverse flat flatMap fill at from of isArray resolve reject all allSettled race any has get set add delete
        clear apply call bind next done value iterator asyncIterator toString toJSON valueOf hasOwnProperty hasOwn
        assign create freeze defineProperty getPrototypeOf setPrototypeOf getOwnPropertyNames fromEntries replace
        replaceAll match matchAll test exec trim trimStart trimEnd padStart padEnd repeat startsWith endsWith charAt
        charCodeAt codePointAt fromCharCode substring toLowerCase toUpperCase localeCompare toFixed parseInt parseFloat
        isNaN isFinite isInteger abs ceil floor round max min pow sqrt random trunc sign now getTime toISOString
        setTimeout clearTimeout setInterval clearInterval queueMicrotask structuredClone fetch json text URL
        URLSearchParams Headers Request Response FormData Blob File AbortController AbortSignal signal abort aborted
        TextEncoder TextDecoder encode decode encodeURIComponent decodeURIComponent addEventListener
        removeEventListener dispatchEvent preventDefault stopPropagation Event EventTarget target currentTarget
        HTMLElement Element Node querySelector querySelectorAll getElementById createElement appendChild className
        children style Partial Required Readonly Record Pick Omit Exclude Extract NonNullable ReturnType Parameters
        InstanceType Awaited PromiseLike ArrayLike ReadonlyArray Iterable Iterator AsyncIterable Generator""",
    "java": """
        String Object Integer Long Double Boolean System out println Math List Map Set ArrayList HashMap HashSet Arrays
        Collections Optional Exception RuntimeException Override args length size get put add equals hashCode""",
    "c": """
        NULL size_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t bool true false printf fprintf
        stderr stdout malloc calloc realloc free memcpy memset strlen strcmp strncmp include stdio stdlib string std""",
    "go": """
        fmt err error nil true false string int int64 float64 bool byte rune any len cap make new append copy delete
        panic recover Println Printf Errorf Sprintf Error String strings os io context""",
    "rust": """
        String str Vec Option Some None Result Ok Err Box Rc Arc Self u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64
        bool char println print vec format new len iter map collect unwrap clone into from std""",
}
"""A language's built-in names, apart from the keywords of its grammar."""


@dataclass(frozen=True)
class Verdict:
    """The faults of a text."""

    reason: str = ""
    """Why it must not be shown unasked; "" if it may be."""
    unknown: tuple[str, ...] = ()
    """Names in it that occur nowhere in reach."""


class Gate:
    """Judges texts for one place after another, keeping what consecutive places have in common."""

    def __init__(self) -> None:
        self._syntax, self._lock = Syntax(), threading.Lock()

    def judge(self, place: Place, text: str) -> Verdict:
        """The faults of a text at a place."""
        begun, rest, before, behind = split_lines(place)
        unknown = tuple(find_unknown(place, begun, text))
        if reason := find_repetition(text, begun, rest, behind):
            return Verdict(reason, unknown)
        line = begun + text + rest
        if load_grammar(place.ending) is None:
            return Verdict("" if place.ending in PROSE else find_imbalance(before, line), unknown)
        with self._lock:
            parses = self._syntax.parses(place.ending, before, line, behind)
        return Verdict("" if parses else "it does not parse at this position", unknown)


def split_lines(place: Place) -> tuple[str, str, str, str]:
    """Split at a place: its line before and after it, and the whole lines before and after that."""
    before, newline, begun = place.prefix.rpartition("\n")
    rest, _, behind = place.suffix.partition("\n")
    return begun[-LONGEST_LINE:], rest[:LONGEST_LINE], before + newline, behind


def find_repetition(text: str, begun: str, rest: str, behind: str) -> str:
    """How a text repeats what follows; "" if it does not."""
    if says_something(rest) and (text.rstrip().endswith(rest.strip()) or text.strip().startswith(rest.strip())):
        return "it repeats the rest of the line"
    following = next((line.strip() for line in behind.splitlines() if line.strip()), "")
    lines = [line.strip() for line in (begun + text + rest).split("\n")]
    if says_something(following) and following in lines:
        return "it repeats the next line"
    return ""


def says_something(text: str) -> bool:
    """Whether a text is more than brackets and short words, which may well occur twice."""
    return sum(letter.isalnum() for letter in text) >= SAID


def find_imbalance(before: str, line: str) -> str:
    """The unmatched brackets or quotes of a line, for languages without a grammar; "" if all match."""
    bare = STRING.sub("", line)
    if bare.count('"') % 2:
        return "its quotes do not match (no grammar for this language)"
    opened = [letter for near in before[-LINES * 100 :].split("\n")[-LINES:] for letter in STRING.sub("", near)]
    stack = list[str]()
    follow_brackets(stack, opened)
    if not follow_brackets(stack, bare):
        return "its brackets do not match (no grammar for this language)"
    return ""


def find_unknown(place: Place, begun: str, text: str) -> list[str]:
    """The names in a text that occur nowhere: not in the file, open files, the folder or the language."""
    word = re.search(r"\w*\Z", begun)
    start = word.start() if word else len(begun)
    bare = COMMENT.sub("", STRING.sub('""', begun[start:] + text))
    given = {match["named"] or match["assigned"] for match in DEFINED.finditer(f"{begun[:start]}{bare}")}
    given.update(KEY.findall(f"{begun[:start]}{bare}") if name_language(place.ending) == "javascript" else ())
    before, after = place.prefix[: len(place.prefix) - len(begun) + start], place.suffix
    texts = [before, after, *(file.text for file in place.open_files)]
    own = list_own(place.ending)
    return [
        name
        for name in dict.fromkeys(NAME.findall(bare))
        if len(name) > 1
        and name not in given
        and name not in own
        and not any(stands_in(name, each) for each in texts)
        and not (place.folder and place.folder.knows(name))
    ]


@cache
def list_own(suffix: str) -> frozenset[str]:
    """A language's own names."""
    return list_keywords(suffix) | frozenset(BUILTINS.get(name_language(suffix), "").split())


def stands_in(name: str, text: str) -> bool:
    """Whether a name occurs in a text as a whole word."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        if not is_word(text[start - 1 : start]) and not is_word(text[end : end + 1]):
            return True
        start = text.find(name, end)
    return False


def is_word(letter: str) -> bool:
    """Whether a character, or "", continues a name."""
    return letter.isalnum() or letter == "_"
