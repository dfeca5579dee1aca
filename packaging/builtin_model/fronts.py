"""Completes cases as users do: by the command, by the language server as an editor asks it, and by `/infill`."""

import asyncio
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import httpx2
from lines import Case, Projects
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from chatapp.cli.main import main

OFFERS = 8
"""Asked of the command, which prints those too that an editor does not show."""
PATIENCE = 60.0
"""Seconds for the server to load the model and to read a project."""


def by_command(projects: Projects, model: str, case: Case) -> str:
    """The first offer of `chatapp complete` that may be shown unasked, were it likely enough."""
    path = projects.write(case)
    said = io.StringIO()
    place = f"{case.prefix.count(chr(10)) + 1}:{len(case.given) + 1}"
    options = "--at", place, "-n", str(OFFERS), "--json", "--project", str(projects.folder / case.package)
    with redirect_stdout(said):
        main(["complete", model, str(path), *options])
    offers = [json.loads(line) for line in said.getvalue().splitlines()]
    texts = [offer["text"] for offer in offers if offer["withheld"][:4] in ("", "less")]
    return texts[0] if texts else ""


async def by_server(projects: Projects, model: str, cases: Sequence[Case], home: Path) -> list[str]:
    """The ghost text of `chatapp lsp`, from a threshold of 0 on."""
    client, loaded = LanguageClient("evaluation", "1"), asyncio.Event()
    client.feature(types.WINDOW_LOG_MESSAGE)(lambda told: loaded.set() if " is open" in told.message else None)
    await client.start_io(sys.executable, "-m", "chatapp", "lsp", env={**os.environ, "CHATAPP_HOME": str(home)})
    roots = sorted({projects.folder / case.package for case in cases})
    await client.initialize_async(
        types.InitializeParams(
            capabilities=types.ClientCapabilities(
                general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf32]),
                text_document=types.TextDocumentClientCapabilities(
                    inline_completion=types.InlineCompletionClientCapabilities()
                ),
            ),
            workspace_folders=[types.WorkspaceFolder(root.as_uri(), root.name) for root in roots],
            initialization_options={"threshold": 0, "model": model},
        )
    )
    client.initialized(types.InitializedParams())
    await asyncio.wait_for(loaded.wait(), PATIENCE)
    said = []
    for case in cases:
        uri = projects.write(case).as_uri()
        document = types.TextDocumentItem(uri, "python", 1, case.prefix + case.suffix)
        client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        place = types.Position(case.prefix.count("\n"), len(case.given))
        context = types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic)
        asked = types.InlineCompletionParams(context, types.TextDocumentIdentifier(uri), place)
        answer = await client.text_document_inline_completion_async(asked)
        items = answer.items if isinstance(answer, types.InlineCompletionList) else answer or ()
        said.append(str(items[0].insert_text) if items else "")
        client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()  # type: ignore[no-untyped-call]  # pygls does not say
    return said


def by_infill(model: str, cases: Sequence[Case], home: Path) -> list[str]:
    """The line that `/infill` of `chatapp serve` gives when asked as llama.vim does, with nothing but the file."""
    command = [sys.executable, "-m", "chatapp", "serve", model, "--port", "0"]
    environment = {**os.environ, "CHATAPP_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        try:
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.]+:\d+", line)))
            with httpx2.Client(base_url=address, timeout=PATIENCE) as client:
                return [ask(client, case) for case in cases]
        finally:
            server.terminate()


def ask(client: httpx2.Client, case: Case) -> str:
    """One line for a case."""
    before, _, line = case.prefix.rpartition("\n")
    place = {"input_prefix": f"{before}\n" if before else "", "prompt": line, "input_suffix": case.suffix}
    answer = client.post("/infill", json={**place, "stop": ["\n"], "n_predict": 64})
    return str(answer.raise_for_status().json()["content"])
