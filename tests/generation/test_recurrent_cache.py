"""The cache between turns where layers keep states: of use only after all of a text, and never wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import Session
from backends.reference import Session as ReferenceSession
from chatapp.generation.prompt_cache import PromptCache
from chatapp.generation.states import States
from support.arrays import near
from support.golden_logits import open_golden

CASES = ("lfm2", "qwen3_5")


@pytest.fixture(scope="module", params=CASES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Session]:
    """A session with states and, beside it, the reference."""
    decoder, weights = open_golden(request.param)
    decoder, folder = replace(decoder, context_length=1200), tmp_path_factory.mktemp("lowered")
    backends.get("onnx").lower(decoder, weights, folder, precision="f32")
    return backends.get("onnx").load(folder, device="cpu"), ReferenceSession(decoder, dict(weights))


def texts(count: int) -> list[list[int]]:
    found: list[list[int]] = np.random.default_rng(count).integers(0, 96, (3, count)).tolist()
    return found


def answer(cache: PromptCache, prompt: list[int], opened: tuple[Session, Session]) -> int:
    """Read a prompt as a turn does, check what it says, and return how many tokens were read."""
    unread = cache.reuse(prompt)
    logits = cache.read(unread, lambda: True)
    assert logits is not None
    opened[1].rewind(0)
    assert logits == near(opened[1].forward(np.array([prompt])), abs=2e-4)
    cache.keep(prompt, lasting=True)
    return len(unread)


def test_another_text_and_back_reads_only_what_is_new(opened: tuple[Session, Session]) -> None:
    cache, (first, second, more) = PromptCache(opened[0]), texts(150)
    cache.forget()
    assert answer(cache, first, opened) == 150
    assert answer(cache, second, opened) == 150
    assert answer(cache, first + more[:20], opened) == 20
    assert answer(cache, second + more[:9], opened) == 9


def test_a_part_of_a_text_that_was_kept_is_read_again(opened: tuple[Session, Session]) -> None:
    cache, (first, second, more) = PromptCache(opened[0]), texts(150)
    cache.forget()
    answer(cache, first, opened)
    answer(cache, second, opened)
    assert answer(cache, first[:120] + more, opened) == 270


def test_a_text_that_goes_on_otherwise_is_right(opened: tuple[Session, Session]) -> None:
    cache, (first, _, more) = PromptCache(opened[0]), texts(300)
    cache.forget()
    answer(cache, first, opened)
    assert answer(cache, first[:280] + more[:5], opened) == 29  # there is a state after 256


def test_what_the_disk_has_of_a_text_goes_on_after_all_of_it(opened: tuple[Session, Session], tmp_path: Path) -> None:
    cache, (first, second, more) = PromptCache(opened[0]), texts(150)
    cache.forget()
    answer(cache, first, opened)
    found = cache.extract(first)
    assert found and len(found.tokens) == 150
    states = States(tmp_path)
    states.write("1", found, {"model": "it"})
    again = PromptCache(opened[0])
    again.forget()
    answer(again, second, opened)
    read = states.read("1", opened[0].placement, {"model": "it"})
    assert read
    again.arrived.append(read)
    assert answer(again, first + more[:7], opened) == 7
