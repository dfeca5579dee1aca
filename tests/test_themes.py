"""Every theme is complete, says what it is, and can be read."""

from pathlib import Path

import pytest

import themes
from themes import Theme, ThemeError

ALL = list(themes.load().values())
INK = ("text", "muted", "accent", "model", "success", "warning", "error")
PAPER = ("background", "surface", "panel")


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_there_are_a_dark_a_light_and_a_high_contrast_theme() -> None:
    assert {theme.name: theme.dark for theme in ALL} == {"contrast": True, "midnight": True, "paper": False}


@pytest.mark.parametrize("theme", ALL, ids=lambda theme: theme.name)
@pytest.mark.parametrize("paper", PAPER)
@pytest.mark.parametrize("ink", INK)
def test_every_colour_is_legible_on_every_background(theme: Theme, ink: str, paper: str) -> None:
    least = 7.0 if theme.name == "contrast" else 4.5
    assert contrast(getattr(theme, ink), getattr(theme, paper)) >= least


@pytest.mark.parametrize("theme", ALL, ids=lambda theme: theme.name)
def test_selected_text_is_legible(theme: Theme) -> None:
    assert contrast(theme.text, theme.selection) >= 4.5
    assert contrast(theme.model, theme.selection) >= 4.5


@pytest.mark.parametrize("theme", ALL, ids=lambda theme: theme.name)
def test_dark_themes_are_dark(theme: Theme) -> None:
    assert (luminance(theme.background) < 0.2) == theme.dark


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """The midnight theme with one text replaced."""
    text = (Path(themes.__file__).parent / "midnight.toml").read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new))
    return tmp_path


def test_a_folder_of_ones_own_is_read(tmp_path: Path) -> None:
    assert themes.load(changed(tmp_path, "#0f121a", "#101010"))["mine"].background == "#101010"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("#0f121a", "black", "background must be a colour like #1a2b3c, not 'black'"),
        ("dark = true", "dark = 1", "dark must be true or false, not 1"),
        ('muted = "#8d97ab"\n', "", "lacks muted"),
        ("muted", "quiet", "lacks muted"),
        ("dark = true", 'dark = true\nfont = "serif"', "has entries that mean nothing: font"),
        ("dark = true", "dark = = true", "cannot read the theme"),
    ],
)
def test_a_wrong_theme_file_is_refused_by_name(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ThemeError, match="mine") as error:
        themes.load(changed(tmp_path, old, new))
    assert message in str(error.value)
