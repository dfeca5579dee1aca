"""The store that pulls fill: its names, what was edited by hand, and what is not its own."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from model_store import ModelNotFound, Store, StoreError, fit
from model_store.families import find, names
from model_store.hub.catalog import catalog, refer
from model_store.hub.pull import Plan
from model_store.location import Location
from support.pulls import ORG, QUICK, Pull, everything

TESTS = Path(__file__).parents[1]


def test_the_catalogue_says_how_much_memory_a_conversation_takes() -> None:
    configs = json.loads((TESTS / "published.json").read_text())
    known = {entry.repository.rpartition("/")[2].lower(): entry for entry in catalog().values()}
    alike = {name.lower(): known.get(name.lower()) or known.get(f"{name}-instruct".lower()) for name in configs}
    assert sum(entry is not None for entry in alike.values()) > 15
    for name, config in configs.items():
        if entry := alike[name.lower()]:
            assert round(fit.cache_size(find(config).decoder(config)) / 1e6) == entry.cache, name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "/etc", "a/b/c", "org/..", "../org", "org/.", "org/na--me", "org/name@../x", "org\\name",
     "org/name@", "org/\u202ename", "org/na me", "~/x", "org/name.git", "org/" + "x" * 200, "a\0b", "https://x/y"],
)  # fmt: skip
def test_a_name_that_could_leave_the_store_is_refused(name: str) -> None:
    with pytest.raises(ModelNotFound):
        refer(name)


def test_a_repository_of_the_catalogue_has_the_catalogue_s_name() -> None:
    assert refer("GPT2-Medium").name == refer("openai-community/gpt2-medium").name == "gpt2-medium"
    assert refer("openai-community/gpt2@main").name == "openai-community--gpt2@main"
    assert refer("org/name@refs/pr/1").name == "org--name@refs--pr--1"
    with pytest.raises(ModelNotFound, match="did you mean gpt2-medium"):
        refer("gpt2-medum")
    with pytest.raises(ModelNotFound, match="it comes with chatapp"):
        refer("builtin")


def test_the_catalogue_holds_only_what_can_be_run_and_stored() -> None:
    assert {entry.family for entry in catalog().values()} <= set(names())
    for name, entry in catalog().items():
        assert refer(name) == refer(entry.repository)
        assert name == name.lower() and 10 < entry.parameters < 25_000 and entry.licence and entry.good_for


@pytest.mark.parametrize(
    "edit",
    [
        "{",
        '{"files": {"../evil": {"size": 1, "digest": "%s"}}}' % ("a" * 40),
        '{"files": {"sub/file": {"size": 1, "digest": "%s"}}}' % ("a" * 40),
        '{"files": {"x": {"size": 1, "digest": "../../evil"}}}',
        '{"files": {"x": 1}}',
        '{"files": []}',
        "{}",
    ],
)
def test_a_manifest_edited_by_hand_is_refused_by_its_path(
    store: Store, planned: Callable[..., Plan], folder: Path, edit: str, tmp_path: Path
) -> None:
    left = Location(store.root, "org--tiny").partial
    left.mkdir(parents=True)
    (left / "pull.json").write_text(edit)
    before = everything(tmp_path)
    with pytest.raises(StoreError):
        planned().fetch(on_transfer=lambda now: None, patience=QUICK)
    assert set(everything(tmp_path)) - set(before) <= {
        "models/.bandwidth.json",
        "models/.locks",
        "models/.locks/org--tiny",
    }


def test_a_folder_of_the_user_is_not_taken_for_a_pulled_model(
    store: Store, pulling: Pull, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulling()
    own = Path(shutil.copytree(folder, tmp_path / "org" / "tiny"))
    monkeypatch.chdir(tmp_path)
    assert store.get(ORG).folder == own
    store.remove(str(own))
    assert (own / "config.json").exists()
    assert store.get("org--tiny").folder != own


def test_what_is_pulled_takes_the_name_of_a_folder_of_the_user(
    store: Store, pulling: Pull, folder: Path, tmp_path: Path
) -> None:
    own = Path(shutil.copytree(folder, tmp_path / "org--tiny"))
    assert store.get(str(own)).name == "org--tiny"
    target = pulling()
    assert store.get("org--tiny").folder == target == store.get(str(target)).folder
    assert (store.get(str(own)).name, store.get(str(own)).folder) == ("org--tiny-2", own)
    store.remove("org--tiny")
    assert (own / "config.json").exists() and store.get("org--tiny-2").folder == own


def test_a_folder_called_checkpoints_gets_another_name(store: Store, folder: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(folder, tmp_path / "checkpoints"))
    assert store.get(str(own)).name == "checkpoints-2"


@pytest.mark.skipif(os.name == "nt", reason="a file in the way of a folder is another error there")
def test_a_store_that_cannot_be_written_is_named(planned: Callable[..., Plan], folder: Path, tmp_path: Path) -> None:
    plan = replace(planned(), location=Location(tmp_path / "file", "org--tiny"))
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write to the model store .*file"):
        plan.fetch(on_transfer=lambda now: None, patience=QUICK)


def test_a_link_in_the_store_does_not_lead_out_of_it(
    store: Store, planned: Callable[..., Plan], folder: Path, tmp_path: Path
) -> None:
    """What somebody puts where a part will be is not followed."""
    plan, victim = planned(), tmp_path / "victim"
    victim.write_text("kept")
    left = Location(store.root, "org--tiny").partial
    left.mkdir(parents=True)
    for file in plan.files:
        (left / f"{file.digest}.part").symlink_to(victim)
    target = plan.fetch(on_transfer=lambda now: None, patience=QUICK)
    assert victim.read_text() == "kept"
    assert not any(path.is_symlink() for path in target.iterdir())
