"""What a model's publisher recommends for sampling counts where the user says nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chatapp.generation import GenerationError, Options
from chatapp.generation.options import published_options, without_free_text
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from model_store import Store
from support.checkpoints import MakeCheckpoint, Run


def publish(folder: Path, **content: Any) -> Path:
    (folder / "generation_config.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, Options()),
        ({"eos_token_id": [1, 2], "max_length": 20, "do_sample": True}, Options()),
        (
            {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.05},
            Options(temperature=0.6, top_p=0.9, top_k=20, min_p=0.05),
        ),
        ({"temperature": 0.7, "top_k": None, "repetition_penalty": 1.05}, Options(0.7, repetition_penalty=1.05)),
        ({"do_sample": False, "temperature": 0.6, "top_p": 0.9}, Options(temperature=0)),
        (
            {"dry_multiplier": 1.5, "dry_breakers": [], "dry_whole_words": True, "indentation": 1},
            Options(dry_multiplier=1.5, dry_breakers=(), dry_whole_words=True, indentation=1),
        ),
        ({"do_sample": False, "repetition_penalty": 1.2}, Options(temperature=0, repetition_penalty=1.2)),
    ],
)
def test_the_publisher_s_options_are_read(tmp_path: Path, content: dict[str, Any], expected: Options) -> None:
    assert published_options(publish(tmp_path, **content)) == expected


def test_a_gap_is_filled_without_what_keeps_a_text_from_going_round_in_circles() -> None:
    sampled = Options(temperature=0.2, min_p=0.1)
    free = replace(sampled, dry_multiplier=1.5, repetition_penalty=1.1, file_start=1, indentation=1, stop_at_dedent=1)
    assert without_free_text(free) == sampled
    assert without_free_text(replace(free, stop=("x",))) == replace(sampled, stop=("\n\n",))


def test_without_the_file_ours_count(tmp_path: Path) -> None:
    assert published_options(tmp_path) == Options()


def test_a_wrong_value_is_refused_by_file_and_name(tmp_path: Path) -> None:
    with pytest.raises(GenerationError, match=r"generation_config\.json has a wrong value: top_p .* not 7"):
        published_options(publish(tmp_path, top_p=7))


def test_an_engine_starts_from_them(checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = publish(checkpoint(), do_sample=True, temperature=0.5, top_k=7)
    assert open_engine(Store(tmp_path / "store"), str(folder), PlacementOptions("onnx")).defaults == Options(
        temperature=0.5, top_k=7
    )


def test_what_the_user_says_counts_before_what_the_publisher_says(checkpoint: MakeCheckpoint, chatapp: Run) -> None:
    folder = str(publish(checkpoint(), do_sample=False))
    arguments = ("run", folder, "def f", "--max-tokens", "12")
    greedy = chatapp(*arguments, "--temperature", "0").stdout
    assert chatapp(*arguments, "--seed", "1").stdout == chatapp(*arguments, "--seed", "2").stdout == greedy
    assert chatapp(*arguments, "--seed", "1", "--temperature", "2").stdout != greedy
    assert "temperature 0.0" in chatapp("show", folder).stdout
