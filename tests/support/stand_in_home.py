"""A home whose model is a stand-in, and a text that a file completes by itself."""

from collections.abc import Callable
from dataclasses import replace

from chatapp.placement.selection import PlacementOptions
from chatapp.settings.settings import Settings
from chatapp.workspace import Opened, Workspace
from model_store import Progress
from support.scripted_engine import ScriptedEngine

REST = " help='more')"
LINE = f"    parser.add_argument('-v', '--verbose', action='count', default=0,{REST}\n"
CUT = LINE.index(REST)
HALF = LINE + LINE[:CUT]
"""Its second line goes on as the first did: a match so long that it is worth showing unasked, whatever a model says."""


class Home(Workspace):
    """A home whose model is a stand-in, which is opened when it may."""

    def __init__(self, engine: ScriptedEngine | None = None, *, stats: bool = False) -> None:
        super().__init__()
        self.engine, self.stats = engine, stats
        self.opened: list[str] = []

    def read_settings(self) -> Settings:
        return replace(super().read_settings(), completion_stats=self.stats, completion_adaptive=self.stats)

    def open_model(
        self,
        name: str,
        placement: PlacementOptions | None = None,
        *,
        on_progress: Progress | None = None,
        on_fallback: Callable[[str], object] = lambda reason: None,
        draft: str = "",
    ) -> Opened:
        self.opened.append(name)
        if not self.engine:
            return super().open_model(name, placement, on_progress=on_progress, on_fallback=on_fallback)
        if on_progress:
            on_progress("lowering", 0.5)
        return Opened(self.engine, name, 1, 0.0)


def texts(items: list[dict[str, object]]) -> list[object]:
    return [item["insertText"] for item in items]
