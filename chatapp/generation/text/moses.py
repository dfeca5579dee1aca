"""BioGPT's tokenizer: split texts into the words of the Moses tokenizer, and join them again as they arrive.

The rules, for English, are those of sacremoses (MosesTokenizer with aggressive_dash_splits, and MosesDetokenizer), a
port of Moses' tokenizer.perl and detokenizer.perl.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

NEVER_LETTERS = "\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
"""Ideographs and Hangul, which Moses' list of letters lacks: each is a word."""
DIACRITICS = "\u0300-\u0344\u0346-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1de6\u1df5-\u1dff\u20d0-\u20ff"
DIACRITICS += "\u302a-\u302f\u3099\u309a\ufe00-\ufe2f"
"""Diacritics that are not letters; those of Indic scripts are."""
CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\ua840-\ua87f\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff65-\uffdc"
    "\U00016fe0-\U00018aff\U0001b000-\U0001b12f\U0001b170-\U0001b2ff\U00020000-\U0002ffff]"
)

PREFIXES = """
    A B C D E F G H I J K L M N O P Q R S T U V W X Y Z Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con
    Corp Cpl DR Dr Drs Ens Gen Gov Hon Hr Hosp Insp Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph
    Prof Pvt Rep Reps Res Rev Rt Sen Sens Sfc Sgt Sr St Supt Surg v vs i.e rev e.g Rs Nos Nr
    Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec
"""
"""Abbreviations that keep their full stop."""
NUMERIC_PREFIXES = frozenset(("No", "Art", "pp"))
"""Abbreviations that keep it before a number only."""
ESCAPES = {"&": "&amp;", "|": "&#124;", "<": "&lt;", ">": "&gt;", "'": "&apos;", '"': "&quot;"}
ESCAPES |= {"[": "&#91;", "]": "&#93;"}
OLD_ESCAPES = (("&bar;", "|"), ("&bra;", "["), ("&ket;", "]"))
CURRENCIES = "$¢-¥֏؋৲৳৻૱௹฿៛₠-⃁꠸﷼﹩＄￠￡￥￦"
END = "</w>"
"""Ends the last token of a word."""
DASH = "@-@"
"""Moses' word for a dash within a word."""


def split_words(text: str) -> list[str]:
    """Split a text into Moses' words."""
    for pattern, replacement in compile_rules():
        text = pattern.sub(replacement, text)
    text = " ".join(split_stops(text.split()))
    text = re.sub(r"\.' ?$", " . ' ", text)
    return "".join(ESCAPES.get(character, character) for character in text).split()


@cache
def compile_rules() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The replacements, in order, before full stops are handled."""
    alpha, digits, numeric = list_letters(), list_class("Nd"), list_class("N")
    alnum = alpha + digits
    table = (
        (r"\s+", " "),
        (r"[\000-\037]", ""),
        (r"^ | $", ""),
        (rf"([^{alnum}\s.'`,\-])", r" \1 "),
        (rf"([{alnum}])-(?=[{alnum}])", rf"\1 {DASH} "),
        (r"(\.{2,})", r" \1 "),
        (rf"([^{numeric}]),", r"\1 , "),
        (rf",([^{numeric}])", r" , \1"),
        (rf"([{numeric}]),$", r"\1 , "),
        (rf"([^{alpha}])'([^{alpha}])", r"\1 ' \2"),
        (rf"([^{alpha}{numeric}])'([{alpha}])", r"\1 ' \2"),
        (rf"([{alpha}])'([^{alpha}])", r"\1 ' \2"),
        (rf"([{alpha}])'([{alpha}])", r"\1 '\2"),
        (rf"([{numeric}])'(s)", r"\1 '\2"),
    )
    return tuple((re.compile(pattern), replacement) for pattern, replacement in table)


@cache
def list_letters() -> str:
    """Moses' letters, as a character class; Unicode's first plane only."""
    no_letter = re.compile(f"[{NEVER_LETTERS}{DIACRITICS}]")
    return list_class("L", "Nl", "Mn", "Mc", without=no_letter) + "\u24b6-\u24e9"


@cache
def compile_contraction() -> re.Pattern[str]:
    """The regular expression of contractions such as 's and 't."""
    return re.compile(f"'[{list_letters()}]")


def list_class(*categories: str, without: re.Pattern[str] | None = None) -> str:
    """The characters of these Unicode categories, or prefixes of categories, as ranges."""
    found = [
        code
        for code in range(0x10000)
        if unicodedata.category(chr(code)).startswith(categories) and not (without and without.match(chr(code)))
    ]
    starts = [code for code, before in zip(found, [-1, *found], strict=False) if code != before + 1]
    ends = [code for code, after in zip(found, [*found[1:], -1], strict=True) if code != after - 1]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


def split_stops(found: list[str]) -> Iterator[str]:
    """Split off full stops that end a sentence."""
    prefixes = PREFIXES.split()
    for place, word in enumerate(found):
        following = found[place + 1] if place + 1 < len(found) else ""
        prefix = word.removesuffix(".")
        belongs = (
            ("." in prefix and any(character.isalpha() for character in prefix))
            or prefix in prefixes
            or following[:1].islower()
            or (prefix in NUMERIC_PREFIXES and re.match("[0-9]", following))
        )
        yield word if word == prefix or not prefix.strip(".") or belongs else f"{prefix} ."


def join_words(pieces: Iterable[str]) -> str:
    """Join tokens, each a part of a word; END marks a word's last part."""
    sentence = Sentence()
    return "".join(map(sentence.grow, pieces)) + sentence.finish()


