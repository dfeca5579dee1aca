"""Widget: a quiet word on what this is, as long as the page is empty."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

KEYS = {
    "completion": (("tab", "take this example"), ("ctrl+j", "let the model go on"), ("esc", "stop it")),
    "chat": (("enter", "send"), ("ctrl+j", "new line"), ("esc", "stop the model")),
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
        more = ",\nand fills the gap at the cursor" if gaps and mode == "completion" else ""
        promise = f"{size} {PROMISE[mode]}{more}.\nEverything stays on this machine."
        self.update(keys + Content.assemble("\n", (model, "bold"), promise))
