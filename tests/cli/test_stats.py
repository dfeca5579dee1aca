"""`chatapp stats completion`: what is told of what was kept."""

import json
from pathlib import Path

import pytest

from chatapp.completion.acceptance import BLOCK, LIMIT, Acceptance
from chatapp.completion.completer import Offer
from support.checkpoints import Run

OFFER = Offer("secret()", "file", 0.67)


@pytest.fixture
def kept(home: Path) -> Acceptance:
    return Acceptance(home / "completions.jsonl")


def test_what_was_kept_is_summed_up(chatapp: Run, kept: Acceptance) -> None:
    for milliseconds in range(1, 21):
        kept.note_shown(OFFER, milliseconds)
    kept.note_accepted(OFFER, "editor")
    done = chatapp("stats", "completion")
    assert "shown     20\naccepted  1 (5%)\n" in done.stdout
    assert json.loads(chatapp("stats", "completion", "--json").stdout) == {
        "shown": 20, "accepted": 1, "share": 0.05, "p50": 11, "p95": 20,
    }  # fmt: skip
    assert "secret" not in kept.path.read_text() and kept.path.stat().st_mode & 0o777 == 0o600


def test_what_was_kept_can_be_forgotten(chatapp: Run, kept: Acceptance) -> None:
    kept.note_shown(OFFER, 1)
    assert chatapp("stats", "completion", "--delete").stdout == "Forgotten.\n"
    assert not kept.path.exists()
    assert chatapp("stats", "completion", "--delete").stdout == "No statistics to delete.\n"


def test_where_nothing_is_kept_it_is_said_how_to_begin(chatapp: Run, home: Path) -> None:
    done = chatapp("stats", "completion")
    assert done.returncode == 1 and "completion_stats = true" in done.stderr
    home.mkdir(exist_ok=True)
    (home / "settings.toml").write_text("completion_stats = true\n")
    assert chatapp("stats", "completion").stdout == "shown     0\naccepted  0\n"
    assert chatapp("stats", "models").returncode == 2


def test_damaged_lines_are_left_out(kept: Acceptance) -> None:
    kept.note_shown(OFFER, 1)
    with kept.path.open("a") as file:
        file.write('[1]\n{"event": "sho\n{"event": 7}\n')
    assert kept.summary().shown == 1


def test_the_file_stays_small(kept: Acceptance) -> None:
    kept.path.parent.mkdir(exist_ok=True)
    kept.path.write_text('{"event": "shown"}\n' * (LIMIT // 19 + 1))
    kept.note_accepted(OFFER, "typing")
    assert kept.path.stat().st_size < LIMIT * 0.6
    assert kept.summary().accepted == 1


def test_the_threshold_follows_what_is_taken(kept: Acceptance) -> None:
    assert kept.threshold(0.3) == 0.3
    for _ in range(2 * BLOCK):
        kept.note_shown(OFFER, 1)
    assert kept.threshold(0.3) == 0.4, "none was taken"
    for _ in range(BLOCK):
        kept.note_shown(OFFER, 1)
        kept.note_accepted(OFFER, "editor")
    assert kept.threshold(0.3) == 0.35
