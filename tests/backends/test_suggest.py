"""Near misses: which name is meant."""

import pytest

from backends.suggest import suggest

OPTIONS = ["--system", "--temperature", "--raw", "--max-tokens", "--stop", "--top-k", "--top-p", "--top-n-sigma",
           "--top-a", "--dry-base", "--n", "--num-beams"]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--temp", "--temperature"),
        ("--max", "--max-tokens"),
        ("--maxtok", "--max-tokens"),
        ("--top", "--top-k, --top-p or --top-n-sigma"),
        ("--num", "--num-beams"),
        ("--temprature", "--temperature"),
        ("--sistem", "--system"),
        ("--rwa", "--raw"),
    ],
)
def test_names_that_begin_so_are_meant_before_the_nearest(word: str, meant: str) -> None:
    assert suggest(word, OPTIONS) == f"did you mean {meant}?"


@pytest.mark.parametrize("word", ["--verbose", "--tmsy", "-t", "--", ""])
def test_what_is_near_to_nothing_is_not_guessed(word: str) -> None:
    assert suggest(word, OPTIONS, "choose") == "choose"


def test_what_a_file_says_is_no_beginning() -> None:
    assert suggest("deep", ["deepseek_v3"], who="the publisher") == ""
    assert suggest("deepseek_v", ["deepseek_v3"], who="the publisher") == "did the publisher mean deepseek_v3?"
