"""chatapp.settings.settings: where things live, and what the user chose."""

import sys
from pathlib import Path

import pytest

from chatapp.settings import settings
from chatapp.workspace import Workspace
from support.checkpoints import Run


def test_chatapp_home_says_where_everything_lives(home: Path) -> None:
    assert settings.home() == home


def test_a_tilde_in_chatapp_home_is_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("CHATAPP_HOME", "~/mine")
    assert settings.home() == tmp_path / "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="paths of Unix")
def test_a_home_whose_path_is_not_utf_8_is_refused(chatapp: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATAPP_HOME", "/tmp/\udce9")
    assert "is not UTF-8, which runtimes need; set CHATAPP_HOME to another folder" in chatapp("list").stderr


def test_without_chatapp_home_the_platforms_data_folder_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHATAPP_HOME")
    assert settings.home().is_absolute()
    assert settings.home().name == "chatapp"


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of a container whom nobody has told the system of."""
    for name in ("HOME", "USERPROFILE", "XDG_DATA_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54321)


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_folder_is_told_what_to_set(
    chatapp: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chatapp("list").returncode == 0
    assert "no model or folder '~/model'" in chatapp("show", "~/model").stderr
    assert chatapp("editor", "vim").stderr == "Error: this user has no home folder; set HOME\n"
    says = "Error: this user has no home folder; set HOME, or CHATAPP_HOME to an absolute path\n"
    for value in ("~/mine", ""):
        monkeypatch.setenv("CHATAPP_HOME", value)
        for command in (("list",), ("run", "builtin", "x")):
            assert chatapp(*command).stderr == says


@pytest.fixture(autouse=True)
def without_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHATAPP_BACKEND")


def test_the_variable_for_the_backend_goes_before_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    (home / "settings.toml").write_text('backend = "nowhere"\n')
    with pytest.raises(settings.SettingsError, match="unknown backend 'nowhere'"):
        Workspace().read_settings()
    monkeypatch.setenv("CHATAPP_BACKEND", "onnx")
    assert Workspace().read_settings().backend == "onnx"


def test_nothing_is_created_by_looking(home: Path) -> None:
    assert Workspace().read_settings() == settings.Settings()
    assert not home.exists()


def test_what_the_user_chose_is_read(home: Path) -> None:
    home.mkdir()
    (home / "settings.toml").write_text('model = "tiny"\n')
    assert Workspace().read_settings() == settings.Settings(model="tiny")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('modle = "tiny"', "unknown setting 'modle'.*did you mean model"),
        ("colour = 1", "unknown setting 'colour'.*choose from model, theme"),
        ("theme = 3", "the setting 'theme'.*must be a text in quotes, not 3"),
        ('history = "no"', "the setting 'history'.*must be true or false, not 'no'"),
        ('objective = "beauty"', "unknown objective 'beauty'; choose from chat, completion, throughput, battery"),
        ("theme = ", "cannot read the settings"),
        ("\udcff", "cannot read the settings"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(home: Path, text: str, says: str) -> None:
    home.mkdir()
    (home / "settings.toml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(settings.SettingsError, match=says):
        Workspace().read_settings()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, 'theme = "okabe"\n'),
        ("", 'theme = "okabe"\n'),
        ('model = "tiny"', 'model = "tiny"\ntheme = "okabe"\n'),
        ('# mine\ntheme = "paper"  # by day\nmodel = "m"\n', '# mine\ntheme = "okabe"  # by day\nmodel = "m"\n'),
        ("model = 'tiny'\r\ntheme='paper'\r\n", 'model = \'tiny\'\r\ntheme = "okabe"\r\n'),
        ('# theme = "paper"\nmodel = "tiny"\n', '# theme = "paper"\nmodel = "tiny"\ntheme = "okabe"\n'),
        ('  "theme" = "paper"', 'theme = "okabe"'),
        ("theme = 3 # wrong\n", 'theme = "okabe" # wrong\n'),
        (
            'model = """\ntheme = "old"\n"""\ntheme = "paper"\n',
            'model = """\ntheme = "old"\n"""\ntheme = "okabe"\n',
        ),
        ("stores = ['/a']\n[later]\ntheme = 1\n", 'stores = [\'/a\']\ntheme = "okabe"\n[later]\ntheme = 1\n'),
    ],
)  # fmt: skip
def test_a_theme_is_written_without_touching_another_line(home: Path, before: str | None, after: str) -> None:
    home.mkdir()
    path = home / "settings.toml"
    if before is not None:
        path.write_bytes(before.encode())
    Workspace().choose_theme("okabe")
    assert path.read_bytes().decode() == after
    assert list(home.iterdir()) == [path]


def test_settings_that_are_no_toml_are_left_as_they_are(home: Path) -> None:
    home.mkdir()
    (home / "settings.toml").write_text("theme = ")
    with pytest.raises(settings.SettingsError, match="cannot save the theme in .*settings.toml"):
        Workspace().choose_theme("okabe")
    assert (home / "settings.toml").read_text() == "theme = "


def test_settings_that_cannot_be_written_are_told_by_their_own_name(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, text: str) -> None:
        raise PermissionError(13, "Permission denied", f"{path}.temporary")

    monkeypatch.setattr(settings, "write_whole", refuse)
    with pytest.raises(settings.SettingsError) as refused:
        Workspace().choose_theme("okabe")
    path = home / "settings.toml"
    assert str(refused.value) == f"cannot save the theme in {path}: Permission denied; it lasts until you quit"


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are the Unix way")
def test_settings_behind_a_link_stay_there_and_as_private_as_they_were(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    real = tmp_path / "dotfiles.toml"
    real.write_text('model = "tiny"\n')
    real.chmod(0o600)
    (home / "settings.toml").symlink_to(real)
    Workspace().choose_theme("okabe")
    assert (home / "settings.toml").is_symlink()
    assert Workspace().read_settings() == settings.Settings(model="tiny", theme="okabe")
    assert real.stat().st_mode & 0o777 == 0o600
