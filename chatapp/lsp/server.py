"""The language server: documents come in, completions go out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidRequest, JsonRpcServerNotInitialized
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import RPCRequest
from pygls.uris import to_fs_path

from chatapp import __version__
from chatapp.completion.acceptance import BLOCK, Acceptance, Way
from chatapp.completion.completer import Completer, Offer
from chatapp.completion.place import AFTER, BEFORE, OpenFile, Place
from chatapp.generation import Engine
from chatapp.generation.contract import Wanted
from chatapp.lsp import settings
from chatapp.lsp.document import Document
from chatapp.lsp.folders import Folders, roots_of
from chatapp.lsp.items import ACCEPTED, inline_item, last_word, popup_item
from chatapp.lsp.loading import with_progress
from chatapp.lsp.requests import Requests
from chatapp.lsp.settings import ServerSettings, SettingError
from chatapp.lsp.shown import Numbered, Shown
from chatapp.lsp.streams import end_with
from chatapp.text.errors import describe_defect, one_line
from chatapp.workspace import Workspace
from model_store import Progress as OnProgress

SEVERAL = 5
"""Offers when the user asked for them."""
LISTED = 3
"""Offers in a popup list shown unasked."""
OPEN_FILES = 20
"""Maximum other open documents that are searched."""


class Protocol(LanguageServerProtocol):
    """pygls's protocol with our own documents.

    pygls's documents split lines differently from editors, and re-read the whole text at every key.
    """

    _server: Server

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """A document was opened."""
        self._server.open_document(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """A document was edited."""
        self._server.change_document(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """A document was closed."""
        self._server.close_document(params)

    def _send_data(self, data: Any) -> None:  # Any: as above
        if not self._server.gone:
            super()._send_data(data)

    def handle_message(self, message: Any) -> None:  # Any: what lsprotocol has for each method
        """Handle a message; requests before initialize or after shutdown, which pygls allows, are refused."""
        method = getattr(message, "method", "")
        early = self._workspace is None and method not in (types.INITIALIZE, types.EXIT)
        if isinstance(message, RPCRequest) and (early or self._server.shut_down):
            late = JsonRpcInvalidRequest("this server is shutting down; start another one")
            error = JsonRpcServerNotInitialized("initialize must come first") if early else late
            self._send_response(message.id, error=error.to_response_error())
        elif not early:
            super().handle_message(message)

    def structure_message(self, data: dict[str, Any]) -> Any:  # Any: JSON, and a type for each method
        """Parse a message; an invalid request is answered with an error."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            raise


