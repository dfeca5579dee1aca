"""Fill-in-the-middle prompts in the forms that models were trained on."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from chatapp.generation.errors import GenerationError
from chatapp.generation.text.surroundings import Excerpt, Surroundings
from chatapp.generation.text.tokenizer import Tokenizer

MAX_TOKENS = 64
"""Tokens to fill in if the options do not say."""
ENDS = (
    "<|endoftext|>",
    "<fim_pad>",
    "<fim-pad>",
    "<|fim_pad|>",
    "<file_sep>",
    "<reponame>",
    "<|reponame|>",
    "<|filename|>",
    "▁<EOT>",
    "[MIDDLE]",
)
"""Further tokens that end the middle."""
FILE_STARTS = "<file_sep>", "<|file_sep|>", "<|file_separator|>"
"""The token before each file of a repository: StarCoder2, Qwen, CodeGemma."""
SHORTEST = 4
"""Shorter lines after a gap are mere brackets, which may occur in the gap too."""
WORD = re.compile(r" ?\w*\Z")
"""The part of a prefix that is generated again: the identifier at its end, with the space before."""
LONGEST = 64
"""Bytes of the longest identifier that is generated again as a whole; of a longer one, only its last token is."""
SENTINELS = 100
"""Sentinel tokens of T5."""
CHARACTERS_PER_TOKEN = 8
"""More than the characters of an average token of code: text farther away cannot fit the context."""
Encode = Callable[[str], list[int]]
PART = re.compile(r"(▁?<[^<>{}]+>|\[[A-Z]+\]|\{[a-z]+\})")
"""A token or a slot of a form; the rest is text."""


@dataclass(frozen=True)
class Form:
    """A prompt form: <so> and [SO] are tokens, {so} is a slot."""

    gap: str
    """The form for a single file."""
    placed: str = ""
    """The form for a file with a known path; "" if the models never saw paths."""
    file: str = ""
    """The form of every other file, in {files}; "" if the models never saw several."""

    def marks(self) -> set[str]:
        """The tokens in the form."""
        parts = PART.split(self.gap + self.placed + self.file)
        return {part for part in parts[1::2] if not part.startswith("{")}


STARCODER = "<fim_prefix>{prefix}<fim_suffix>{suffix}<fim_middle>"
PIPED = "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>"
MELLUM = Form(
    # https://huggingface.co/JetBrains/Mellum-4b-base, "Fill-in-the-middle with additional files as context"
    "<fim_suffix>{suffix}<fim_prefix>{prefix}<fim_middle>",
    "{files}<filename>{path}\n<fim_suffix>{suffix}<fim_prefix>{prefix}<fim_middle>",
    "<filename>{path}\n{text}\n",
)
FORMS = (
    # Qwen2.5-Coder: github.com/QwenLM/Qwen2.5-Coder, examples/Qwen2.5-Coder-repolevel-fim.py
    Form(
        PIPED,
        "<|repo_name|>{repository}\n{files}<|file_sep|>{path}\n" + PIPED,
        "<|file_sep|>{path}\n{text}\n",
    ),
    # CodeGemma: arXiv 2406.11409, figure 2 and table 1
    Form(PIPED, "{files}{path}\n" + PIPED, "{path}\n{text}\n<|file_separator|>"),
    # StarCoder 2: arXiv 2402.19173, section 5.1
    Form(
        "<file_sep>" + STARCODER,
        "<repo_name>{repository}{files}<file_sep><fim_prefix>{path}\n{prefix}<fim_suffix>{suffix}<fim_middle>",
        "<file_sep>{path}\n{text}\n",
    ),
    # StarCoder, Granite Code: huggingface.co/spaces/bigcode/bigcode-playground, static/formats.md
    Form(STARCODER, "<fim_prefix><filename>{path}\n{prefix}<fim_suffix>{suffix}<fim_middle>"),
    # DeepSeek-Coder: github.com/deepseek-ai/DeepSeek-Coder, README.md, "Repository Level Code Completion"
    Form(
        "<｜fim▁begin｜>{prefix}<｜fim▁hole｜>{suffix}<｜fim▁end｜>",
        "<｜fim▁begin｜>{files}#{path}\n{prefix}<｜fim▁hole｜>{suffix}<｜fim▁end｜>",
        "#{path}\n{text}\n",
    ),
    # Codestral: github.com/mistralai/mistral-common, InstructTokenizerV2.encode_fim; with other files as in
    # github.com/continuedev/continue, core/autocomplete/templating
    Form(
        "[SUFFIX]{suffix}[PREFIX]{prefix}",
        "[SUFFIX]{suffix}[PREFIX]{files}+++++ {path}\n{prefix}",
        "+++++ {path}\n{text}\n\n",
    ),
    # CodeLlama: github.com/meta-llama/codellama, llama/generation.py, infilling_prompt_tokens
    Form("▁<PRE>{prefix}▁<SUF>{suffix}▁<MID>"),
    # SantaCoder, Granite 4, and others of these spellings
    Form("<fim-prefix>{prefix}<fim-suffix>{suffix}<fim-middle>"),
    Form(STARCODER),
    Form(PIPED),
)
"""The forms in order of preference: the first whose tokens a vocabulary has is used."""
LEFT_TO_RIGHT = Form("{prefix}")
"""For models that were not trained to fill gaps."""


@dataclass(frozen=True)
class Infill:
    """A model's way to fill gaps."""

    form: Form
    end: frozenset[int]
    """Tokens that end the middle."""
    opening = ()
    """Tokens that the middle begins with."""

    @property
    def sees_suffix(self) -> bool:
        """Whether the text after the gap matters at all."""
        return self.form != LEFT_TO_RIGHT

    def prompt(
        self, tokenizer: Tokenizer, prefix: str, suffix: str, room: int, around: Surroundings | None = None
    ) -> list[int]:
        """A prompt of at most `room` tokens, leaving out what is farthest from the gap.

        Excerpts of other files come first, in up to a quarter of the room; the prefix gets three quarters of the rest,
        or more.
        """
        template, values = self.form.gap, dict[str, str | list[int]](prefix=[], suffix=[])
        if around and self.form.placed:
            template = self.form.placed
            values |= {"repository": around.repository, "path": around.path}
            values["files"] = self._excerpts(tokenizer, around.excerpts, room // 4)
        room -= len(tokenizer.start) + len(fill(tokenizer, template, values))
        behind_text = re.search(r"[^>\]]\{prefix\}", template)
        encoders = tokenizer.encode_behind if behind_text else tokenizer.encode, tokenizer.encode_behind
        before, after = trim(tokenizer, prefix, suffix if self.sees_suffix else "", room, encoders)
        return [*tokenizer.start, *fill(tokenizer, template, values | {"prefix": before, "suffix": after})]

    def _excerpts(self, tokenizer: Tokenizer, excerpts: Sequence[Excerpt], room: int) -> list[int]:
        """The excerpts that fit, the most relevant last, next to the gap."""
        chosen = list[list[int]]()
        for excerpt in excerpts if self.form.file else ():
            tokens = fill(tokenizer, self.form.file, {"path": excerpt.path, "text": excerpt.text.rstrip("\r\n")})
            if len(tokens) <= room:
                chosen.insert(0, tokens)
                room -= len(tokens)
        return [token for tokens in chosen for token in tokens]

    def heal(self, tokenizer: Tokenizer, prompt: list[int], prefix: str) -> tuple[list[int], list[int]]:
        """Token healing: split off the tokens of the word that the prefix ends within.

        Such tokens are rare at the end of a word's part: they are generated again. Where the middle does not follow the
        prefix, nothing is split off.
        """
        if not (self.form.gap.endswith("{prefix}") and tokenizer.byte_level):
            return prompt, []
        found = WORD.search(prefix)
        word = found[0].encode() if found else b""
        begins = len(prompt)
        wanted = len(word) if 0 < len(word) <= LONGEST else 1
        while wanted > 0 and begins > 1 and prompt[begins - 1] not in tokenizer.control:
            begins -= 1
            wanted -= len(tokenizer.content(prompt[begins]))
        return prompt[:begins], prompt[begins:]


@dataclass(frozen=True)
class Gap:
    """An encoder-decoder's way to fill gaps: a sentinel token stands for the gap, and begins the answer."""

    sentinel: int
    end: frozenset[int]
    """Tokens that end the middle, with the next gap's sentinel, which is not in the prompt."""

    sees_suffix = True

    @property
    def opening(self) -> tuple[int, ...]:
        """Tokens that the middle begins with."""
        return (self.sentinel,)

    def prompt(
        self, tokenizer: Tokenizer, prefix: str, suffix: str, room: int, around: Surroundings | None = None
    ) -> list[int]:
        """A prompt of at most `room` tokens, leaving out what is farthest from the gap."""
        room -= len(tokenizer.start) + len(tokenizer.finish) + 1
        before, after = trim(tokenizer, prefix, suffix, room, (tokenizer.encode, tokenizer.encode))
        return [*tokenizer.start, *before, self.sentinel, *after, *tokenizer.finish]

    def heal(self, tokenizer: Tokenizer, prompt: list[int], prefix: str) -> tuple[list[int], list[int]]:
        """No token healing: the answer does not continue the prefix."""
        return prompt, []


def line_behind(suffix: str) -> list[str]:
    """The stop string for a gap that ends its line: a line break and the next line with content."""
    rest, _, behind = suffix.partition("\n")
    line = next((line.rstrip() for line in behind.splitlines() if line.strip()), "")
    return [f"\n{line}"] if not rest.strip() and len(line.strip()) >= SHORTEST else []


def find(tokenizer: Tokenizer) -> Infill:
    """How this tokenizer's model fills gaps, or continues the prefix if it cannot."""
    form = _find_form(tokenizer)
    marks = set(ENDS).union(*(other.marks() for other in (MELLUM, *FORMS)))
    ends = {token for mark in marks if (token := tokenizer.token_id(mark)) is not None}
    return Infill(form, tokenizer.eos | ends)


def _find_form(tokenizer: Tokenizer) -> Form:
    form = next((form for form in FORMS if _has(tokenizer, form)), LEFT_TO_RIGHT)
    order = tokenizer.config.get("fim_order", "psm")
    if order not in ("psm", "spm"):
        raise GenerationError(f"tokenizer_config.json says fim_order {order!r}; choose from psm and spm")
    if order == "spm":
        swapped = re.fullmatch(r"(<[^>]+>)\{prefix\}(<[^>]+>)\{suffix\}(<[^>]+>)", form.gap)
        return Form("{}{}{{suffix}}{}{{prefix}}".format(*swapped.groups())) if swapped else form
    return MELLUM if _is_mellum(tokenizer) else form


def _has(tokenizer: Tokenizer, form: Form) -> bool:
    return all(tokenizer.token_id(mark) is not None for mark in form.marks())


def _is_mellum(tokenizer: Tokenizer) -> bool:
    """Whether this is Mellum's vocabulary, which has StarCoder's tokens but another order in its prompts.

    Both vocabularies begin with these tokens, while models that got them later have them at the end; only StarCoder's
    divides numbers into digits.
    """
    first = tokenizer.token_id("<fim_prefix>")
    return _has(tokenizer, MELLUM) and first is not None and first < 256 and not tokenizer.divides_numbers


def find_file_start(tokenizer: Tokenizer) -> int | None:
    """The token with which this tokenizer's model begins a file; None if there is none."""
    return next((token for text in FILE_STARTS if (token := tokenizer.token_id(text)) is not None), None)


def find_gap(tokenizer: Tokenizer) -> Gap | None:
    """How this tokenizer's encoder-decoder fills gaps (T5, CodeT5); None if it cannot."""
    sentinels = [token for i in range(SENTINELS) if (token := tokenizer.token_id(f"<extra_id_{i}>")) is not None]
    return Gap(sentinels[0], tokenizer.eos.union(sentinels[1:])) if len(sentinels) > 1 else None


def fill(tokenizer: Tokenizer, template: str, values: Mapping[str, str | list[int]]) -> list[int]:
    """Encode a form with its slots filled by texts or tokens; texts never become control tokens."""

    def piece(part: str) -> str | list[int]:
        if part.startswith("{"):
            return values[part[1:-1]]
        token = tokenizer.token_id(part) if PART.fullmatch(part) else None
        return part if token is None else [token]

    tokens = list[int]()
    for is_text, pieces in groupby(
        map(piece, filter(None, PART.split(template))), lambda piece: isinstance(piece, str)
    ):
        if is_text:
            tokens += tokenizer.encode_behind("".join(map(str, pieces)))
        else:
            tokens += [int(token) for ids in pieces for token in ids]
    return tokens


def trim(
    tokenizer: Tokenizer, prefix: str, suffix: str, room: int, encoders: tuple[Encode, Encode]
) -> tuple[list[int], list[int]]:
    """Tokens of both texts that fit: about three quarters for the prefix, which begins with a whole line.

    While a line is typed, the beginning of the prefix and the end of the suffix move only in steps of some lines, not
    with every character, so that the cache can be reused.
    """
    if room < 2:
        raise GenerationError("this model's context is too short to infill")
    encode_prefix, encode_suffix = encoders
    after = encode_suffix(suffix[: room * CHARACTERS_PER_TOKEN])
    share = max(room * 3 // 4, room - len(after))
    short = len(prefix) <= share * CHARACTERS_PER_TOKEN
    before = encode_prefix(prefix) if short else []
    if not short or len(before) > share:
        before = encode_prefix(prefix[_beginning(tokenizer, prefix, share) :])[-share:]
        return before, after[: room - share]
    return before, after[: room - min(share, up(len(before), room // 8))]


def up(number: int, step: int) -> int:
    """Round up to a multiple of a step."""
    return -(-number // max(1, step)) * max(1, step)


def _beginning(tokenizer: Tokenizer, prefix: str, share: int) -> int:
    """Where the kept part of a prefix begins: at a line after a multiple of some characters.

    The line being typed does not count; a sixteenth of the share or more is reserved for it.
    """
    line = prefix.rfind("\n") + 1
    near = prefix[line:][-share * CHARACTERS_PER_TOKEN :]
    room = share - up(len(tokenizer.encode_behind(near)) + 1, share // 16)
    if room <= 0 or not line:
        return len(prefix) - len(near)
    near = prefix[max(0, line - room * CHARACTERS_PER_TOKEN) : line]
    kept = tokenizer.decode(tokenizer.encode_behind(near)[-room:])
    start = up(line - len(kept), share // 4)
    return prefix.find("\n", max(0, start - 1), line - 1) + 1 or line
