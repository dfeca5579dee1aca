"""What the processor is said to do, from what systems tell."""

import platform
from pathlib import Path

import pytest

from backends import processor


@pytest.mark.parametrize(
    ("machine", "facts", "expected"),
    [
        ("x86_64", ({"flags": "sse2 avx2 avx512f"},), True),
        ("x86_64", ({"flags": "avx512f avx512_vnni"}, {"flags": ""}), False),
        ("AMD64", ({"flags": "avx2 avx_vnni"},), False),
        ("AMD64", (), True),
        ("arm64", (), False),
        ("aarch64", ({"Features": "fp asimd"},), False),
    ],
)
def test_products_of_bytes_overflow_on_x86_unless_it_is_known_not_to(
    monkeypatch: pytest.MonkeyPatch, machine: str, facts: tuple[dict[str, str], ...], expected: bool
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(processor, "cpuinfo", lambda: facts)
    assert processor.int8_overflows() is expected


def test_a_container_has_the_cores_of_its_quota(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processor, "QUOTA", tmp_path / "cpu.max")
    all_of_them = processor.cores()
    for quota, cores in ("50000 100000", 1), ("max 100000", all_of_them), ("150000 100000", min(2, all_of_them)):
        (tmp_path / "cpu.max").write_text(quota)
        assert processor.cores() == cores


def test_there_are_cores() -> None:
    assert processor.cores() >= 0
    assert processor.processor()
