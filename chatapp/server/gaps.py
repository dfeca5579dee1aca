"""Recognises infill prompts that a client has formatted itself, for any model, so that they are filled as gaps."""

FORMS = (
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("<PRE> ", " <SUF>", " <MID>"),
)
"""StarCoder, SantaCoder, Qwen, DeepSeek, CodeLlama: clients choose by the model's name, often wrongly."""
SUFFIX_FIRST = "[SUFFIX]", "[PREFIX]"
"""Codestral."""


def find_gap(prompt: str) -> tuple[str, str] | None:
    """The text before and after the gap in a formatted infill prompt; None if it is not one."""
    prompt = prompt.strip()
    for begin, middle, end in FORMS:
        if prompt.startswith(begin) and prompt.endswith(end):
            prefix, mark, suffix = prompt[len(begin) : -len(end)].rpartition(middle)
            if mark:
                return prefix, suffix
    begin, middle = SUFFIX_FIRST
    suffix, mark, prefix = prompt.removeprefix(begin).rpartition(middle)
    return (prefix, suffix) if mark and prompt.startswith(begin) else None
