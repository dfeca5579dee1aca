"""The versions of the runtimes."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from backends import BackendError, versions


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "coremltools"])
def test_it_is_the_one_of_the_metadata(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        expected = metadata.version(name)
    except metadata.PackageNotFoundError:
        pytest.skip("there is no package for this machine")
    monkeypatch.delattr(versions, "read_version")  # which is the slow way
    versions.version.cache_clear()
    assert versions.version(name) == expected


def test_metadata_elsewhere_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sources" / "odd").mkdir(parents=True)
    (tmp_path / "sources" / "odd" / "__init__.py").touch()
    (tmp_path / "site" / "odd-1.2.dist-info").mkdir(parents=True)
    (tmp_path / "site" / "odd-1.2.dist-info" / "METADATA").write_text("Name: odd\nVersion: 1.2\n")
    for name in ("sources", "site"):
        monkeypatch.setattr(sys, "path", [str(tmp_path / name), *sys.path])
    assert versions.version("odd") == "1.2"


def test_what_is_not_installed_is_told_with_what_to_do() -> None:
    with pytest.raises(BackendError, match="nothing_like_it is not installed; run: pip install nothing_like_it"):
        versions.version("nothing_like_it")


def test_a_program_that_takes_no_packages_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions.pip_install("torch") == "pip install torch"
    monkeypatch.setattr("sys.frozen", True, raising=False)
    assert versions.pip_install("torch").endswith("this one cannot add packages")
