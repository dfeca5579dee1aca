"""What a machine lacks for Core ML is told, with what to do about it."""

import platform
import sys

import pytest

from backends import coreml


@pytest.mark.parametrize(
    ("release", "python", "found", "told"),
    [
        ("14.7", (3, 13), True, "Core ML needs macOS 15 or newer, and this is 14.7"),
        ("15.1", (3, 13), False, "coremltools is not installed; run: pip install coremltools"),
        (
            "15.1",
            (3, 14),
            False,
            "coremltools does not support this Python; install chatapp with Python 3.13",
        ),
        ("15.1", (3, 14), True, ""),  # it has come since
    ],
)
def test_what_a_mac_lacks_is_told(
    release: str, python: tuple[int, int], found: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coreml, "find_spec", lambda name: found or None)
    monkeypatch.setattr(platform, "mac_ver", lambda: (release, ("", "", ""), "arm64"))
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(sys, "version_info", (*python, 0, "final", 0))
    assert coreml.missing() == told
