"""An editor that speaks JSON-RPC to the language server, in this process or to one of its own."""

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from chatapp.lsp.server import Server, serve
from chatapp.workspace import Workspace
from support.patience import PATIENCE

URI = "file:///project/code.py"
GHOST: dict[str, Any] = {"window": {"workDoneProgress": True}, "textDocument": {"inlineCompletion": {}}}
"""The capabilities of an editor with ghost text."""
POPUP: dict[str, Any] = {"textDocument": {"completion": {}}}
"""Those of one without."""


class LspError(Exception):
    """The server answered with an error."""


class LspEditor:
    """Writes messages, and keeps what comes back."""

    def __init__(self, output: BinaryIO, input: BinaryIO) -> None:
        """`output` leads to the server, `input` from it."""
        self.output, self.input = output, input
        self.told: list[dict[str, Any]] = []
        """The server's notifications and requests."""
        self.news = threading.Condition()
        self.waiting: dict[int, Future[Any]] = {}
        self.version = 0
        self.server: Server | None = None
        """The server, where it is in this process."""
        self._last = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        while length := next((int(line[15:]) for line in iter(self.input.readline, b"") if line[:15] == LENGTH), 0):
            while self.input.readline().strip():
                pass
            message = json.loads(self.input.read(length))
            if "method" not in message:
                self._settle(message)
                continue
            if "id" in message:
                self.send({"id": message["id"], "result": None})
            with self.news:
                self.told.append(message)
                self.news.notify_all()

    def _settle(self, message: dict[str, Any]) -> None:
        answer = self.waiting.pop(message["id"])
        if "error" in message:
            answer.set_exception(LspError(message["error"]))
        else:
            answer.set_result(message["result"])

    def send(self, message: Mapping[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.output.write(LENGTH + b" %d\r\n\r\n" % len(body) + body)
        self.output.flush()

    def tell(self, method: str, params: object = None) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: object = None) -> "Future[Any]":
        """Send a request; its number is `last`."""
        self._last += 1
        answer: Future[Any] = Future()
        self.waiting[self._last] = answer
        self.send({"id": self._last, "method": method, "params": params})
        return answer

    @property
    def last(self) -> int:
        return self._last

    def begin(self, capabilities: Mapping[str, Any] = GHOST, **params: object) -> Any:
        """Say hello; what the server can."""
        given = {"processId": None, "rootUri": None, "capabilities": capabilities, **params}
        answer = self.ask("initialize", given).result(PATIENCE)
        self.tell("initialized", {})
        return answer["capabilities"]

    def leave(self) -> None:
        self.ask("shutdown").result(PATIENCE)
        self.tell("exit")

    def until(self, method: str, seen: int = 0) -> dict[str, Any]:
        """The params of the first notification of a method after so many messages."""

        def found() -> dict[str, Any] | None:
            return next((message for message in self.told[seen:] if message["method"] == method), None)

        with self.news:
            assert self.news.wait_for(found, PATIENCE), f"no {method} among {self.told}"
            message = found()
        assert message
        params: dict[str, Any] = message["params"]
        return params

    def until_loaded(self) -> None:
        """Wait for the model."""
        with self.news:
            assert self.news.wait_for(lambda: any(" is open" in str(message) for message in self.told), PATIENCE)

    # Documents

    def open(self, text: str, uri: str = URI, language: str = "python") -> None:
        self.version += 1
        document = {"uri": uri, "languageId": language, "version": self.version, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})

    def change(self, changes: Sequence[Mapping[str, Any]], uri: str = URI) -> None:
        self.version += 1
        document = {"uri": uri, "version": self.version}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def type(self, text: str, line: int, character: int, uri: str = URI) -> None:
        """Insert a text."""
        place = {"line": line, "character": character}
        self.change([{"range": {"start": place, "end": place}, "text": text}], uri)

    def ghost(self, line: int, character: int, *, invoked: bool = False, uri: str = URI, **context: Any) -> Any:
        """Ask for ghost text; its items."""
        return self.ask_ghost(line, character, invoked=invoked, uri=uri, **context).result(PATIENCE)["items"]

    def ask_ghost(
        self, line: int, character: int, *, invoked: bool = False, uri: str = URI, **context: Any
    ) -> "Future[Any]":
        place = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
        kind = {"triggerKind": 1 if invoked else 2}
        return self.ask("textDocument/inlineCompletion", {**place, "context": {**kind, **context}})

    def popup(self, line: int, character: int, uri: str = URI) -> Any:
        """Ask for a popup list; its items."""
        place = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
        answer = self.ask("textDocument/completion", {**place, "context": {"triggerKind": 1}}).result(PATIENCE)
        assert answer["isIncomplete"]
        return answer["items"]


LENGTH = b"Content-Length:"


@contextmanager
def editing(workspace: Workspace) -> Iterator[LspEditor]:
    """An editor, and a server in a thread of this process."""
    to_server, from_server = os.pipe(), os.pipe()
    ends = zip((*to_server, *from_server), ("rb", "wb") * 2, strict=True)
    files = [cast(BinaryIO, os.fdopen(end, mode)) for end, mode in ends]  # as the mode says
    codes: list[int] = []
    server = Server(workspace)
    thread = threading.Thread(target=lambda: codes.append(serve(server, files[0], files[3])), daemon=True)
    thread.start()
    editor = LspEditor(files[1], files[2])
    editor.server = server
    try:
        yield editor
        editor.leave()
        thread.join(PATIENCE)
        assert codes == [0]
    finally:
        files[1].close()  # where the server has not ended yet, it does now
        thread.join(PATIENCE)
        files[0].close()
        files[3].close()
        editor.reader.join(PATIENCE)
        files[2].close()
