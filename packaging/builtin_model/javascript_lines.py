"""Lines of JavaScript and TypeScript: which are worth completing, which import, and what kind of statement they are."""

import re

MODIFIERS = r"(?:(?:export|default|declare|public|private|protected|static|abstract|override|readonly|async|get|set) )*"
CONTROL = r"(?:\} )?(?:else )?(?:if|for|while|switch|catch|with)\b"
VARIABLE = rf"{MODIFIERS}(?:const|let|var)\b"
NAMED = rf"{MODIFIERS}(?:function|class|interface|enum|namespace|module)\b(?! ?[(.=:?])"
TYPE = rf"{MODIFIERS}type [\w$]+(?:<.*>)? ?="
UNNAMED = rf"{MODIFIERS}function ?\*? ?\("
ARROW = rf"{VARIABLE} [\w$]+(?:: .+)? = (?:async )?(?:function\b|(?:<.*>)?\(.*\)(?:: .*)? =>|[\w$]+ =>)"
METHOD = rf"(?!{CONTROL}){MODIFIERS}(?:\*\s*)?[\w$#]+(?:<[^()]*>)?\([^()]*\)(?:: [^=]*)? ?\{{$"
SET = rf"{MODIFIERS}[\w.$\[\]'\"#!? ]+(?:: [^(=]+)? ?(?:\?\?|\|\||&&|>>>?|<<|\*\*|[-+*/%&|^])?=(?![=>])"
KINDS = {
    "definition": "|".join((NAMED, TYPE, UNNAMED, ARROW, METHOD)),
    "return": r"(return|yield)\b",
    "assignment": f"{VARIABLE}|{SET}",
    "call": rf"(?!{CONTROL}).*\(",
    "other": r"",
}
"""Kinds of statements, as those of Python: each what fits it and none before it."""
PROSE = re.compile(r"[A-Z][a-z]+ [a-z]+ |([a-z]+ ){3}[a-z]+")
WORDS = re.compile(rf"\A{MODIFIERS}(?:(?:return|throw|await|new|yield|const|typeof|extends|in|of) ?)*")
"""What code begins with that prose does not."""
IMPORT = re.compile(r"""import\b(?!\s*[(.])|.*\bfrom ['"]|.*\brequire\(""")


def is_code(text: str) -> bool:
    """Says whether a line is a statement worth completing: no import, comment, string, prose or lone brackets."""
    if not 12 <= len(text) <= 90 or not re.match(r"[\w$#({\[<}@.?:|&!+-]", text) or not re.search(r"\w.*[=(.:]", text):
        return False
    prose = PROSE.match(WORDS.sub("", text)) and "=" not in text
    return not prose and not IMPORT.match(text)


def is_import(text: str) -> bool:
    """Says whether a line imports something, or exports what another file has."""
    return 12 <= len(text) <= 90 and text[0] not in "/*" and IMPORT.match(text) is not None
