"""Styles go by the names of classes, so no two widgets have the same: the styles of one would be the other's, too."""

from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from textual.widget import Widget

import chatapp.tui


def below(kind: type[Widget]) -> Iterator[type[Widget]]:
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


def test_no_two_widgets_have_the_same_name() -> None:
    for module in walk_packages(chatapp.tui.__path__, "chatapp.tui."):
        import_module(module.name)
    ours = {one for one in below(Widget) if one.__module__.startswith("chatapp.")}
    assert len(ours) > 40
    assert [name for name, count in Counter(one.__name__ for one in ours).items() if count > 1] == []
