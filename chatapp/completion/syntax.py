"""Whether a line parses at a place: only its surroundings are parsed again for each line."""

import importlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tree_sitter import Language, Node, Parser, Tree

GRAMMARS = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), ("python", "language")),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), ("javascript", "language")),
    **dict.fromkeys((".ts", ".mts", ".cts"), ("typescript", "language_typescript")),
    ".tsx": ("typescript", "language_tsx"),
    ".c": ("c", "language"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"), ("cpp", "language")),
    ".go": ("go", "language"),
    ".java": ("java", "language"),
    ".rs": ("rust", "language"),
}
"""The wheel tree_sitter_NAME and the function for its grammar, by files' endings."""
WIDER = {"typescript": "javascript", "cpp": "c"}
"""Languages that include the names and the lines of another."""
LISTS = frozenset(
    (
        *("module", "program", "source_file", "translation_unit", "block", "statement_block", "compound_statement"),
        *("class_body", "interface_body", "declaration_list", "field_declaration_list", "constructor_body"),
    )
)
"""Nodes that are lists of children, which can be left out one by one."""
FAR = 80
"""Children of a list with at least this many bytes are left out, unless they are next to the place."""
DEPTH = 100
"""Depth of nodes that are looked into."""
REACH, STEP = 30_000, 10_000
"""Characters before and after a place that are parsed, and the steps by which that window moves."""
LONGEST = 20_000
"""Most bytes of surroundings parsed for each text; with more, no verdict is given."""
SOME = 2
"""Most errors in the surroundings themselves; with more, as with macros, no verdict is given."""
BODIES = {
    "python": (
        "\n{deeper}pass",
        "\n{deeper}pass\n{same}finally:\n{deeper}pass",
        "\n{deeper}case _: pass",
        ":\n{deeper}pass",
        "\n{same}def f(): pass",
    ),
    "java": (";", " {}", "\n{same}void f() {}", "\n{same}class F {}", " catch (E e) {}"),
    "javascript": (" {}", "\n{same}f() {}", " catch {}", ";", " from ''", " />", "\n{same}: 0"),
    "typescript": (" {}", "\n{same}f() {}", " catch {}", ";", " from ''", " />", "\n{same}: 0"),
    "c": (";", " {}", " {};", "\n{same}f();", "\n#endif"),
    "cpp": (";", " {}", " {};", "\n{same}class F {};", " catch (...) {}", "\n#endif"),
    "go": (" {}", "{}", " 0"),
    "rust": (" {}", ";", "\n{same}fn f() {}", ","),
}
"""Texts, apart from closing brackets, that may complete a line that only begins something."""
NEUTRAL = {"python": "pass"}
"""A statement that does nothing; in other languages a semicolon, or none."""
BRACKETS = {"(": ")", "[": "]", "{": "}"}
WAITS = tuple(",=+-*/%<>&|^!~?:([{.")
"""Line endings within brackets after which something must follow."""
STRING = re.compile(
    r'"""(?:\\.|(?!""").)*"""|(?<!")(?:"(?:\\.|[^"\\\n])+"|""(?!"))'
    r"|'''(?:\\.|(?!''').)*'''|(?<!')(?:'(?:\\.|[^'\\\n])+'|''(?!'))|`(?:\\.|[^`\\])*`",
    re.S,
)
HASH, SLASHES = (re.compile(f"{STRING.pattern}|{comment}", re.S) for comment in (r"#[^\n]*", r"//[^\n]*|/\*.*?\*/"))
"""Strings, and comments of Python or of the others."""
ENDS = {'"""': '"""', "'''": "'''", "`": "`", "/*": "*/"}
"""The ends of multi-line strings and comments, by their beginnings."""
CONDITION = re.compile(rb"^[ \t]*#[ \t]*(if|endif)", re.M)
"""The beginning and end of a conditional part of a C file."""
BEGINS = re.compile("|".join(map(re.escape, ENDS)))


def name_language(suffix: str) -> str:
    """The language for a file's ending, TypeScript as JavaScript and C++ as C; "" for others."""
    name, _ = GRAMMARS.get(suffix, ("", ""))
    return WIDER.get(name, name)


@cache
def load_grammar(suffix: str) -> Language | None:
    """The grammar for a file's ending; None if there is none here."""
    if suffix not in GRAMMARS:
        return None
    name, function = GRAMMARS[suffix]
    return Language(getattr(importlib.import_module(f"tree_sitter_{name}"), function)())