class Server(LanguageServer):
    """Completion for one editor; docs/commands.md lists its settings."""

    protocol: Protocol

    def __init__(self, home: Workspace) -> None:
        super().__init__("chatapp", __version__, protocol_cls=Protocol)
        self.home = home
        self.documents: dict[str, Document] = {}
        """By URI, the most recently used last."""
        self.settings = ServerSettings()
        self.completer = Completer(None)
        self.requests: Requests[list[Offer]] = Requests()
        self.shown = Shown()
        self.folders = Folders(self.log_soon)
        self.acceptance: Acceptance | None = None
        self.adaptive = False
        self._noted = 0
        self.shut_down = self.gone = False
        self._model: str | None = None
        self._loading: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: set[str] = set()
        self._at_start: SettingError | None = None
        self.feature(types.INITIALIZE)(partial(self.begin))
        self.feature(types.INITIALIZED)(partial(self.start))
        self.feature(types.SHUTDOWN)(partial(self.prepare_to_exit))
        self.feature(types.EXIT)(partial(self.leave))
        self.feature(types.TEXT_DOCUMENT_DID_SAVE)(partial(self.save_document))
        self.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(lambda _: self.follow_folders())
        self.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)(partial(self.change_settings))
        self.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())(
            partial(self.inline_completion)
        )
        self.command(ACCEPTED)(partial(self.accept))

    # Lifecycle

    def begin(self, params: types.InitializeParams) -> None:
        """`initialize`: read the editor's capabilities and settings."""
        if params.process_id is not None and params.process_id > 0:
            end_with(params.process_id)
        text = params.capabilities.text_document
        if not (text and text.inline_completion):  # a popup list would only repeat the ghost text
            options = types.CompletionOptions(resolve_provider=False)  # ALE takes an empty object for "no completion"
            self.feature(types.TEXT_DOCUMENT_COMPLETION, options)(partial(self.popup_completion))
        try:
            self.settings = settings.read(params.initialization_options, self.settings)
        except SettingError as error:
            self._at_start = error

    def start(self, params: types.InitializedParams) -> None:
        """`initialized`: show problems found so far, and open the model."""
        self._loop = asyncio.get_running_loop()
        if self._at_start:
            self.show_error(str(self._at_start))
        self.follow_settings()

    def prepare_to_exit(self, params: None) -> None:
        """`shutdown`."""
        self.shut_down = True

    def leave(self, params: None) -> None:
        """`exit`: send nothing more."""
        self.gone = True

    async def change_settings(self, params: types.DidChangeConfigurationParams) -> None:
        """The editor's settings have changed; invalid ones are reported and ignored."""
        given = params.settings
        workspace = self.client_capabilities.workspace
        if given is None and workspace and workspace.configuration:
            wanted = types.ConfigurationParams([types.ConfigurationItem(section="chatapp")])
            answer = await self.workspace_configuration_async(wanted)
            given = answer[0] if answer else None
        try:
            self.settings = settings.read(given, self.settings)
        except SettingError as error:
            self.show_error(str(error))
            return
        self.follow_settings()

    def follow_settings(self) -> None:
        """Apply the settings, opening another model if needed."""
        try:
            chosen = self.home.read_settings()
            self.acceptance = self.home.open_acceptance() if chosen.completion_stats else None
            self.adaptive = chosen.completion_adaptive
        except Exception as error:
            self.show_error(one_line(error) or describe(error))
            return
        name = self.settings.model or chosen.model
        if self.settings.enabled and name != self._model:
            self._model = name
            self.completer = Completer(None)
            self._loading = asyncio.create_task(self.open_model(name, self.completer))
        self.follow_acceptance()
        self.follow_folders()

    def follow_folders(self) -> None:
        """Index the open folders, if wanted."""
        workspace = self.protocol.workspace
        uris = [folder.uri for folder in workspace.folders.values()] or [workspace.root_uri or ""]
        given = [path for uri in uris if (path := path_of(uri))]
        if not (self.settings.enabled and self.settings.folder):
            given = []
        elif not given:
            given = self.folders.roots or roots_of(map(path_of, self.documents))
        self.folders.follow(given)

    async def open_model(self, name: str, completer: Completer) -> None:
        """Open a model; until then suggestions come from files only."""

        def load(on_progress: OnProgress) -> Engine:
            placement = self.home.choose_placement(objective="completion")
            return self.home.open_model(name, placement, on_progress=on_progress).engine

        try:
            completer.engine = await with_progress(self, f"Opening {name}", load)
        except Exception as error:
            if completer is self.completer:
                self._model = None
                self.show_error(f"{one_line(error) or describe(error)}; until then suggestions come from files only")
        else:
            behind = (
                "" if completer.engine.can_infill else "; it was not trained to fill gaps, and ignores what follows"
            )
            self.log(f"{name} is open{behind}")

    # Documents

    def open_document(self, params: types.DidOpenTextDocumentParams) -> None:
        """Add a document."""
        document = params.text_document
        self.documents[document.uri] = Document(document.text, self.encoding, document.language_id)
        self.follow_folders()

    def change_document(self, params: types.DidChangeTextDocumentParams) -> None:
        """Apply edits to a document, and notice if an offer was accepted by typing it."""
        uri = params.text_document.uri
        document = self.look_at(uri)
        document.change(params.content_changes)
        if taken := self.shown.find_accepted(uri, document):
            self.note_accepted(taken, "typing")

    def save_document(self, params: types.DidSaveTextDocumentParams) -> None:
        """Update the folder's index with a saved document."""
        uri = params.text_document.uri
        if (path := path_of(uri)) and uri in self.documents:
            self.folders.update(path, self.documents[uri].text)

    def close_document(self, params: types.DidCloseTextDocumentParams) -> None:
        """Remove a document and its requests."""
        uri = params.text_document.uri
        self.documents.pop(uri, None)
        self.requests.forget(uri)
        self.shown.forget(uri)

    def look_at(self, uri: str) -> Document:
        """The document, marked as most recently used; an unknown one is empty."""
        document = self.documents.pop(uri, None) or Document("", self.encoding)
        self.documents[uri] = document
        return document

    @property
    def encoding(self) -> Any:  # Any: pygls says str, of the three that it chooses from
        return self.protocol.workspace.position_encoding

    def others(self, uri: str) -> list[OpenFile]:
        """The other open documents, most recently used first."""
        newest = [other for other in reversed(self.documents) if other != uri][:OPEN_FILES]
        return [OpenFile(path_of(other), self.documents[other].text) for other in newest]

    # Offers

    def place(self, uri: str, before: str, after: str) -> Place:
        """A position in a document, with its surroundings."""
        path, language = path_of(uri), self.documents[uri].language
        return Place(before, after, path, self.others(uri), self.folders.around(path), language)

    async def inline_completion(self, params: types.InlineCompletionParams) -> types.InlineCompletionList:
        """Ghost text for a position."""
        uri, document = params.text_document.uri, self.look_at(params.text_document.uri)
        invoked = params.context.trigger_kind is types.InlineCompletionTriggerKind.Invoked
        line, character = document.find(params.position)
        cursor = document.position(line, character)
        replaced, begun, after = types.Range(cursor, cursor), "", document.after(line, character, AFTER)
        if selected := params.context.selected_completion_info:  # complete as if the selected entry were accepted
            replaced, begun = selected.range, selected.text
            line, character = document.find(replaced.start)
        before = (document.before(line, character, BEFORE) + begun)[-BEFORE:]
        place = self.place(uri, before, after)
        found = await self.offers(
            uri, place, (line, character + len(begun)), n=SEVERAL if invoked else 1, invoked=invoked
        )
        return types.InlineCompletionList([inline_item(offer, replaced, begun, number) for number, offer in found])

    async def popup_completion(self, params: types.CompletionParams) -> types.CompletionList:
        """Entries of a popup list for a position.

        Editors ask at every letter; if no name has begun, the user asked.
        """
        uri, document = params.text_document.uri, self.look_at(params.text_document.uri)
        line, character = document.find(params.position)
        before, after = document.before(line, character, BEFORE), document.after(line, character, AFTER)
        word = last_word(document.lines[line][:character])
        place = self.place(uri, before, after)
        found = await self.offers(uri, place, (line, character), n=LISTED if word else SEVERAL, invoked=not word)
        replaced = types.Range(document.position(line, character - len(word)), document.position(line, character))
        items = [popup_item(found, replaced, word, order) for order, found in enumerate(found)]
        return types.CompletionList(is_incomplete=True, items=items)

    async def offers(self, uri: str, place: Place, at: tuple[int, int], *, n: int, invoked: bool) -> list[Numbered]:
        """The offers for a position; empty if a newer request has arrived."""
        start = perf_counter()
        if not self.settings.enabled:
            return []
        completer, lines = self.completer, self.settings.lines or None

        def complete(wanted: Wanted) -> list[Offer]:
            return completer.offers(place, n, invoked=invoked, lines=lines, wanted=wanted)

        request = self.requests.ask(uri, complete)
        try:
            found = await asyncio.wrap_future(request.answer)
        except asyncio.CancelledError:
            if not request.wanted:  # superseded by a newer request
                return []
            request.wanted = False
            raise
        except Exception as error:
            self.show_error(one_line(error) or describe(error))
            return []
        if found is None:
            return []
        numbered, new = self.shown.add(uri, place, at, found)
        if new:
            self.keep(lambda kept: kept.note_shown(found[0], 1000 * (perf_counter() - start)))
            self._noted += 1
            if not self._noted % BLOCK:
                self.follow_acceptance()
        return numbered

    # Acceptance

    def accept(self, number: int) -> None:
        """The editor reports that an offer was accepted."""
        if offer := self.shown.take(number):
            self.note_accepted(offer, "editor")

    def note_accepted(self, offer: Offer, way: Way) -> None:
        """Record that an offer was accepted."""
        self.keep(lambda kept: kept.note_accepted(offer, way))

    def keep(self, note: Callable[[Acceptance], None]) -> None:
        """Record something, if the user wants records."""
        try:
            if self.acceptance:
                note(self.acceptance)
        except OSError as error:
            self.show_error(f"cannot save completion statistics: {one_line(error)}")

    def follow_acceptance(self) -> None:
        """Set the threshold: the editor's, or one adapted to past acceptance."""
        self.completer.threshold = self.settings.threshold
        if self.acceptance and self.adaptive:
            self.completer.threshold = self.acceptance.threshold(self.settings.threshold)

    # Messages to the editor

    def show_error(self, message: str) -> None:
        """Show an error to the user, each text only once."""
        if message not in self._told:
            self._told.add(message)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))

    def log(self, message: str) -> None:
        """Write a line to the editor's log."""
        self.window_log_message(types.LogMessageParams(types.MessageType.Info, message))

    def log_soon(self, message: str) -> None:
        """Write a line to the editor's log from another thread."""
        if self._loop and not self.gone:
            self._loop.call_soon_threadsafe(self.log, message)

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log an internal error without any content of documents."""
        if source is JsonRpcInternalError:  # the output is closed
            self.gone = True
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, describe(error)))


def describe(error: BaseException) -> str:
    """Describe an internal error, which pygls may have wrapped."""
    if isinstance(error, JsonRpcException) and error.data:
        *_, last = error.data["traceback"]
        return f"{error.message.split(':')[0]} in {last.strip().splitlines()[0]}"
    return describe_defect(error)


def path_of(uri: str) -> Path | None:
    """The path of a file: URI; None for others."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None


def serve(server: Server, input: BinaryIO, output: BinaryIO) -> int:
    """Serve an editor until it disconnects; returns 1 if it did not send `shutdown` first."""
    server.start_io(input, output)
    server.requests.end()
    server.folders.follow(())
    return 0 if server.shut_down else 1
