"""Code completion in JupyterLab by `chatapp lsp`: an extension of Jupyter's server, and one of its page."""

from typing import Any


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "chatapp-jupyterlab"}]


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "chatapp_jupyterlab"}]


def _load_jupyter_server_extension(server: Any) -> None:  # Any: a ServerApp
    from chatapp_jupyterlab.handler import add_handler

    add_handler(server)
