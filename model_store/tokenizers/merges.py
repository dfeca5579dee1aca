"""Read vocab.json and merges.txt, a byte-pair encoding, and check that they belong together."""

from pathlib import Path
from typing import Any

from model_store.errors import UnsupportedCheckpoint
from model_store.files import read_json, read_text

BYTE_PAIRS: dict[str, Any] = {
    "type": "BPE",
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": "",
    "end_of_word_suffix": "",
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}
"""A byte-pair model of a tokenizer.json, without vocabulary and merges."""


def byte_pair_encoding(folder: Path, *, suffix: str = "", unknown: str | None = None) -> dict[str, Any]:
    """The model of a tokenizer.json from the two files; `suffix` ends a word's last token."""
    vocabulary = read_vocabulary(folder / "vocab.json")
    merges = read_merges(folder / "merges.txt", vocabulary)
    own = {"unk_token": unknown, "end_of_word_suffix": suffix, "vocab": vocabulary, "merges": merges}
    return BYTE_PAIRS | own


def read_vocabulary(path: Path) -> dict[str, int]:
    """Tokens and their ids."""
    vocabulary = read_json(path)
    for token, number in vocabulary.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise UnsupportedCheckpoint(f"{path} gives the token {token!r} the id {number!r}; download it again")
    if not vocabulary or len(set(vocabulary.values())) != len(vocabulary):
        raise UnsupportedCheckpoint(f"{path} has no tokens, or two with the same id; download it again")
    return vocabulary


def read_merges(path: Path, vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """The merges, most urgent first; a third column, the frequency, is ignored."""
    try:
        lines = read_text(path).split("\n")  # not splitlines: other line ends are letters here
    except UnicodeDecodeError as error:
        raise UnsupportedCheckpoint(f"{path} is not UTF-8 text ({error}); download it again") from error
    merges = []
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\r")
        if not line or line.startswith("#version"):
            continue
        columns = line.split(" ")
        if len(columns) not in (2, 3):
            raise UnsupportedCheckpoint(f"line {number} of {path} is not a pair of tokens; download it again")
        first, second = columns[:2]
        for token in (first, second, first + second):
            if token not in vocabulary:
                raise UnsupportedCheckpoint(
                    f"line {number} of {path} needs the token {token!r}, which vocab.json lacks: "
                    "the two files do not belong together; download both again"
                )
        merges.append((first, second))
    return merges
