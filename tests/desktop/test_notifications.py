"""The system's notifications of a native window."""

import logging
import sys
from types import ModuleType

import pytest

from chatapp.desktop.state import WindowState
from chatapp.desktop.window import NativeWindow


@pytest.mark.parametrize("fails", [False, True])
async def test_what_ends_is_told_and_where_the_system_has_none_nothing_is_printed(
    fails: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    class Notifier:
        """As desktop-notifier's: what goes wrong is logged, or raised."""

        def __init__(self, app_name: str) -> None:
            assert app_name == "chatapp"

        async def send(self, title: str, message: str) -> None:
            if fails:
                logging.getLogger("desktop_notifier.backends.base").warning("Notification failed", exc_info=True)
                raise ConnectionError("no bus")
            told.append(message)

    module = ModuleType("desktop_notifier")
    module.DesktopNotifier = Notifier  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "desktop_notifier", module)
    await NativeWindow(WindowState()).notify("The answer is there.")
    assert told == ([] if fails else ["The answer is there."])
    assert not caplog.records
