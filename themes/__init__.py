"""Colour themes: one TOML file each, read and checked here."""

import re
import tomllib
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

SHIPPED = Path(__file__).parent
ANSI = tuple(
    f"ansi_{bright}{hue}"
    for bright in ("", "bright_")
    for hue in ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
)
"""The sixteen colours that a terminal's own settings define."""


class ThemeError(Exception):
    """A theme file that cannot be used; the message names the file and the entry."""


@dataclass(frozen=True)
class Theme:
    """The colours of the application, by role: as `#rrggbb`, or in a theme of the terminal's own as `ansi_blue`."""

    name: str
    dark: bool
    background: str
    surface: str
    """Behind messages and input boxes."""
    panel: str
    """Behind the header, the figures and the footer."""
    text: str
    muted: str
    """Hints and labels."""
    accent: str
    """Keys, focus and the latency strip."""
    model: str
    """What the model wrote."""
    selection: str
    success: str
    warning: str
    error: str
    ansi: bool = False
    """Whether the terminal's own sixteen colours are used."""

    def __post_init__(self) -> None:
        for name in ("dark", "ansi"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ThemeError(f"theme {self.name}: {name} must be true or false, not {value!r}")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("name", "dark", "ansi") and not self.means_a_colour(value):
                example = "of the terminal's, like ansi_blue" if self.ansi else "like #1a2b3c"
                raise ThemeError(f"theme {self.name}: {field.name} must be a colour {example}, not {value!r}")

    def means_a_colour(self, value: object) -> bool:
        """Whether this is a colour that such a theme can have."""
        if not isinstance(value, str):
            return False
        return value in ANSI if self.ansi else bool(re.fullmatch(r"#[0-9a-fA-F]{6}", value))


def load(folder: Path = SHIPPED) -> dict[str, Theme]:
    """The themes in a folder, by name: the name of the file without its ending."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.toml"), key=lambda path: path.stem)}


def collect(own: Path) -> tuple[dict[str, Theme], list[str]]:
    """Our themes and those in the user's folder, which go first, and why some of these were left out."""
    found, complaints = load(), []
    for path in sorted(own.glob("*.toml")):
        try:
            found[path.stem] = read(path)
        except ThemeError as error:
            complaints.append(str(error))
    return dict(sorted(found.items())), complaints


def read(path: Path) -> Theme:
    """One theme file."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ThemeError(f"cannot read the theme {path}: {error}") from error
    known = {field.name: field for field in fields(Theme) if field.name != "name"}
    wanted = {name for name, field in known.items() if field.default is MISSING}
    if missing := sorted(wanted - entries.keys()):
        raise ThemeError(f"the theme {path} lacks {', '.join(missing)}")
    if unknown := sorted(entries.keys() - known.keys()):
        raise ThemeError(f"the theme {path} has entries that mean nothing: {', '.join(unknown)}")
    try:
        return Theme(path.stem, **entries)
    except RecursionError as error:  # no value of a theme is nested
        raise ThemeError(f"cannot read the theme {path}: it is nested too deep") from error
