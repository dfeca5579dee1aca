"""Tables stand in columns, whatever is written in them, and numbers are rounded as people read them."""

import pytest

from chatapp.text.units import count, percent, rate, round_up, table


def test_columns_stand_below_each_other_behind_wide_characters_and_accents() -> None:
    shown = table(("NAME", "SIZE"), [("plain", "1 MB"), ("\u6a21\u578b", "2 MB"), ("e\u0301t\u00e9", "3 MB")])
    assert shown.splitlines() == ["NAME   SIZE", "plain  1 MB", "\u6a21\u578b   2 MB", "e\u0301t\u00e9    3 MB"]


@pytest.mark.parametrize(
    ("number", "shown"),
    [(999, "999"), (1_000, "1k"), (999_499, "999k"), (999_999, "1M"), (999_885_952, "1B"), (25_300_000, "25.3M")],
)
def test_a_number_has_the_unit_of_what_it_is_rounded_to(number: int, shown: str) -> None:
    assert count(number) == shown


def test_a_whole_percentage_is_not_rounded_down_to_the_one_before() -> None:
    assert [percent(place / 100) for place in range(101)] == [f"{place} %" for place in range(101)]
    assert percent(0.9999) == "99 %"


def test_there_is_a_scale_for_nothing_at_all() -> None:
    assert 0 < round_up(0.0) < 1e-5 and round_up(0.0013) == pytest.approx(0.0015)


def test_a_speed_has_three_digits_or_so_and_a_dash_where_nothing_was_timed() -> None:
    assert [rate(value) for value in (7.04, 99.9, 1234.5, 0.0, None)] == ["7.0", "99.9", "1,234", "–", "–"]
