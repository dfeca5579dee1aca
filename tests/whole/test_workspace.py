"""One user's home: what is in it is what is opened, and another home is another user's."""

from dataclasses import replace
from pathlib import Path

import pytest

from chatapp.conversation import Setup
from chatapp.generation.options import published_options
from chatapp.placement.selection import PlacementOptions
from chatapp.settings import system_prompts
from chatapp.settings.settings import SettingsError
from chatapp.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "mine").mkdir()
    return Workspace(tmp_path / "mine")


def test_the_users_own_home_is_meant_unless_another_is_given(home: Path, workspace: Workspace) -> None:
    assert Workspace().home == home
    assert Workspace().open_store().root == home / "models"
    assert workspace.open_store().root == workspace.home / "models"


def test_what_is_said_in_one_home_is_not_in_another(workspace: Workspace, tmp_path: Path) -> None:
    with workspace.open_history() as history:
        history.add(history.create("chat", title="mine").id, "user", "hello", parent=None)
    with workspace.open_history() as again, Workspace(tmp_path / "yours").open_history() as other:
        assert [one.title for one in again.list()] == ["mine"]
        assert not other.list()


def test_a_model_runs_where_it_is_asked_for_else_where_the_settings_say(workspace: Workspace) -> None:
    (workspace.home / "settings.toml").write_text('backend = "onnx"\nobjective = "battery"\n')
    assert workspace.choose_placement() == PlacementOptions("onnx", objective="battery")
    asked = workspace.choose_placement("openvino", device="cpu", precision="f32", objective="chat")
    assert asked == PlacementOptions("openvino", "cpu", "f32", "chat")


def test_settings_count_from_the_moment_they_are_written(workspace: Workspace, tmp_path: Path) -> None:
    assert workspace.open_store().root == workspace.home / "models"
    (tmp_path / "disk").mkdir()
    (workspace.home / "settings.toml").write_text(f"stores = ['{tmp_path / 'disk'}']\n")
    assert workspace.open_store().roots == (tmp_path / "disk", workspace.home / "models")
    (workspace.home / "settings.toml").write_text("stores = ['disk']\n")
    with pytest.raises(SettingsError, match="must be an absolute path"):
        workspace.open_store()


def test_answers_are_as_the_users_files_say(workspace: Workspace) -> None:
    (workspace.home / "presets.toml").write_text("[mine]\ntop_k = 7\n")
    system_prompts.save(workspace.home / "prompts", "pirate", "Talk like a pirate.")
    wanted = Setup(options={"top_k": 7, "think": False}, system="Talk like a pirate.")
    assert workspace.read_setup("mine", "@pirate", think=False) == wanted
    assert workspace.read_setup(None, None) == Setup()


def test_a_preset_with_the_name_of_a_model_counts_wherever_that_is_opened(workspace: Workspace) -> None:
    (workspace.home / "presets.toml").write_text("[builtin]\ntemperature = 0.25\n[other]\ntop_k = 7\n")
    opened = workspace.open_model("builtin", PlacementOptions("onnx"))
    published = published_options(workspace.open_store().get("builtin").folder)
    assert opened.engine.defaults == replace(published, temperature=0.25)


def test_a_theme_is_kept_and_pulls_that_were_left_are_there_again(workspace: Workspace) -> None:
    workspace.choose_theme("okabe")
    assert workspace.read_settings().theme == "okabe"
    (workspace.home / "jobs.json").write_text('{"pulls": ["org/model"]}')
    assert workspace.open_jobs(lambda job: None).left == ["org/model"]
