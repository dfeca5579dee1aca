"""chatapp.settings: where things live, and what the user chose."""

from pathlib import Path

import pytest

from chatapp import settings


def test_chatapp_home_says_where_everything_lives(home: Path) -> None:
    assert settings.home() == home
    assert settings.models() == home / "models"


def test_a_tilde_in_chatapp_home_is_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("CHATAPP_HOME", "~/mine")
    assert settings.home() == tmp_path / "mine"


def test_without_chatapp_home_the_platforms_data_folder_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHATAPP_HOME")
    assert settings.home().is_absolute()
    assert settings.home().name == "chatapp"


@pytest.fixture(autouse=True)
def without_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHATAPP_BACKEND")


def test_the_variable_for_the_backend_goes_before_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    (home / "settings.toml").write_text('backend = "nowhere"\n')
    with pytest.raises(settings.SettingsError, match="no backend 'nowhere'"):
        settings.read()
    monkeypatch.setenv("CHATAPP_BACKEND", "onnx")
    assert settings.read().backend == "onnx"


def test_nothing_is_created_by_looking(home: Path) -> None:
    assert settings.read() == settings.Settings()
    assert not home.exists()


def test_what_the_user_chose_is_read(home: Path) -> None:
    home.mkdir()
    (home / "settings.toml").write_text('model = "tiny"\n')
    assert settings.read() == settings.Settings(model="tiny")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('modle = "tiny"', "unknown setting 'modle'.*did you mean 'model'"),
        ("colour = 1", "unknown setting 'colour'.*known are model, theme"),
        ("theme = 3", "the setting 'theme'.*must be a text in quotes, not 3"),
        ('history = "no"', "the setting 'history'.*must be true or false, not 'no'"),
        ('objective = "beauty"', "no objective 'beauty'; choose from chat, completion, battery"),
        ("theme = ", "cannot read the settings"),
        ("\udcff", "cannot read the settings"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(home: Path, text: str, says: str) -> None:
    home.mkdir()
    (home / "settings.toml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(settings.SettingsError, match=says):
        settings.read()
