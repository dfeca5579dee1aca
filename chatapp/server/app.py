"""The ASGI application: checks a request, reads its body, lets the endpoint answer, and forms errors."""

import asyncio
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress

from chatapp.server import about, anthropic, kserve, llamacpp, ollama, openai, own, responses
from chatapp.server.bodies import Body, parse
from chatapp.server.guard import SAFE, Guard, name_client
from chatapp.server.protocol import Call, Endpoint, Protocol, Receive, Scope, Send
from chatapp.server.refusals import Refusal, explain
from chatapp.server.routes import Found, Routes
from chatapp.server.service import Service
from chatapp.text.errors import describe_defect
from chatapp.text.printable import printable

SPOKEN: Sequence[Protocol] = (
    openai.PROTOCOL,
    responses.PROTOCOL,
    anthropic.PROTOCOL,
    ollama.PROTOCOL,
    llamacpp.PROTOCOL,
    kserve.PROTOCOL,
    own.PROTOCOL,
)
"""The first one forms the errors for unknown paths."""
SLOW_BODY = 30.0
"""Seconds to receive a body."""


class ClientGone(Exception):
    """The client has disconnected."""


class App:
    """Answers each request."""

    def __init__(self, service: Service, protocols: Sequence[Protocol]):
        self.service, self.guard = service, Guard(service.settings)
        self.routes = Routes([*protocols, about.make_protocol(protocols)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        address = (scope.get("client") or ("",))[0]
        client = name_client(self.service.settings, address, headers)
        call = Call(self.service, scope, send, client, headers, b"", list(SAFE))
        found = self.routes.find(scope["method"], scope["path"])
        status, why = 200, ""
        try:
            status = await self._answer(found, call, receive)
        except ClientGone:
            status, why = 499, "the client disconnected"
            self.service.metrics.disconnects.inc()
        except (Exception, asyncio.CancelledError) as error:
            refusal = explain(error).spell(call.raw)
            status, why = refusal.status, refusal.message
            if refusal.code == "server_error":
                why = describe_defect(error)
                if self.service.settings.log_requests:
                    traceback.print_exception(error)
            with suppress(OSError):
                await refuse(call, found, refusal)
        finally:
            route = found.endpoint.path if found.endpoint else "other"
            self.service.metrics.requests.labels(scope["method"][:8], route, str(status)).inc()
            if status >= 400 or found.logged:
                milliseconds = 1000 * (time.perf_counter() - started)
                shown = printable(scope["path"][:100])
                told = f" ({why})" if why else ""
                self.service.log(f"{printable(scope['method'][:8])} {shown} {status} {milliseconds:,.0f} ms{told}")

    async def _answer(self, found: Found, call: Call, receive: Receive) -> int:
        """Let the endpoint answer while the client is connected; returns the status."""
        method, headers = call.scope["method"], call.sent
        if call.scope["http_version"] not in ("1.0", "1.1"):
            raise Refusal(400, "this is not an HTTP/1.1 request", code="invalid_http")
        # before the key is checked, so that a web page can read the error
        call.headers = self.guard.check(method, headers)
        if method != "OPTIONS" and not (found.endpoint and found.endpoint.open):
            self.guard.check_key(headers)
        if method == "OPTIONS" and "origin" in headers:
            await call.send_bytes(b"", "text/plain", 204)
            return 204
        endpoint = found.expect(method, call.scope["path"])
        raw = await read_body(receive, headers, self.service.settings.max_body)
        if raw and self.service.settings.log_requests:
            self.service.log(printable(raw.decode("utf-8", "replace")))
        call.scope["path_params"] = found.parts
        call.raw = raw
        body = parse(endpoint.body, raw) if endpoint.body and not endpoint.raw else None
        await while_there(endpoint, call, body, receive)
        return 200


async def while_there(endpoint: Endpoint, call: Call, body: Body | None, receive: Receive) -> None:
    """Let an endpoint answer, and cancel it if the client leaves before."""
    answering = asyncio.ensure_future(endpoint.handle(call, body))
    leaving = asyncio.ensure_future(wait_for_leaving(receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not (call.complete or answering.done()):
            raise ClientGone
        await answering
    finally:
        leaving.cancel()
        if not answering.done():
            answering.cancel()
            await asyncio.wait({answering})


async def wait_for_leaving(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def read_body(receive: Receive, headers: Mapping[str, str], most: int) -> bytes:
    """The body of a request: at most `most` bytes, received in time."""
    if "transfer-encoding" in headers and "content-length" in headers:
        raise Refusal(
            400, "the body has two lengths, which a proxy may read differently; send one", code="invalid_http"
        )
    if (coding := headers.get("content-encoding", "identity")) != "identity":
        raise Refusal(415, f"the body is in {coding[:20]}, which is not supported; send it uncompressed")
    too_long = Refusal(413, f"the body is larger than {most:,} bytes", code="body_too_large")
    if int(headers.get("content-length", 0)) > most:
        raise too_long
    parts, length = list[bytes](), 0
    try:
        async with asyncio.timeout(SLOW_BODY):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                parts.append(message.get("body", b""))
                length += len(parts[-1])
                if length > most:
                    raise too_long
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Refusal(408, f"the body did not arrive within {SLOW_BODY:g} seconds", code="timeout") from None


async def refuse(call: Call, found: Found, refusal: Refusal) -> None:
    """Send an error in the protocol's form, as the answer or at the end of a stream."""
    if call.media:
        await call.write(found.protocol.form_late(found.protocol.form_error(refusal)))
        await call.write(b"", more=False)
        return
    unread = refusal.status in (408, 413) or refusal.code == "invalid_http"
    more = [(b"connection", b"close")] if unread else []
    if refusal.retry_after:
        more.append((b"retry-after", str(refusal.retry_after).encode()))
    elif refusal.status >= 500:  # OpenAI's and Anthropic's clients would retry
        more.append((b"x-should-retry", b"false"))
    if refusal.status == 401:
        more.append((b"www-authenticate", b"Bearer"))
    if refusal.status == 405:
        more.append((b"allow", ", ".join(found.methods).encode()))
    await call.send_json(found.protocol.form_error(refusal), refusal.status, more)
