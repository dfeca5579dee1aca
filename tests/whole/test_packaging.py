"""What packages are made of: written from the parser, and named where it is."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chatapp.cli.completion import SHELLS
from chatapp.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


def load_forms() -> dict[str, Callable[[], Iterator[str]]]:
    """The writers of packaging/reference.py, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("reference", PACKAGING / "reference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.FORMS)


FORMS = load_forms()


@pytest.mark.parametrize("form", FORMS)
def test_the_parser_is_told_whole(form: str) -> None:
    text = "\n".join(FORMS[form]()).replace("\\-", "-")
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", text), name
    for part in ("chatapp export gguf", "chatapp sessions rm", "browser", "offline", "json-schema"):
        assert part in text, part


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("chatapp export o", ["openvino", "onnx", "ovms"]),
        ("chatapp run --backend=on", ["onnx"]),  # bash replaces what stands behind the sign
        ("chatapp run --system @con", ["@concise"]),
        ("chatapp run ./", []),
    ],
)
def test_bash_completes_what_chatapp_offers(line: str, offered: list[str]) -> None:
    python = f'chatapp() {{ "{sys.executable}" -m chatapp "$@"; }}; compopt() {{ :; }}'  # which is for completing only
    ask = f'COMP_WORDS=({line}); COMP_CWORD={line.count(" ")}; COMP_LINE="{line}"; COMP_POINT={len(line)}'
    code = f'{python}; {SHELLS["bash"]}\n{ask}; _chatapp chatapp; echo "${{COMPREPLY[@]}}"'
    assert subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True).stdout.split() == offered


def test_what_the_build_installs_is_there() -> None:
    script = (PACKAGING / "build").read_text("utf-8")
    named = set(
        re.findall(r"\b(packaging/[\w./-]+\.\w+|chatapp/desktop/[\w./-]+\.\w+|LICENSE|CHANGELOG\.md)\b", script)
    )
    assert len(named) > 8
    assert not [name for name in named if not (ROOT / name).exists()]
    sizes = re.search(r"for size in ([\d ]+);", script)
    assert sizes and all((PACKAGING / "desktop" / "icons" / f"{size}.png").exists() for size in sizes[1].split())


def test_the_bundle_has_every_grammar_and_no_reference_implementation() -> None:
    spec = (PACKAGING / "bundle" / "chatapp.spec").read_text("utf-8")
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    grammars = {found[1] for line in needed if (found := re.match(r"tree-sitter-(\w+)", line))}
    listed = re.search(r"GRAMMARS = \(([^)]*)\)", spec)
    assert listed and set(re.findall(r'"(\w+)"', listed[1])) == grammars
    assert '"torch"' in spec and '"transformers"' in spec


@pytest.mark.skipif(not shutil.which("sh"), reason="there is no shell here")
def test_the_installer_takes_no_unknown_option_for_an_address() -> None:
    done = subprocess.run(["sh", PACKAGING / "install.sh", "--prefix"], capture_output=True, text=True)
    assert done.returncode == 2 and "unknown option --prefix" in done.stderr


def test_packages_open_a_window_of_the_systems_web_view() -> None:
    entry = (PACKAGING / "desktop" / "chatapp.desktop").read_text("utf-8")
    assert "\nExec=chatapp desktop\n" in entry
    for path, view, bindings in (
        ("deb/control", "gir1.2-webkit2-4.1", "libgirepository-1.0-1"),
        ("rpm/chatapp.spec", "webkit2gtk4.1", "gobject-introspection"),
    ):
        recommended = "".join(re.findall(r"^Recommends:.*$", (PACKAGING / path).read_text("utf-8"), re.M))
        assert view in recommended and bindings in recommended, path
    spec = (PACKAGING / "bundle" / "chatapp.spec").read_text("utf-8")
    assert re.search(r'NEVER = \[[^\]]*"gi"', spec)  # whose analysis would collect GTK


def test_a_frozen_chatapp_is_the_python_of_its_own_modules_only(tmp_path: Path) -> None:
    entry = PACKAGING / "bundle" / "entry.py"

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, entry, *words], cwd=tmp_path, capture_output=True, text=True)

    assert run("-P", "-m", "chatapp", "--version").stdout.startswith("chatapp ")
    assert run("--version").stdout.startswith("chatapp ")
    refused = run("-m", "http.server")
    assert refused.returncode == 2 and "Error" in refused.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no search path is set")
@pytest.mark.parametrize("words", ["desktop", "--offline desktop", "version"])
def test_a_frozen_chatapp_keeps_its_libraries_to_itself(words: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "again $LD_LIBRARY_PATH $LD_LIBRARY_PATH_ORIG $*"\n')
    python.chmod(0o700)
    code = "import os, runpy, sys; sys._MEIPASS = '/bundle'; sys.executable = sys.argv.pop(1);"
    code += f"runpy.run_path({str(PACKAGING / 'bundle' / 'entry.py')!r})['stand_apart']('/bundle');"
    code += "print(os.environ['LD_LIBRARY_PATH'], os.environ['PYINSTALLER_RESET_ENVIRONMENT'])"

    def run(path: str) -> str:
        given = os.environ | {"LD_LIBRARY_PATH": path, "LD_LIBRARY_PATH_ORIG": "/given"}
        command = [sys.executable, "-c", code, str(python), *words.split()]
        return subprocess.run(command, env=given, check=True, capture_output=True, text=True).stdout.strip()

    told = run("/bundle:/given")
    if "desktop" in words:  # where the system's libraries are used, they are searched first
        again, path, given, *rest = told.split()
        assert (again, given, rest) == ("again", "/given", words.split())
        first, system, last = path.split(":")
        assert (first, last) == ("/given", "/bundle") and [*Path(system).glob("libc.so*")]
        told = run(path)
    assert told == "/given 1"  # of what it starts, programs of the system find their own, and chatapp the bundle's


def test_every_page_of_the_site_is_there_and_every_document_is_a_page() -> None:
    site = (PACKAGING / "site" / "mkdocs.yml").read_text("utf-8")
    named = set(re.findall(r"^ +- .*: (\S+\.md)$", site, re.M)) - {
        "index.md",
        "reference.md",
    }  # written when it is built
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert named == pages
