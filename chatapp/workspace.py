"""The model store of this user: the usual folder, and those on other disks."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.settings import settings
from chatapp.settings.settings import SettingsError
from chatapp.text.printable import printable

if TYPE_CHECKING:
    from model_store import Store


def open_store() -> "Store":
    """The store, in all folders that are there; says on standard error which are not."""
    from model_store import Store

    folders = [Path(text).expanduser() for text in settings.read().stores]
    for folder in folders:
        if not folder.is_absolute():
            raise SettingsError(f"the store folder {folder} must be an absolute path; see `stores` in the settings")
        if not folder.is_dir():
            where = printable(str(folder))
            print(f"Note: the store folder {where} is not there; its models are left out", file=sys.stderr)
    there = [folder for folder in folders if folder.is_dir()]
    usual = settings.models()
    first = next((folder for folder in there if os.access(folder, os.W_OK)), usual)
    rest = [folder for folder in dict.fromkeys([*there, usual]) if folder != first]
    return Store(first, settings.places(), rest)
