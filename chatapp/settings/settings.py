"""The user's settings, and where chatapp and other programs keep their files."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from backends import NAMES
from backends.errors import UserError
from backends.suggest import suggest
from chatapp.settings import toml_files
from chatapp.text.files import write_whole

if TYPE_CHECKING:  # `chatapp --help` reads settings, but must not import the store
    from collections.abc import Mapping

    from chatapp.settings.tool_servers import ToolServer
    from model_store import Places

OBJECTIVES = ("chat", "completion", "throughput", "battery")
"""What a placement can be optimised for."""


class SettingsError(UserError):
    """The settings cannot be read or written."""


@dataclass(frozen=True)
class Settings:
    """The user's settings."""

    model: str = "builtin"
    theme: str = ""
    """Empty: midnight; in a window, what the system's appearance suggests."""
    backend: str = ""
    """Empty: the fastest one for each model."""
    objective: str = "chat"
    system: str = ""
    """What answers of new conversations keep to: a system prompt, or `@NAME` of one in the library."""
    history: bool = True
    """Whether conversations are saved."""
    suspend: bool = True
    """Whether Ctrl+Z suspends the screen when there is nothing typed and nothing to undo."""
    completion_stats: bool = False
    """Whether to record how many completions were shown and accepted in editors, and their latency."""
    completion_adaptive: bool = False
    """Whether the threshold for showing a completion follows those records."""
    stores: tuple[str, ...] = ()
    """More folders with models; new models go to the first one that is writable."""
    mcp: "Mapping[str, ToolServer]" = field(default_factory=dict)
    """Tool servers by name."""


def home() -> Path:
    """The folder for all of chatapp's files: CHATAPP_HOME, or the platform's data folder."""
    chosen = os.environ.get("CHATAPP_HOME")
    try:
        if chosen:
            found = Path(chosen).expanduser().absolute()
        else:
            found = platformdirs.user_data_path("chatapp", appauthor=False)
        str(found).encode()
        return found
    except UnicodeEncodeError as error:
        raise SettingsError(
            f"the path {found} is not UTF-8, which runtimes need; set CHATAPP_HOME to another folder"
        ) from error
    except RuntimeError as error:  # neither HOME nor the user database has a home folder
        raise SettingsError("this user has no home folder; set HOME, or CHATAPP_HOME to an absolute path") from error


def user_folder() -> Path:
    """The user's home folder, where other programs keep their settings."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise SettingsError("this user has no home folder; set HOME") from error


def places() -> "Places":
    """Where other programs keep models: by their environment variables, or their defaults."""
    from model_store import Places

    hub = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    expand = os.path.expanduser  # unlike Path.expanduser, it does not raise if there is no home folder
    return Places(
        hub_cache=Path(expand(os.environ.get("HF_HUB_CACHE") or hub / "hub")),
        ollama=Path(expand(os.environ.get("OLLAMA_MODELS") or "~/.ollama/models")),
        lm_studio=Path(expand("~/.lmstudio/models")),
    )


def read(path: Path) -> Settings:
    """The settings from a TOML file and the environment, with defaults for the rest."""
    found = toml_files.read(path, "settings", SettingsError)
    known = [one.name for one in fields(Settings)]
    for name, value in found.items():
        if name not in known:
            hint = suggest(name, known, f"choose from {', '.join(known)}")
            raise SettingsError(f"unknown setting {name!r} in {path}; {hint}")
        if name == "stores":
            if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
                raise SettingsError(f"the setting 'stores' in {path} must be a list of folders, not {value!r}")
            found[name] = tuple(value)
            continue
        if name == "mcp":
            from chatapp.settings import tool_servers  # late, since few users have any

            found[name] = tool_servers.read(value, str(path))
            continue
        wanted = type(getattr(Settings, name))
        if not isinstance(value, wanted):
            kind = "true or false" if wanted is bool else "a text in quotes"
            raise SettingsError(f"the setting {name!r} in {path} must be {kind}, not {value!r}")
    if backend := os.environ.get("CHATAPP_BACKEND"):
        found["backend"] = backend
    if folders := os.environ.get("CHATAPP_STORES"):
        found["stores"] = tuple(folder for folder in folders.split(os.pathsep) if folder)
    chosen = Settings(**found)
    if chosen.objective not in OBJECTIVES:
        raise SettingsError(f"unknown objective {chosen.objective!r}; choose from {', '.join(OBJECTIVES)}")
    if chosen.backend not in ("", *NAMES):
        raise SettingsError(f"unknown backend {chosen.backend!r}; choose from {', '.join(NAMES)}")
    return chosen


def choose_theme(path: Path, name: str) -> None:
    """Set the theme in the settings file without changing any other line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = toml_files.read_text(path) if path.exists() else ""
        write_whole(path, _with_theme(path, text, name))
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error  # strerror omits the temporary file's name
        raise SettingsError(f"cannot save the theme in {path}: {reason}; it lasts until you quit") from error


def _with_theme(path: Path, text: str, name: str) -> str:
    """The settings with another theme: in its existing line, or in a new line before the first table."""
    wanted, line = toml_files.parse(text) | {"theme": name}, toml_files.write_lines({"theme": name})[0]
    places = re.finditer(r"""(?m)^[ \t]*(["']?)theme\1[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*'|[^\s#]+)""", text)
    news = [text[: place.start()] + line + text[place.end() :] for place in places]
    table = re.search(r"(?m)^[ \t]*\[", text)
    head, tail = (text[: table.start()], text[table.start() :]) if table else (text, "")
    end = "\r\n" if "\r\n" in text else "\n"
    news.append(head + (end if head and not head.endswith("\n") else "") + line + end + tail)
    for new in news:
        with suppress(ValueError):  # the match may lie within a multi-line string
            if toml_files.parse(new) == wanted:
                return new
    raise SettingsError(f"cannot save the theme in {path}; add this line by hand: {line}")
