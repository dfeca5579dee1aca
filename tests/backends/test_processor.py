"""What the processor is said to do, from what systems tell."""

import platform

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
    assert processor.overflows() is expected


def test_there_are_cores() -> None:
    assert processor.cores() >= 0
    assert processor.processor()
