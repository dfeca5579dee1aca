"""The request of the page, which Jupyter's server guards by its own token."""

from http import HTTPStatus
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado.web import HTTPError, authenticated
from traitlets import Unicode
from traitlets.config import Configurable

from chatapp_jupyterlab.language_server import Asked, LanguageServer, NotStartedError


class Chatapp(Configurable):
    """The configuration of Jupyter's server for chatapp, such as `--Chatapp.command=/where/it/is/chatapp`."""

    command = Unicode("chatapp", config=True, help="The command `chatapp`, or its whole path.")


class InlineCompletion(APIHandler):
    """POST chatapp/inline-completion: offers for a place in a text."""

    def initialize(self, language_server: LanguageServer, root: Path) -> None:
        self.language_server = language_server
        self.root = root

    @authenticated
    async def post(self) -> None:
        body: dict[str, Any] = self.get_json_body() or {}
        try:
            path = self.root / str(body["path"])
            asked = Asked(
                path.as_uri(),
                str(body["language"]),
                str(body["text"]),
                int(body["line"]),
                int(body["character"]),
                int(body["triggerKind"]),
                dict(body["settings"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise HTTPError(HTTPStatus.BAD_REQUEST, f"not a place in a text: {error}") from error
        try:
            items = await self.language_server.complete(asked)
        except NotStartedError as error:
            self.set_status(HTTPStatus.SERVICE_UNAVAILABLE)
            self.finish({"message": str(error)})
            return
        self.finish({"items": items, "messages": self.language_server.take_messages()})


def add_handler(server: Any) -> None:  # Any: a ServerApp
    """Let Jupyter's server answer; the language server starts with the first request."""
    root = Path(server.root_dir).expanduser().resolve()
    given = {"language_server": LanguageServer(Chatapp(config=server.config).command, root), "root": root}
    address = url_path_join(server.web_app.settings["base_url"], "chatapp", "inline-completion")
    server.web_app.add_handlers(".*$", [(address, InlineCompletion, given)])
