"""Gaps that a client has put into a prompt by itself, in the spelling of some model: they are filled as any other."""

FORMS = (
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("<PRE> ", " <SUF>", " <MID>"),
)
"""StarCoder, SantaCoder, Qwen, DeepSeek, CodeLlama: clients choose by a model's name, and often wrongly."""
SUFFIX_FIRST = "[SUFFIX]", "[PREFIX]"
"""Codestral."""


def find_gap(prompt: str) -> tuple[str, str] | None:
    """The texts before and after the gap that a prompt spells; None where it spells none."""
    prompt = prompt.strip()
    for begin, middle, end in FORMS:
        if prompt.startswith(begin) and prompt.endswith(end):
            prefix, mark, suffix = prompt[len(begin) : -len(end)].rpartition(middle)
            if mark:
                return prefix, suffix
    begin, middle = SUFFIX_FIRST
    suffix, mark, prefix = prompt.removeprefix(begin).rpartition(middle)
    return (prefix, suffix) if mark and prompt.startswith(begin) else None
