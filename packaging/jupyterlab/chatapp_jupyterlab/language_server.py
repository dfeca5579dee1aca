"""One `chatapp lsp` for all notebooks of a Jupyter server."""

import asyncio
import logging
import os
import shutil
import sys
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

LOG = logging.getLogger(__name__)
OPEN = 20
"""So many texts the language server knows at once."""


class NotStartedError(Exception):
    """The language server cannot be started; says why, and what to do."""


@dataclass(frozen=True)
class Asked:
    """A text, the place in it, in units of UTF-16, and how the user wants it completed."""

    uri: str
    language: str
    text: str
    line: int
    character: int
    trigger_kind: int
    settings: dict[str, Any]


class LanguageServer:
    """The process, started when it is first needed, and again when it has ended."""

    def __init__(self, command: str, root: Path) -> None:
        self.command = command
        self.root = root
        self._client: LanguageClient | None = None
        self.process: Process | None = None
        self._starting = asyncio.Lock()
        self._versions: dict[str, int] = {}
        """Of each text that it knows, the one asked about last at the end."""
        self._settings: dict[str, Any] = {}
        self._messages: list[str] = []

    def take_messages(self) -> list[str]:
        """What the language server has to say to the user since this was asked."""
        messages, self._messages = self._messages, []
        return messages

    async def complete(self, asked: Asked) -> list[dict[str, str]]:
        """The offers; none where a newer request about the same text has come."""
        async with self._starting:
            client = await self._start(asked.settings)
        self._tell(client, asked)
        try:
            answer = await client.text_document_inline_completion_async(
                types.InlineCompletionParams(
                    types.InlineCompletionContext(types.InlineCompletionTriggerKind(asked.trigger_kind)),
                    types.TextDocumentIdentifier(asked.uri),
                    types.Position(asked.line, asked.character),
                )
            )
        except JsonRpcException:  # it was cancelled, or the process has ended, and starts with the next request
            return []
        items = answer.items if isinstance(answer, types.InlineCompletionList) else answer or []
        return [{"insertText": text if isinstance(text := item.insert_text, str) else text.value} for item in items]

    def _tell(self, client: LanguageClient, asked: Asked) -> None:
        """Let the language server know the text and the settings as they are now."""
        if asked.settings != self._settings:
            self._settings = asked.settings
            client.workspace_did_change_configuration(types.DidChangeConfigurationParams(asked.settings))
        version = self._versions.pop(asked.uri, 0) + 1
        self._versions[asked.uri] = version
        if version == 1:
            document = types.TextDocumentItem(asked.uri, asked.language, version, asked.text)
            client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        else:
            client.text_document_did_change(
                types.DidChangeTextDocumentParams(
                    types.VersionedTextDocumentIdentifier(version, asked.uri),
                    [types.TextDocumentContentChangeWholeDocument(asked.text)],
                )
            )
        if len(self._versions) > OPEN:
            oldest = next(iter(self._versions))
            del self._versions[oldest]
            client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(oldest)))

    async def _start(self, settings: dict[str, Any]) -> LanguageClient:
        if self._client and self.process and self.process.returncode is None:
            return self._client
        beside = Path(sys.executable).parent
        command = shutil.which(self.command, path=f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
        if not command:
            raise NotStartedError(
                f"the command {self.command} was not found; install chatapp, "
                "or start Jupyter with --Chatapp.command=PATH"
            )
        client = LanguageClient("chatapp-jupyterlab", "0.1.0")
        client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self._messages.append(params.message))
        client.feature(types.WINDOW_LOG_MESSAGE)(lambda params: LOG.info(params.message))
        await client.start_io(command, "lsp")
        self.process = process = client._server  # there is no public name for it
        assert process
        listener = asyncio.create_task(self._listen(process))
        text = types.TextDocumentClientCapabilities(inline_completion=types.InlineCompletionClientCapabilities())
        folder = types.WorkspaceFolder(self.root.as_uri(), self.root.name)
        started = asyncio.create_task(
            client.initialize_async(
                types.InitializeParams(
                    types.ClientCapabilities(text_document=text),
                    process_id=os.getpid(),
                    root_uri=folder.uri,
                    workspace_folders=[folder],
                    initialization_options=settings,
                )
            )
        )
        await asyncio.wait({started, listener}, return_when=asyncio.FIRST_COMPLETED)
        if not started.done() or started.exception():
            started.cancel()
            raise NotStartedError(f"{command} lsp has ended: {await listener or 'it does not say why'}")
        client.initialized(types.InitializedParams())
        self._client, self._versions, self._settings = client, {}, settings
        return client

    @staticmethod
    async def _listen(process: Process) -> str:
        """The last line that the process writes to its standard error, once it has ended."""
        last = ""
        while process.stderr and (line := await process.stderr.readline()):
            last = line.decode(errors="replace").strip() or last
        return last
