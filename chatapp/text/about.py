"""The parts of chatapp with versions and licences, for people and as a CycloneDX bill of materials."""

import importlib.metadata
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chatapp.text.units import columns

LONGEST: Final = 60
"""Longest name of a licence: some publishers put its whole text there."""
CLASSIFIER: Final = "License :: "


@dataclass(frozen=True)
class Part:
    """A library, or another part of chatapp that was made elsewhere."""

    name: str
    version: str
    licence: str
    origin: str
    """Its package URL."""


PAGE: Final = (
    Part("xterm.js", "6.0.0", "MIT", "pkg:npm/%40xterm/xterm@6.0.0"),
    Part("xterm.js addon-fit", "0.11.0", "MIT", "pkg:npm/%40xterm/addon-fit@0.11.0"),
    Part("xterm.js addon-unicode-graphemes", "0.4.0", "MIT", "pkg:npm/%40xterm/addon-unicode-graphemes@0.4.0"),
    Part("DejaVu Sans Mono", "2.37", "Bitstream-Vera", "pkg:npm/dejavu-fonts-ttf@2.37.3"),
)
"""The parts of the window's page: chatapp/desktop/page/."""
PACKED: Final = ("desktop-notifier", "PyGObject", "pywebview")
"""What a native window needs; in packages with Python included, and an extra for pip."""


def list_parts(also: Sequence[str] = PACKED if hasattr(sys, "frozen") else ()) -> list[Part]:
    """The parts by name: libraries that chatapp, or `also`, needs and that are installed, Python, and the page's."""
    python = Part("Python", platform.python_version(), "PSF-2.0", f"pkg:generic/python@{platform.python_version()}")
    libraries = [describe(found) for found in walk("chatapp", *also) if found.metadata["Name"] != "chatapp"]
    return sorted([python, *PAGE, *libraries], key=lambda part: part.name.casefold())


def walk(*of: str) -> Iterator[importlib.metadata.Distribution]:
    """The installed packages that `of` need, with themselves; extras do not count."""
    waiting, seen = [*of], {normal(name) for name in of}
    while waiting:
        try:
            found = importlib.metadata.distribution(waiting.pop())
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system
        yield found
        for line in found.requires or ():
            name, marker = re.match(r"[\w.-]+", line), line.partition(";")[2]
            platforms = re.findall(r"""sys_platform == ["'](\w+)""", marker)
            elsewhere = "extra ==" in marker or (platforms and sys.platform not in platforms)
            if name and not elsewhere and normal(name[0]) not in seen:
                seen.add(normal(name[0]))
                waiting.append(name[0])


def normal(name: str) -> str:
    """A package's normalised name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def describe(found: importlib.metadata.Distribution) -> Part:
    """A library by its own metadata."""
    facts = found.metadata
    classified = [
        line.rpartition(" :: ")[2] for line in facts.get_all("Classifier") or () if line.startswith(CLASSIFIER)
    ]
    stated = next((facts[name] for name in ("License-Expression", "License") if name in facts), "")
    stated = stated.strip().partition("\n")[0]
    licence = stated if 0 < len(stated) <= LONGEST else ", ".join(classified)
    name = facts["Name"]
    return Part(name, found.version, licence or "see its files", f"pkg:pypi/{normal(name)}@{found.version}")


def tell(version: str) -> str:
    """chatapp's version, and a table of its parts."""
    parts = columns([(part.name, part.version, part.licence) for part in list_parts()])
    return f"chatapp {version}, Apache-2.0\nModels run on this machine. It is made of:\n\n{parts}"


def bill(version: str) -> dict[str, Any]:  # Any: JSON
    """The bill of materials, CycloneDX 1.6, without time and place of making."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/chatapp@{version}",
                "name": "chatapp",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:pypi/chatapp@{version}",
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": part.origin,
                "name": part.name,
                "version": part.version,
                "licenses": [{"license": {"name": part.licence}}],
                "purl": part.origin,
            }
            for part in list_parts()
        ],
    }
