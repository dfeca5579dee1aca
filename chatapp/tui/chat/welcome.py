"""Widget: a quiet word on what this is, as long as the page is empty."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

KEYS = {
    "completion": (("ctrl+j", "continue this example, or your text"), ("esc", "stop")),
    "chat": (("enter", "send"), ("ctrl+j", "new line"), ("esc", "stop")),
}
PROMISE = {"completion": "continues your text", "chat": "answers your messages"}


class Welcome(Static):
    """What the model does, the first keys, and that nothing leaves the machine."""

    def show(self, mode: str, model: str, about: str, *, gaps: bool) -> None:
        """Fill in what is known of the model by now."""
        size = f" ({about})" if about else ""
        keys = Content.assemble(
            *(part for key, does in KEYS[mode] for part in ((f"{key:<8}", "$accent"), (f"{does}\n", "$muted")))
        )
        more = ", and fills the gap\nat the cursor (ctrl+f)" if gaps and mode == "completion" else ""
        limits = "\n4M parameters, it knows only Python." if model == "builtin" else ""
        size = "" if limits else size
        promise = f"{size} {PROMISE[mode]}{more}.{limits}\nEverything stays on this machine."
        self.update(keys + Content.assemble("\n", (model, "bold"), promise))
