"""Runs the server until it is told to end; running answers may finish first."""

import asyncio
import logging
import signal
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from errno import EADDRINUSE
from types import FrameType

import uvicorn

from chatapp.placement.selection import PlacementOptions
from chatapp.server import connections
from chatapp.server.app import SPOKEN, App
from chatapp.server.connections import Connection
from chatapp.server.protocol import Protocol
from chatapp.server.service import Service
from chatapp.server.settings import ServerSettings
from chatapp.settings.running import announce, read
from chatapp.settings.settings import SettingsError
from chatapp.text.errors import one_line
from chatapp.text.printable import printable
from chatapp.workspace import Workspace

SHARED = ("127.0.0.1", "localhost", "0.0.0.0")
"""Host addresses at which the user's other programs can reach the server."""


class Server(uvicorn.Server):
    """Uvicorn's server, which closes the queue before it ends."""

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service
        self.ready: Callable[[int], object] = lambda port: None
        """Called with the port when requests are accepted."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Accept no more requests; the second time, do not wait for running ones."""
        if self.should_exit:
            self.force_exit = True
        self.service.queue.draining = self.should_exit = True

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        self.ready(self.servers[0].sockets[0].getsockname()[1])


def make_server(service: Service, protocols: Sequence[Protocol] = SPOKEN) -> Server:
    """The server of a service, not started yet."""
    settings = service.settings
    most = allow_files(connections.MOST)
    config = uvicorn.Config(
        App(service, protocols),
        host=settings.host,
        port=settings.port,
        http=type("Connection", (Connection,), {"most": most, "closed": Counter()}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=512,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=round(settings.drain),
        h11_max_incomplete_event_size=connections.LARGEST_HEAD,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.private_key,
        ssl_keyfile_password="none",  # otherwise OpenSSL would prompt for one
    )
    try:
        config.load()
    except OSError as error:
        wrong = f"cannot serve TLS with {settings.certificate} and {settings.private_key} ({one_line(error)})"
        raise SettingsError(f"{wrong}; give a certificate and its key in PEM, without a passphrase") from error
    return Server(config, service)


def allow_files(most: int) -> int:
    """The number of connections the limit of open files allows, up to `most`, raising that limit if possible."""
    if sys.platform == "win32":
        return most
    import resource

    spare = 100  # for models and libraries
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + spare if hard == resource.RLIM_INFINITY else min(most + spare, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return most if soft == resource.RLIM_INFINITY else max(10, min(most, soft - spare))


class Log(logging.Handler):
    """Writes uvicorn's log to standard error; tracebacks are reduced to the exception's name, without user data."""

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage().strip()
        if said.startswith(connections.UNSAID) or isinstance(record.msg, OSError):  # `run` reports the OSError
            return
        if record.exc_info and record.exc_info[0]:
            said += f" ({record.exc_info[0].__name__})"
        log(said)


def log(line: str) -> None:
    """Write a line to the log."""
    print(f"{datetime.now():%H:%M:%S} {printable(line)}", file=sys.stderr, flush=True)


def serve(workspace: Workspace, settings: ServerSettings, placement: PlacementOptions | None = None) -> int:
    """Answer requests until SIGTERM or Ctrl+C; returns the exit code."""
    store = workspace.open_store()
    settings = replace(settings, models=tuple(store.get(name).name for name in settings.models))
    service = Service(workspace, settings, placement, log)
    before = read(workspace.home)

    def share(port: int) -> None:
        if settings.host in SHARED and not settings.certificate:
            wanted = placement or workspace.choose_placement()
            service.own = announce(port, wanted.backend, wanted.device, wanted.precision)
            try:
                service.own.write(workspace.home)
            except OSError as error:
                log(f"other commands cannot find this server, as its address cannot be saved: {one_line(error)}")

    try:
        run(make_server(service), open_first(service), share)
    finally:
        if service.own:
            service.own.forget(workspace.home, before)
    return 0


def run(
    server: Server, beside: Coroutine[object, object, None], ready: Callable[[int], object] = lambda port: None
) -> None:
    """Answer requests until SIGTERM or Ctrl+C, running `beside` at the same time; `ready` is called with the port."""
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(Log(logging.WARNING))
    logger.propagate = False
    settings = server.service.settings
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host

    def listening(port: int) -> None:
        log(f"listening on {scheme}://{host}:{port}; to stop: Ctrl+C")
        ready(port)

    server.ready = listening

    async def both() -> None:
        other = asyncio.ensure_future(beside)
        await server.serve()
        other.cancel()

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        asyncio.run(both())
    except SystemExit as ended:  # uvicorn exits so if it cannot listen
        if not (error := ended.__context__):  # a signal, such as that of a closed terminal
            raise
        why = f"{str(getattr(error, 'strerror', error)).rpartition(': ')[2]}; choose another --host or --port"
        if getattr(error, "errno", None) == EADDRINUSE:
            why = "another program uses the port; choose another --port"
        raise SettingsError(f"cannot listen on {settings.host}:{settings.port}: {why}") from None


async def open_first(service: Service) -> None:
    """Open the models that are kept from the start."""
    for name in service.settings.models:
        try:
            async with service.models.use(name):
                pass
        except Exception as error:
            service.log(f"cannot open {name}: {one_line(error) or error}")
