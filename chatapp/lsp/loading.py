"""Opens a model while the editor is already served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from lsprotocol.types import WorkDoneProgressBegin, WorkDoneProgressEnd, WorkDoneProgressReport

from chatapp.text.threads import in_thread
from model_store import Progress as OnProgress

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

Result = TypeVar("Result")
PATIENCE = 5.0
"""Seconds an editor has to accept a progress bar."""


async def with_progress(server: LanguageServer, title: str, work: Callable[[OnProgress], Result]) -> Result:
    """Run `work` on a thread, with a progress bar if the editor has one."""
    window, loop = server.client_capabilities.window, asyncio.get_running_loop()
    token = str(uuid4()) if window and window.work_done_progress else None
    begun, last = False, -1

    def report(step: str, share: float) -> None:
        nonlocal last
        if begun and token and last != (last := min(round(100 * share), 100)):
            server.work_done_progress.report(token, WorkDoneProgressReport(message=step, percentage=last))

    working = in_thread(lambda: work(lambda step, share: void(loop.call_soon_threadsafe(report, step, share))))
    if token:
        creating = asyncio.ensure_future(server.work_done_progress.create_async(token))
        await asyncio.wait({creating}, timeout=PATIENCE)
        if creating.done() and not creating.exception() and not working.done():
            server.work_done_progress.begin(token, WorkDoneProgressBegin(title=title, percentage=0))
            begun = True
    try:
        return await working
    finally:
        if begun and token:
            server.work_done_progress.end(token, WorkDoneProgressEnd())


def void(_: object) -> None:
    """Discard a result."""
