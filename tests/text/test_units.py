"""Tables stand in columns, whatever is written in them."""

from chatapp.text.units import table


def test_columns_stand_below_each_other_behind_wide_characters_and_accents() -> None:
    shown = table(("NAME", "SIZE"), [("plain", "1 MB"), ("\u6a21\u578b", "2 MB"), ("e\u0301t\u00e9", "3 MB")])
    assert shown.splitlines() == ["NAME   SIZE", "plain  1 MB", "\u6a21\u578b   2 MB", "e\u0301t\u00e9    3 MB"]
