"""Every theme is complete, says what it is, and can be read."""

import math
from itertools import combinations
from pathlib import Path

import pytest
from pygments.token import Token
from rich.color import Color as RichColour
from textual.app import App, ComposeResult
from textual.color import Color
from textual.style import Style as Look
from textual.widgets import Static

import themes
from chatapp.tui.theme import palette
from chatapp.tui.widgets.code_colours import CodeColours
from themes import Theme, ThemeError

ALL = list(themes.load().values())
INK = ("text", "muted", "accent", "model", "success", "warning", "error")
PAPER = ("background", "surface", "panel")


VISION = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""What linear red, green and blue become in eyes that lack one kind of cones: Machado et al. 2009, table 1."""
PALETTES = {
    "xterm": "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
    "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff",
    "VGA": "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa "
    "555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff",
}
"""What terminals show by default as their sixteen colours."""
TRUE = [theme for theme in ALL if not theme.ansi]


def as_shown(theme: Theme, terminal: str) -> Theme:
    """A theme of the terminal's own colours, as one terminal shows it."""
    shown = dict(zip(themes.ANSI, (f"#{colour}" for colour in PALETTES[terminal].split()), strict=True))
    colours = {role: shown[getattr(theme, role)] for role in (*INK, *PAPER, "selection")}
    return Theme(f"{theme.name} in {terminal}", theme.dark, ansi=False, **colours)


SEEN = TRUE + [as_shown(theme, terminal) for theme in ALL if theme.ansi for terminal in PALETTES]


