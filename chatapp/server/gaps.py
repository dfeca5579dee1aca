"""Gaps that a client has put into a prompt by itself, in the spelling of some model: they are filled as any other."""

from __future__ import annotations

import re

FORMS = (
    ("<fim_prefix>{prefix}<fim_suffix>{suffix}<fim_middle>"),
    ("<fim-prefix>{prefix}<fim-suffix>{suffix}<fim-middle>"),
    ("<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>"),
    ("<｜fim▁begin｜>{prefix}<｜fim▁hole｜>{suffix}<｜fim▁end｜>"),
    ("<PRE> {prefix} <SUF>{suffix} <MID>"),
    ("[SUFFIX]{suffix}[PREFIX]{prefix}"),
)
"""StarCoder, SantaCoder, Qwen, DeepSeek, CodeLlama, Codestral: clients choose by a model's name, and often wrongly."""
PATTERNS = [
    re.compile(
        re.escape(form).replace(r"\{prefix\}", "(?P<prefix>.*)").replace(r"\{suffix\}", "(?P<suffix>.*)"), re.DOTALL
    )
    for form in FORMS
]


def find_gap(prompt: str) -> tuple[str, str] | None:
    """The texts before and after the gap that a prompt spells; None where it spells none."""
    found = next((found for pattern in PATTERNS if (found := pattern.fullmatch(prompt.strip()))), None)
    return (found["prefix"], found["suffix"]) if found else None
