"""Where things live on this machine, and what the user chose."""

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

if TYPE_CHECKING:  # the help needs the settings, and no store
    from collections.abc import Mapping

    from chatapp.settings.tool_servers import ToolServer
    from model_store import Places

OBJECTIVES = ("chat", "completion", "throughput", "battery")
"""The objectives for which a placement can be the best."""


class SettingsError(UserError):
    """The settings cannot be read."""


@dataclass(frozen=True)
class Settings:
    """The settings of a user."""

    model: str = "builtin"
    theme: str = ""
    """The name of the colours; nothing: midnight, and in a window what the system wears."""
    backend: str = ""
    """Where models run; nothing: where they run best."""
    objective: str = "chat"
    history: bool = True
    """Whether conversations are kept."""
    suspend: bool = True
    """Whether Ctrl+Z with nothing typed and nothing to undo suspends the screen, to the shell."""
    completion_stats: bool = False
    """Whether it is kept what became of offers in editors: how many were shown and taken, how quick they were."""
    completion_adaptive: bool = False
    """Whether the probability from which an offer is shown follows that."""
    stores: tuple[str, ...] = ()
    """Folders with models, beside the usual one; the first that can be written to gets what is new."""
    mcp: "Mapping[str, ToolServer]" = field(default_factory=dict)
    """Servers of tools, by name."""


def home() -> Path:
    """The folder that holds everything chatapp keeps: CHATAPP_HOME, else the platform's data folder."""
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
            f"runtimes open nothing in {found}, whose path is not UTF-8; set CHATAPP_HOME to another folder"
        ) from error
    except RuntimeError as error:  # neither a variable nor the system's list of users has a folder
        raise SettingsError("this user has no home folder; set HOME, or CHATAPP_HOME to a whole path") from error


def user_folder() -> Path:
    """The folder of the user, where other programs have their settings."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise SettingsError("this user has no home folder; set HOME") from error


def places() -> "Places":
    """Where other applications keep models: as their own variables say, else where they do by themselves."""
    from model_store import Places

    hub = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    expand = os.path.expanduser  # which lets ~ be where there is no home folder, and nothing is found below that
    return Places(
        hub_cache=Path(expand(os.environ.get("HF_HUB_CACHE") or hub / "hub")),
        ollama=Path(expand(os.environ.get("OLLAMA_MODELS") or "~/.ollama/models")),
        lm_studio=Path(expand("~/.lmstudio/models")),
    )


def read(path: Path) -> Settings:
    """The settings in a TOML file, and in the environment; the defaults where nothing was set."""
    found = toml_files.read(path, "settings", SettingsError)
    known = [one.name for one in fields(Settings)]
    for name, value in found.items():
        if name not in known:
            hint = suggest(name, known, f"known are {', '.join(known)}")
            raise SettingsError(f"unknown setting {name!r} in {path}; {hint}")
        if name == "stores":
            if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
                raise SettingsError(f"the setting 'stores' in {path} must be a list of folders, not {value!r}")
            found[name] = tuple(value)
            continue
        if name == "mcp":
            from chatapp.settings import tool_servers  # few have any

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
        raise SettingsError(f"there is no objective {chosen.objective!r}; choose from {', '.join(OBJECTIVES)}")
    if chosen.backend not in ("", *NAMES):
        raise SettingsError(f"there is no backend {chosen.backend!r}; choose from {', '.join(NAMES)}")
    return chosen


def choose_theme(path: Path, name: str) -> None:
    """Write the theme into the user's settings, and leave every other line of theirs as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = toml_files.read_text(path) if path.exists() else ""
        write_whole(path, _with_theme(path, text, name))
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error  # without the name of a temporary file
        raise SettingsError(f"cannot write the theme into {path}: {reason}; it lasts until you leave") from error


def _with_theme(path: Path, text: str, name: str) -> str:
    """The settings with another theme: in the line that has it, else in one more before the first table."""
    wanted, line = toml_files.parse(text) | {"theme": name}, toml_files.write_lines({"theme": name})[0]
    places = re.finditer(r"""(?m)^[ \t]*(["']?)theme\1[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*'|[^\s#]+)""", text)
    news = [text[: place.start()] + line + text[place.end() :] for place in places]
    table = re.search(r"(?m)^[ \t]*\[", text)
    head, tail = (text[: table.start()], text[table.start() :]) if table else (text, "")
    end = "\r\n" if "\r\n" in text else "\n"
    news.append(head + (end if head and not head.endswith("\n") else "") + line + end + tail)
    for new in news:
        with suppress(ValueError):  # a line that only looks so, within a longer text
            if toml_files.parse(new) == wanted:
                return new
    raise SettingsError(f"cannot find the place for the theme in {path}; write {line} there")
