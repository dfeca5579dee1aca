"""Named sampling options: the built-in presets, and the user's own in a TOML file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from backends.suggest import suggest
from chatapp.generation.options import KNOBS, OptionError, Options
from chatapp.settings import toml_files
from chatapp.text.errors import InputError
from chatapp.text.files import write_whole

LONGEST_NAME = 30
NOT_IN_PRESETS = frozenset({"n", "logprobs", "think"})
"""Options that say how many replies there are or what is reported, not how they are sampled."""


class PresetError(InputError):
    """A preset, or the file of presets, is invalid."""


@dataclass(frozen=True)
class Preset:
    """Named options; the rest are the model's defaults."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)  # Any: what Options takes
    about: str = ""
    """What it is for; empty for the user's own."""

    @property
    def built_in(self) -> bool:
        return bool(self.about)

    def over(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """These options over the chosen ones: sampling options are replaced, others such as the seed stay."""
        return {name: value for name, value in chosen.items() if name not in KNOBS} | dict(self.options)


BUILT_IN = (
    Preset("default", {}, "as the model's publisher recommends"),
    Preset(
        "precise",
        {"temperature": 0.3, "top_k": 20, "top_p": 0.8, "min_p": 0.0, "repetition_penalty": 1.0},
        "facts, summaries, extraction",
    ),
    Preset(
        "balanced",
        {"temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.0, "repetition_penalty": 1.0},
        "conversation",
    ),
    Preset(
        "creative",
        {"temperature": 1.1, "top_k": 0, "top_p": 1.0, "min_p": 0.05, "repetition_penalty": 1.05},
        "stories, ideas, names",
    ),
    Preset(
        "code",
        {"temperature": 0.2, "top_k": 40, "top_p": 0.95, "min_p": 0.0, "repetition_penalty": 1.0},
        "programs, where words must recur",
    ),
    Preset("greedy", {"temperature": 0.0, "repetition_penalty": 1.0}, "always the likeliest token"),
)


def read(path: Path) -> dict[str, Preset]:
    """All presets by name; the user's own hide built-in ones of the same name."""
    return {preset.name: preset for preset in BUILT_IN} | read_own(path)


def read_own(path: Path) -> dict[str, Preset]:
    """Read the user's presets from the file at `path`; none if there is no file."""
    found = toml_files.read(path, "presets", PresetError)
    return _read_tables(path, found)


def _read_tables(path: Path, found: Mapping[str, object]) -> dict[str, Preset]:
    kept = [read_preset(path, name, options) for name, options in found.items()]
    return {preset.name: preset for preset in kept}


def find(path: Path, name: str) -> Preset:
    """The preset of this name; PresetError suggests the nearest."""
    known = read(path)
    if name in known:
        return known[name]
    hint = suggest(name, known, f"choose from {', '.join(known)}")
    raise PresetError(f"unknown preset {name!r}; {hint}")


def save(path: Path, name: str, options: Mapping[str, Any]) -> Preset:
    """Save options as a preset, replacing the user's preset of that name."""
    preset = check_preset(_name(name), {key: value for key, value in options.items() if key not in NOT_IN_PRESETS})
    _write(path, read_own(path) | {preset.name: preset})
    return preset


def rename(path: Path, old: str, new: str) -> None:
    """Rename one of the user's presets."""
    presets, new = read_own(path), _name(new)
    refuse_built_in(presets, old)
    if new != old and new in read(path):
        raise PresetError(f"preset {new!r} already exists; choose another name")
    _write(path, {new if name == old else name: preset for name, preset in presets.items()})


def delete(path: Path, name: str) -> None:
    """Delete one of the user's presets; a built-in one it hid is visible again."""
    presets = read_own(path)
    refuse_built_in(presets, name)
    del presets[name]
    _write(path, presets)


def refuse_built_in(presets: Mapping[str, Preset], name: str) -> None:
    """Raise PresetError if a preset is not the user's own."""
    if name not in presets:
        built_in = any(preset.name == name for preset in BUILT_IN)
        what = f"the preset {name!r} is built in and cannot be changed" if built_in else f"unknown preset {name!r}"
        raise PresetError(what)


def _name(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise PresetError(f"a preset needs a name of 1 to {LONGEST_NAME} characters")
    return name


def check_preset(name: str, options: Mapping[str, Any]) -> Preset:
    """A preset of these options; PresetError if one is unknown or invalid."""
    known = [field.name for field in fields(Options) if field.name not in NOT_IN_PRESETS]
    for option in options:
        if option not in known:
            hint = suggest(option, known, f"choose from {', '.join(known)}")
            raise PresetError(f"unknown option {option!r} in the preset {name!r}; {hint}")
    try:
        checked = Options(**options)
    except (OptionError, TypeError) as error:
        raise PresetError(f"the preset {name!r} has a wrong value: {error}") from error
    return Preset(name, {option: getattr(checked, option) for option in options})


def read_preset(path: Path, name: str, options: object) -> Preset:
    """A preset from its TOML table."""
    try:
        if not isinstance(options, dict):
            raise PresetError(f"{name!r} is not a preset; put options below a line such as [my-preset]")
        biases = options.get("logit_bias", {})
        if not isinstance(biases, dict) or not all(token.isdecimal() for token in biases):
            raise PresetError(f"logit_bias of the preset {name!r} must be like {{ 123 = -1.5 }}")
        if "logit_bias" in options:
            options["logit_bias"] = {int(token): bias for token, bias in biases.items()}
        if not isinstance(options.get("stop", []), list):
            raise PresetError(f"stop of the preset {name!r} must be a list of texts")
        return check_preset(_name(name), options)
    except PresetError as error:
        raise PresetError(f"cannot read the presets in {path}: {error}") from error


def _write(path: Path, presets: Mapping[str, Preset]) -> None:
    tables = []
    for name, preset in presets.items():
        lines = toml_files.write_lines({name: value for name, value in preset.options.items() if value is not None})
        tables.append("\n".join([f"[{toml_files.write_value(name)}]", *lines, ""]))
    text = "\n".join(tables)
    try:
        _check_readable(path, text)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except (OSError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise PresetError(f"cannot write the presets to {path}: {reason or error}") from error


def _check_readable(path: Path, text: str) -> None:
    """Refuse a text that could not be read back: all presets in the file would be lost."""
    if len(text.encode()) > toml_files.LARGEST:
        raise PresetError(f"cannot write the presets to {path}: they would exceed 1 MB; delete some")
    try:
        _read_tables(path, toml_files.parse(text))
    except (ValueError, PresetError) as error:
        raise PresetError(f"cannot write the presets to {path}: they could not be read again ({error})") from error