def channels(colour: str) -> list[float]:
    """Red, green and blue, linear in light."""
    encoded = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in encoded]


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    red, green, blue = channels(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def name_of(theme: Theme) -> str:
    return theme.name


def least(theme: Theme) -> float:
    """The contrast that a theme promises."""
    return 7.0 if theme.name.startswith("contrast") else 4.5


def perceived(colour: str, eyes: str) -> tuple[float, float, float]:
    """A colour as CIE Lab, in eyes that lack one kind of cones."""
    light = channels(colour)
    rows = VISION[eyes]
    red, green, blue = (min(1.0, max(0.0, sum(a * b for a, b in zip(row, light, strict=True)))) for row in rows)
    x, y, z = (
        value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116
        for value in (
            (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047,
            0.2126729 * red + 0.7151522 * green + 0.072175 * blue,
            (0.0193339 * red + 0.119192 * green + 0.9503041 * blue) / 1.08883,
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_there_are_themes_for_every_room_and_eye() -> None:
    dark = {theme.name for theme in ALL if theme.dark}
    assert {"midnight", "contrast", "okabe", "terminal"} < dark
    assert {"paper", "contrast-light", "okabe-light", "terminal-light"} < {theme.name for theme in ALL} - dark
    assert {theme.name for theme in ALL if theme.ansi} == {"terminal", "terminal-light"}
    assert len(ALL) >= 10


@pytest.mark.parametrize("theme", SEEN, ids=name_of)
def test_every_colour_is_legible_on_every_background(theme: Theme) -> None:
    pairs = {(ink, paper): contrast(getattr(theme, ink), getattr(theme, paper)) for ink in INK for paper in PAPER}
    assert not {pair: ratio for pair, ratio in pairs.items() if ratio < least(theme)}


@pytest.mark.parametrize("theme", SEEN, ids=name_of)
@pytest.mark.parametrize("ink", ["text", "muted", "model"])
def test_selected_text_is_legible(theme: Theme, ink: str) -> None:
    assert contrast(getattr(theme, ink), theme.selection) >= 4.5


@pytest.mark.parametrize("theme", SEEN, ids=name_of)
def test_a_selection_can_be_seen(theme: Theme) -> None:
    assert all(contrast(theme.selection, getattr(theme, paper)) >= 1.15 for paper in PAPER)


@pytest.mark.parametrize("theme", TRUE, ids=name_of)
@pytest.mark.parametrize(("tint", "share"), [("warning", 0.26), ("error", 0.48)])
def test_text_is_legible_on_a_background_that_is_tinted(theme: Theme, tint: str, share: float) -> None:
    for paper in PAPER:
        ground = Color.parse(getattr(theme, paper)).blend(Color.parse(getattr(theme, tint)), share)
        assert contrast(theme.text, ground.hex) >= 4.5


@pytest.mark.parametrize("theme", [theme for theme in ALL if theme.name.startswith("okabe")], ids=name_of)
@pytest.mark.parametrize("eyes", VISION)
def test_colours_that_mean_something_differ_in_every_eye(theme: Theme, eyes: str) -> None:
    roles = ("text", "accent", "model", "success", "warning", "error")
    shown = {role: perceived(getattr(theme, role), eyes) for role in roles}
    apart = {pair: math.dist(shown[pair[0]], shown[pair[1]]) for pair in combinations(roles, 2)}
    assert not {pair: distance for pair, distance in apart.items() if distance < 15}


@pytest.mark.parametrize("theme", SEEN, ids=name_of)
def test_dark_themes_are_dark(theme: Theme) -> None:
    assert (luminance(theme.background) < 0.2) == theme.dark


@pytest.mark.parametrize("theme", ALL, ids=name_of)
async def test_the_screen_shows_a_theme_as_its_file_says(theme: Theme) -> None:
    class Shown(App[None]):
        CSS = "Static { background: $surface; color: $model; } #selected { background: $selection; }"

        def compose(self) -> ComposeResult:
            yield Static("written")
            yield Static("selected", id="selected")

    app = Shown()
    app.register_theme(palette(theme))
    app.theme = theme.name
    async with app.run_test():
        first, last = app.query(Static)
        assert (first.styles.color, first.styles.background) == (Color.parse(theme.model), Color.parse(theme.surface))
        assert last.styles.background == Color.parse(theme.selection)
        assert app.native_ansi_color == theme.ansi
        assert app.theme_variables["input-cursor-text-style"] == "none", "reversed, a cursor would be its own ground"


@pytest.mark.parametrize("theme", ALL, ids=name_of)
def test_code_is_legible(theme: Theme) -> None:
    variables = palette(theme).to_color_system().generate() | palette(theme).variables
    looks = {kind: Look.parse(f"{look or '$text'} on $surface", variables) for kind, look in CodeColours.STYLES.items()}
    styles = {kind: look.rich_style for kind, look in looks.items() if look.foreground}
    assert Token.Comment in styles
    for terminal in PALETTES.values() if theme.ansi else ("",):
        inks = {kind: shown_as(style.color, terminal) for kind, style in styles.items()}
        papers = {kind: shown_as(style.bgcolor, terminal) for kind, style in styles.items()}
        assert not {kind: ratio for kind in styles if (ratio := contrast(inks[kind], papers[kind])) < 4.5}


def shown_as(colour: RichColour | None, terminal: str) -> str:
    """A colour as a terminal shows it; the default of a terminal may be any."""
    assert colour and not colour.is_default
    return colour.triplet.hex if colour.triplet else f"#{terminal.split()[colour.number or 0]}"


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
        ("dark = true", 'dark = true\nansi = "yes"', "ansi must be true or false, not 'yes'"),
        ("dark = true", "dark = true\nansi = true", "background must be a colour of the terminal's, like ansi_blue"),
        ("dark = true", 'dark = true\nfont = "serif"', "has entries that mean nothing: font"),
        ("dark = true", "dark = = true", "cannot read the theme"),
    ],
)
def test_a_wrong_theme_file_is_refused_by_name(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ThemeError, match="mine") as error:
        themes.load(changed(tmp_path, old, new))
    assert message in str(error.value)


def test_a_broken_theme_of_the_users_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    folder = changed(tmp_path, "#0f121a", "#101010")
    (folder / "broken.toml").write_text("dark = true")
    (folder / "paper.toml").write_text((folder / "mine.toml").read_text())
    found, complaints = themes.collect(folder)
    assert found["mine"].background == "#101010"
    assert found["paper"].dark, "the user's own goes before ours of the same name"
    assert {"midnight", "terminal"} < set(found) and "broken" not in found
    [complaint] = complaints
    assert complaint.startswith(f"the theme {folder / 'broken.toml'} lacks accent, background")


def test_without_a_folder_of_ones_own_there_are_ours(tmp_path: Path) -> None:
    found, complaints = themes.collect(tmp_path / "themes")
    assert (list(found), complaints) == (list(themes.load()), [])