@cache
def list_keywords(suffix: str) -> frozenset[str]:
    """The keywords in a language's grammar."""
    grammar = load_grammar(suffix)
    kinds = (grammar.node_kind_for_id(i) or "" for i in range(grammar.node_kind_count)) if grammar else ()
    return frozenset(kind for kind in kinds if re.fullmatch(r"[A-Za-z_]\w*", kind))


@dataclass(frozen=True)
class Window:
    """What is parsed for a line: its surroundings, and its place in them."""

    language: str
    parser: Parser
    text: bytes
    place: int
    errors: int
    """The number of errors without the line."""
    closing: bool = False
    """Whether brackets or comments are open before the place, to be closed after the line."""


class Syntax:
    """The syntax of the edited file, updated as it changes."""

    def __init__(self) -> None:
        self._suffix = ""
        self._text = b""
        self._tree: Tree | None = None
        self._window: tuple[int, Window | None] = -1, None

    def parses(self, suffix: str, before: str, line: str, behind: str) -> bool:
        """Whether one or more lines at a place add no error, or only begin something.

        `before` ends with a line break, `behind` begins after one.
        """
        grammar = load_grammar(suffix)
        around = self._around(suffix, grammar, before, behind) if grammar else None
        if around is None:
            return True
        bodies, closers = BODIES[around.language], close(around.language, line)
        waits = (closers or around.closing) and line.rstrip()[-1:] in WAITS
        closed = ([line + closers] if closers else []) + ([f"{line}x{closers}"] if waits else [])
        return fits(around, line, () if closers else bodies) or any(fits(around, each, bodies) for each in closed)

    def _around(self, suffix: str, grammar: Language, before: str, behind: str) -> Window | None:
        """A line's surroundings, kept as long as the rest of the file is unchanged."""
        start = max(0, -(-(len(before) - REACH) // STEP) * STEP)
        start = before.find("\n", start - 1) + 1 if start else 0
        end = len(behind) - max(0, (len(behind) - REACH) // STEP * STEP)
        end = behind.rfind("\n", 0, end) + 1 if end < len(behind) else end
        head = before[start:].encode(errors="replace")
        text, place = head + behind[:end].encode(errors="replace"), len(head)
        if self._tree is None or suffix != self._suffix or text != self._text:
            self._parse(suffix, grammar, text)
        if place != self._window[0]:
            self._window = place, self._cut(suffix, grammar, place)
        return self._window[1]

    def _parse(self, suffix: str, grammar: Language, text: bytes) -> None:
        parser = Parser(grammar)
        old = self._tree if suffix == self._suffix else None
        if old:
            first, last = find_change(self._text, text)
            stop, new = len(self._text) - last, len(text) - last
            old.edit(first, stop, new, point(self._text, first), point(self._text, stop), point(text, new))
        self._tree = parser.parse(text, old) if old else parser.parse(text)
        self._suffix, self._text, self._window = suffix, text, (-1, None)

    def _cut(self, suffix: str, grammar: Language, place: int) -> Window | None:
        assert self._tree is not None
        kept, at, left = list[bytes](), 0, place
        for start, stop in sorted(find_far(self._tree.root_node, place)):
            kept.append(self._text[at:start])
            at = stop
            left -= stop - start if stop <= place else 0
        text = b"".join([*kept, self._text[at:]])
        if len(text) > LONGEST:
            return None
        language = GRAMMARS[suffix][0]
        neutral = measure_indentation(text[:left].decode(errors="replace")) + NEUTRAL.get(language, ";")
        around = Window(language, Parser(grammar), text, left, 0)
        errors = min((find_errors(around, line) for line in ("", neutral)), key=len)
        if errors:
            closing = replace(around, closing=True)
            fewer = min((find_errors(closing, line) for line in ("", neutral)), key=len)
            around, errors = (closing, fewer) if len(fewer) < len(errors) else (around, errors)
        first, last = len(text[:left].rstrip()), left + len(neutral) + 1
        if len(errors) > SOME or any(start <= last and first <= stop for start, stop in errors):
            return None
        return replace(around, errors=len(errors))


def measure_indentation(text: str) -> str:
    """The indentation of the last line with content."""
    line = next((line for line in reversed(text.split("\n")) if line.strip()), "")
    return line[: len(line) - len(line.lstrip())]


def find_change(old: bytes, new: bytes) -> tuple[int, int]:
    """The lengths of the common beginning of two texts, and of the common end of the rest."""
    shorter = min(len(old), len(new))
    first = bisect_left(range(1, shorter + 1), True, key=lambda n: old[:n] != new[:n])
    rest = range(1, shorter - first + 1)
    return first, bisect_left(rest, True, key=lambda n: old[len(old) - n :] != new[len(new) - n :])


def point(text: bytes, place: int) -> tuple[int, int]:
    """The row and column, in bytes, of a place."""
    return text.count(b"\n", 0, place), place - text.rfind(b"\n", 0, place) - 1


def find_far(node: Node, place: int, depth: int = DEPTH) -> Iterator[tuple[int, int]]:
    """The parts of a text (from, to) that can be left out: children of lists that are not next to the place.

    None is left out on a side with errors, where a string may begin by mistake.
    """
    children = [child for child in node.children if child.is_named]
    index = sum(child.start_byte < place for child in children)
    clean_before = not any(child.has_error for child in children[: max(0, index - 1)])
    clean_behind = not any(child.has_error for child in children[max(0, index - 1) :])
    for i, child in enumerate(children):
        far = i < index - 1 and clean_before or i > index and clean_behind
        if child.end_byte - child.start_byte <= FAR or not depth:
            continue
        if node.type in LISTS and far:
            yield child.start_byte, children[i + 1].start_byte if i + 1 < len(children) else child.end_byte
        elif node.type in LISTS or child.start_byte <= place <= child.end_byte:
            yield from find_far(child, place, depth - 1)


def find_errors(around: Window, line: str) -> list[tuple[int, int]]:
    """Where the surroundings have errors (from, to) with a line in its place."""
    before, behind = around.text[: around.place], around.text[around.place :]
    added = (line + "\n").encode(errors="replace") if line else b""
    if around.closing:
        begun = (before + added).decode(errors="replace")
        closers = close(around.language, begun, behind.decode(errors="replace"))
        if around.language == "cpp" and not closers.strip("}"):
            closers = closers.replace("}", "};")  # classes need it, and nothing else minds
        added += f"{closers}\n".encode()
        conditions = CONDITION.findall(before + added + behind) if around.language in ("c", "cpp") else []
        behind += b"\n#endif\n" * (len(conditions) - 2 * conditions.count(b"endif"))
    tree = around.parser.parse(before + added + behind)
    found, nodes = list[tuple[int, int]](), [tree.root_node]
    while nodes:
        node = nodes.pop()
        if node.is_error or node.is_missing:
            found.append((node.start_byte, node.end_byte))
        elif node.has_error:
            nodes += node.children
    return found


def fits(around: Window, line: str, bodies: Sequence[str]) -> bool:
    """Whether a line adds no error, or one at its end that one of the bodies mends."""
    same = line[: len(line) - len(line.lstrip())]
    for body in ("", *bodies):
        whole = line + body.replace("{same}", same).replace("{deeper}", same + "    ")
        errors, end = find_errors(around, whole), around.place + len(whole.encode(errors="replace"))
        added = [(start, stop) for start, stop in errors if start <= end and around.place < stop]
        if not added and len(errors) <= around.errors:
            return True
        if not body and not any(stop >= end for _, stop in errors):
            return False
    return False


def follow_brackets(stack: list[str], letters: Iterable[str]) -> bool:
    """Maintain the stack of closing brackets needed; returns False for one that was not open."""
    right = True
    for letter in letters:
        if letter in BRACKETS:
            stack.append(BRACKETS[letter])
        elif stack and letter == stack[-1]:
            stack.pop()
        elif letter in BRACKETS.values():
            right = False
    return right


def close(language: str, text: str, behind: str = "") -> str:
    """What closes strings, comments and brackets that are open after a text, and not closed in `behind`."""
    own = HASH if language == "python" else SLASHES
    bare = own.sub("", text)
    begun = BEGINS.search(bare)
    if begun and ENDS[begun[0]] in behind:
        return ""
    stack = list[str]()
    follow_brackets(stack, bare[: begun.start()] if begun else bare)
    left = len(stack)
    for letter in own.sub("", behind):
        if letter in BRACKETS:
            stack.append(BRACKETS[letter])
        elif stack and letter == stack[-1]:
            stack.pop()
            left = min(left, len(stack))
    return (ENDS[begun[0]] if begun else "") + "".join(reversed(stack[:left]))