class Sentence:
    """Joins Moses' words as they arrive; each is returned once it is certain that no dash follows."""

    def __init__(self) -> None:
        self.begun = ""
        """The parts of an incomplete word."""
        self.word = ""
        """The word before it, which a dash may still extend."""
        self.dashed = False
        """Whether that ends with a dash, so that the next word belongs to it."""
        self.before = ""
        """The last word returned."""
        self.tight = True
        """Whether no space follows it."""
        self.quotes: Counter[str] = Counter()

    def grow(self, piece: str) -> str:
        """Add a token; returns the text that is now certain."""
        self.begun += piece.removesuffix(END)
        told = "" if self.dashed or DASH.startswith(self.begun) else self.tell()
        if piece.endswith(END):
            told += self.add(self.begun)
            self.begun = ""
        return told

    def finish(self) -> str:
        """The rest at the end."""
        begun, self.begun = self.begun, ""
        return (self.add(begun) if begun else "") + self.tell()

    def add(self, word: str) -> str:
        """Add a whole word; returns the text that is now certain."""
        if word == DASH and not self.dashed:
            self.tight = self.tight or not self.word  # what it follows has been returned
            self.word += "-"
            self.dashed = True
            return ""
        if self.dashed:
            self.word += word
            self.dashed = False
            return ""
        told = self.tell()
        self.word = word
        return told

    def tell(self) -> str:
        """The word that was held back, with the space before it."""
        word, self.word, self.dashed = unescape(self.word), "", False
        if not word:
            return ""
        space, self.tight = "" if self.tight else " ", False
        if CJK.match(word):
            space = "" if CJK.match(self.before[-1:]) else space
        elif re.fullmatch(rf"[{CURRENCIES}(\[{{¿¡]+", word):
            self.tight = True
        elif re.fullmatch(r"[,.?!:;\\%}\])]+", word) or (self.before and compile_contraction().match(word)):
            space = ""
        elif re.fullmatch("['\"„“`]+", word):
            space = self.quote(word, space)
        self.before = word
        return space + word

    def quote(self, word: str, space: str) -> str:
        """The space before a quotation mark, opening or closing; an apostrophe after an s is neither."""
        mark = '"' if set(word) <= set("„“”") else word
        if self.quotes[mark] % 2:
            space = ""
        elif word == "'" and self.before.endswith("s"):
            return ""
        else:
            self.tight = True
        self.quotes[mark] += 1
        return space


def unescape(word: str) -> str:
    """Remove a word's escapes."""
    for escape, character in (*OLD_ESCAPES, *((escape, character) for character, escape in reversed(ESCAPES.items()))):
        word = word.replace(escape, character)
    return word
