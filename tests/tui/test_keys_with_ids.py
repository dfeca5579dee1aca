"""Every key that the help shows with an id can be bound by it."""

import re

from chatapp.tui.app import list_bindable
from support.checkpoints import ROOT


def test_every_id_in_the_screens_is_known() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "chatapp" / "tui").rglob("*.py")]
    ids = {name for text in sources for name in re.findall(r'Binding\([^\n]*\bid="([a-z_.]+)"', text)}
    assert len(ids) > 50 and ids <= {action.id for action in list_bindable()}
