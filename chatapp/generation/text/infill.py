"""Prefix and suffix in, fill-in-the-middle prompt out."""

from dataclasses import dataclass
from typing import Literal

from chatapp.generation.errors import GenerationError
from chatapp.generation.text.tokenizer import Tokenizer

MAX_TOKENS = 64
"""How much is filled in when the options do not say."""
SPELLINGS = (
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)
"""StarCoder, SantaCoder, Qwen, CodeLlama, DeepSeek."""
ENDS = (
    "<|endoftext|>",
    "<fim_pad>",
    "<fim-pad>",
    "<|fim_pad|>",
    "<file_sep>",
    "<|file_sep|>",
    "<|repo_name|>",
    "▁<EOT>",
)
"""Other tokens after which nothing belongs to the middle."""
SHORTEST = 4
"""Characters of a line that are no mere bracket: what stands behind the gap and may as well stand in it."""
SENTINELS = 100
"""Gaps that T5 tells apart."""
CHARACTERS_PER_TOKEN = 8
"""More than a token of code spells on average: what is farther away cannot fit the context."""


@dataclass(frozen=True)
class Infill:
    """How a model wants a gap to be presented."""

    prefix: int
    suffix: int
    middle: int
    order: Literal["psm", "spm"]
    """What comes first: prefix, suffix, middle; or suffix, prefix, middle."""
    end: frozenset[int]
    """Tokens that end the middle."""

    def prompt(self, tokenizer: Tokenizer, prefix: str, suffix: str, room: int) -> list[int]:
        """The prompt, of at most `room` tokens: of the text, what is farthest from the gap is left out."""
        before, after = trim(tokenizer, prefix, suffix, room - len(tokenizer.start) - 3)
        if self.order == "spm":
            return [*tokenizer.start, self.prefix, self.suffix, *after, self.middle, *before]
        return [*tokenizer.start, self.prefix, *before, self.suffix, *after, self.middle]

    def first(self, tokenizer: Tokenizer, prompt: list[int]) -> list[int]:
        """What may take the place of the prompt's last token; nothing where it stays.

        A prefix that ends within a word ends with tokens that are rare there: the last one is chosen again.
        """
        return tokenizer.beginning_with(prompt[-1]) if self.order == "spm" else []


@dataclass(frozen=True)
class Gap:
    """How an encoder-decoder wants a gap to be presented: as a token in its place, which the answer begins with."""

    sentinel: int
    end: frozenset[int]
    """Tokens that end the middle: the next gap's, which is not there, among them."""

    def prompt(self, tokenizer: Tokenizer, prefix: str, suffix: str, room: int) -> list[int]:
        """The prompt, of at most `room` tokens: of the text, what is farthest from the gap is left out."""
        before, after = trim(tokenizer, prefix, suffix, room - len(tokenizer.start) - len(tokenizer.finish) - 1)
        return [*tokenizer.start, *before, self.sentinel, *after, *tokenizer.finish]

    def first(self, tokenizer: Tokenizer, prompt: list[int]) -> list[int]:
        """Nothing: the answer does not go on with the prefix."""
        return []


def line_behind(suffix: str) -> list[str]:
    """The stop string of a gap that ends its line: the next line that says something, with the line break before it."""
    rest, _, behind = suffix.partition("\n")
    line = next((line.rstrip() for line in behind.splitlines() if line.strip()), "")
    return [f"\n{line}"] if not rest.strip() and len(line.strip()) >= SHORTEST else []


def find(tokenizer: Tokenizer) -> Infill | None:
    """How this tokenizer's model infills; None if it cannot."""
    for spelling in SPELLINGS:
        prefix, suffix, middle = map(tokenizer.token_id, spelling)
        if prefix is not None and suffix is not None and middle is not None:
            break
    else:
        return None
    order = tokenizer.config.get("fim_order", "psm")
    if order not in ("psm", "spm"):
        raise GenerationError(f"tokenizer_config.json says fim_order {order!r}; known are psm and spm")
    ends = {token for text in ENDS if (token := tokenizer.token_id(text)) is not None}
    return Infill(prefix, suffix, middle, order, tokenizer.eos | ends | {prefix, suffix, middle})


def find_gap(tokenizer: Tokenizer) -> Gap | None:
    """How this tokenizer's encoder-decoder infills (T5, CodeT5); None if it cannot."""
    sentinels = [token for i in range(SENTINELS) if (token := tokenizer.token_id(f"<extra_id_{i}>")) is not None]
    return Gap(sentinels[0], tokenizer.eos.union(sentinels[1:])) if len(sentinels) > 1 else None


def trim(tokenizer: Tokenizer, prefix: str, suffix: str, room: int) -> tuple[list[int], list[int]]:
    """Tokens of both texts that fit: about three quarters for the prefix, which then begins with a whole line."""
    if room < 2:
        raise GenerationError("this model's context is too short to infill")
    near = room * CHARACTERS_PER_TOKEN
    shortened = prefix[-near:]
    before, after = tokenizer.encode(shortened), tokenizer.encode(suffix[:near])
    share = max(room * 3 // 4, room - len(after))
    if len(before) > share or shortened != prefix:
        kept = shortened[-len(tokenizer.decode(before[-share:])) :]
        line = kept.find("\n") + 1
        before = tokenizer.encode(kept[line:] or kept)[-share:]
    return before, after[: room - len(before)]
