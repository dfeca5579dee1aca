"""Colour themes: one TOML file each, read and checked here."""

import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path


class ThemeError(Exception):
    """A theme file that cannot be used; the message names the file and the entry."""


@dataclass(frozen=True)
class Theme:
    """The colours of the application, by role, as `#rrggbb`."""

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

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "dark":
                if not isinstance(value, bool):
                    raise ThemeError(f"theme {self.name}: dark must be true or false, not {value!r}")
            elif field.name != "name" and not re.fullmatch(r"#[0-9a-fA-F]{6}", str(value)):
                raise ThemeError(f"theme {self.name}: {field.name} must be a colour like #1a2b3c, not {value!r}")


def load(folder: Path = Path(__file__).parent) -> dict[str, Theme]:
    """The themes in a folder, by name: the name of the file without its ending."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.toml"))}


def read(path: Path) -> Theme:
    """One theme file."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(f"cannot read the theme {path}: {error}") from error
    wanted = {field.name for field in fields(Theme)} - {"name"}
    if missing := sorted(wanted - entries.keys()):
        raise ThemeError(f"the theme {path} lacks {', '.join(missing)}")
    if unknown := sorted(entries.keys() - wanted):
        raise ThemeError(f"the theme {path} has entries that mean nothing: {', '.join(unknown)}")
    return Theme(path.stem, **entries)
