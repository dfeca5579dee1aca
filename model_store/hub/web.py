"""HTTP GET, with proxies and safe redirects; the token goes to the Hub only."""

import base64
import errno
import http.client
import ipaddress
import os
import re
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TypeVar
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from model_store.errors import HubUnreachable, StoreError

REDIRECTS = (301, 302, 303, 307, 308)
MOST_REDIRECTS = 5
BUSY = (408, 425, 429)
"""Statuses, in addition to 5xx, after which to try again."""
STRANGER = 407
"""The status of a proxy that requires authentication."""
MOST_HINTS = 20
"""Most interim responses, such as 103 Early Hints."""
CHUNK = 1 << 18
"""Bytes read at once."""
LEAST = 1000
"""Connections slower than this, in bytes per second, count as stalled."""
PORTS = {"http": 80, "https": 443}
NO_NETWORK = {errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL}
HOST = re.compile(r"[\w.-]+|[0-9a-fA-F:.]+(%\w+)?")
NUMBER = re.compile(r"\[Errno -?\d+\] ")
SIGNATURE = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]*")
"""A URL with a query, where storage puts signatures."""
NAT64 = ipaddress.ip_network("64:ff9b::/96")

Value = TypeVar("Value")


class TryAgain(Exception):
    """A failure of network or server that may pass; `after` is the wait that the server asks for, in seconds."""

    def __init__(self, reason: str, after: float | None = None):
        super().__init__(reason)
        self.after = after


class Unreached(TryAgain):
    """A host could not be reached, or did not answer completely."""


class NoNetwork(Unreached):
    """No host can be reached: there is no name resolution, or no route."""


@dataclass(frozen=True)
class Patience:
    """Timeouts and retries, in seconds."""

    stall: float = 20.0
    """A request without a byte for so long is repeated."""
    tries: int = 8
    """Most requests in a row without a byte."""
    tries_without_network: int = 2
    """Most requests in a row without any host."""
    pause: float = 0.5
    """The wait after the first failure; doubled after each further one."""
    longest_pause: float = 30.0
    longest_order: float = 600.0
    """The longest wait that a server may ask for."""

    def wait(self, failures: int, asked: float | None) -> float:
        """The wait after that many failures in a row, or the one `asked` for."""
        return min(self.longest_pause, self.pause * 2 ** (failures - 1)) if asked is None else asked


@dataclass(frozen=True)
class Site:
    """The Hub or a replacement, and the token for it alone."""

    endpoint: str
    token: str | None = None

    @property
    def private(self) -> bool:
        """Whether it is in a private network, where redirects may then lead too."""
        home = urlsplit(self.endpoint)
        return is_private(home.hostname or "", resolving=not proxy_for(home))

    def owns(self, url: SplitResult) -> bool:
        """Whether `url` is on this host and port."""
        home = urlsplit(self.endpoint)
        return (url.scheme, url.hostname, url.port) == (home.scheme, home.hostname, home.port)


class Answer:
    """A server's response, whose body is read in chunks."""

    def __init__(self, connection: http.client.HTTPConnection, url: str, stall: float):
        self.socket: socket.socket = connection.sock  # the connection drops it when the server closes
        self.connection, self.response, self.url = connection, final_response(connection), url
        self.status, self.reason, self.headers = self.response.status, self.response.reason, self.response.headers
        self.stall, self.looked, self.arrived = stall, time.monotonic(), 0

    def read(self) -> bytes:
        """The next bytes of the body; b"" at its end, even if that is premature."""
        if (passed := time.monotonic() - self.looked) > self.stall:  # a trickle would never time out
            if self.arrived < LEAST * passed:
                raise TryAgain(f"only {self.arrived:,} bytes arrived in {passed:.0f} seconds")
            self.looked, self.arrived = time.monotonic(), 0
        try:
            chunk = self.response.read1(CHUNK)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:  # the last two: it was closed
            raise Unreached(f"the connection to {urlsplit(self.url).hostname} broke ({plain(error)})") from error
        self.arrived += len(chunk)
        return chunk

    def whole(self, limit: int) -> bytes | None:
        """The whole body; None if it has more than `limit` bytes."""
        content = bytearray()
        while chunk := self.read():
            content += chunk
            if len(content) > limit:
                return None
        length = self.headers["Content-Length"] or ""
        if length.isdecimal() and int(length) != len(content):
            raise Unreached(f"{len(content):,} of {int(length):,} bytes arrived")
        return bytes(content)

    def close(self) -> None:
        """Close it, which ends a `read` in another thread too."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()


def final_response(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    """The final response: http.client skips 100 Continue, but not 103 Early Hints."""
    response = connection.getresponse()
    for _ in range(MOST_HINTS):
        if not 100 <= response.status < 200:
            return response
        response.headers = response.msg = None  # type: ignore[assignment]  # as before the first one was read
        response.begin()
    raise http.client.HTTPException(f"{MOST_HINTS} hints, and no answer")


def get(url: str, site: Site, *, headers: dict[str, str] | None = None, stall: float) -> Answer:
    """Request `url`; raises TryAgain for what may pass, and StoreError for a forbidden redirect."""
    home = urlsplit(site.endpoint)
    for _ in range(MOST_REDIRECTS + 1):
        there = urlsplit(url)
        told = {"User-Agent": "chatapp", "Accept-Encoding": "identity", **(headers or {})}
        if site.token and site.owns(there):
            told["Authorization"] = f"Bearer {site.token}"
        elif there.scheme not in (home.scheme, "https"):  # plain http could be altered
            where = plain_url(there.geturl())
            raise StoreError(
                f"{home.hostname} redirects to {where}, which is not https; nothing was downloaded from there"
            )
        answer = ask(url, told, stall=stall, private=site.owns(there) or site.private)
        if answer.status not in REDIRECTS:
            break
        answer.close()
        url = redirected(url, answer.headers["Location"] or "")
    else:
        raise StoreError(f"{home.hostname} redirects in a loop, last to {plain_url(url)}; try again later")
    if answer.status in BUSY or answer.status >= 500:
        answer.close()
        raise TryAgain(f"{urlsplit(url).hostname} answers {answer.status} {answer.reason}", retry_after(answer.headers))
    return answer


def redirected(url: str, location: str) -> str:
    """A redirect's target; raises StoreError if it is not a URL."""
    try:
        target = quote(urljoin(url, location), safe="%/:=&?~#+!$,;'@()*[]")
        urlsplit(target).port  # noqa: B018  # raises ValueError for what is no port
    except ValueError as error:
        shown = repr(plain_url(location))[:200]
        raise StoreError(
            f"{urlsplit(url).hostname} redirects to {shown}, which is not a URL ({error}); try again later"
        ) from error
    return target


def ask(url: str, headers: dict[str, str], *, stall: float, private: bool) -> Answer:
    """Make one request; private addresses only if `private`."""
    there = urlsplit(url)
    if there.scheme not in PORTS or not there.hostname:
        raise StoreError(f"{plain_url(url)!r} is not a URL; check HF_ENDPOINT")
    proxy = proxy_for(there)
    if not private and is_private(there.hostname, resolving=False):  # addresses are checked when connecting
        raise forbidden(there.hostname)
    target = (
        url if proxy and there.scheme == "http" else f"{there.path or '/'}{'?' if there.query else ''}{there.query}"
    )
    connection = connect(there, proxy, stall=stall, private=private)
    try:
        if proxy and there.scheme == "http":
            headers = headers | authorization(proxy)
        connection.request("GET", target, headers=headers)
        answer = Answer(connection, url, stall)
        if proxy and answer.status == STRANGER:
            raise stranger(proxy)
        return answer
    except ssl.SSLCertVerificationError as error:
        connection.close()
        raise StoreError(
            f"{there.hostname} has no valid certificate ({error.verify_message}); behind a proxy, "
            "set SSL_CERT_FILE to its certificate"
        ) from error
    except (http.client.InvalidURL, UnicodeError) as error:
        connection.close()
        raise StoreError(f"cannot ask {there.hostname}: {plain(error)}; check HF_ENDPOINT and HF_TOKEN") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        if proxy and f"Tunnel connection failed: {STRANGER}" in str(error):  # http.client has it in the message only
            raise stranger(proxy) from error
        way = f", through the proxy {proxy.hostname}," if proxy else ""
        raise unreached(f"{there.hostname}{way}", error) from error
    except BaseException:
        connection.close()
        raise


def connect(
    there: SplitResult, proxy: SplitResult | None, *, stall: float, private: bool
) -> http.client.HTTPConnection:
    """A connection to a host, direct or through a proxy, not opened yet."""
    if not proxy:
        return Direct(there, stall=stall, private=private)
    if there.scheme == "http":
        return http.client.HTTPConnection(proxy.hostname or "", proxy.port or 80, timeout=stall)
    tunnel = http.client.HTTPSConnection(proxy.hostname or "", proxy.port or 80, timeout=stall, context=trust())
    tunnel.set_tunnel(there.hostname or "", there.port or PORTS[there.scheme], authorization(proxy))
    return tunnel


class Direct(http.client.HTTPConnection):
    """A direct connection, encrypted or not, that refuses private addresses unless `private`."""

    def __init__(self, there: SplitResult, *, stall: float, private: bool):
        self.default_port = PORTS[there.scheme]  # otherwise http.client takes the end of an IPv6 address for a port
        super().__init__(there.hostname or "", there.port or self.default_port, timeout=stall)
        self.encrypted, self.private = there.scheme == "https", private

    def connect(self) -> None:
        self.sock = open_socket(self.host, self.port, self.timeout or 0.0, self.private)
        if self.encrypted:
            self.sock = trust().wrap_socket(self.sock, server_hostname=self.host)


def open_socket(host: str, port: int, timeout: float, private: bool) -> socket.socket:
    """Connect to an address of `host`, each checked before use, as a second lookup might differ."""
    failure: OSError = OSError("it has no address")
    for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        if not private and is_private(str(address[0])):
            raise forbidden(host)
        try:
            return socket.create_connection((str(address[0]), port), timeout)
        except OSError as error:
            failure = error
    raise failure


def is_private(host: str, *, resolving: bool = True) -> bool:
    """Whether `host` is this machine or in its network, as far as one can tell."""
    with suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address):
            inner = address.ipv4_mapped or address.sixtofour
            if address in NAT64:
                inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
            address = inner or address
        return not address.is_global or address.is_multicast
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    if resolving:
        with suppress(OSError, UnicodeError):
            return any(is_private(str(found[4][0])) for found in socket.getaddrinfo(host, None))
    return False


def check_endpoint(endpoint: str) -> SplitResult:
    """Parse the Hub's URL; raises StoreError if it is invalid."""
    try:
        there = urlsplit(endpoint)
        there.port  # noqa: B018  # raises ValueError for what is no port
        if there.scheme not in PORTS or not there.hostname:
            raise ValueError("write https://HOST")
    except ValueError as error:
        raise StoreError(f"HF_ENDPOINT is {plain_url(endpoint)!r}, which is not a URL ({error})") from error
    return there


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def forbidden(host: str) -> StoreError:
    """The error for a redirect into this machine's network."""
    return StoreError(f"the Hub redirects to {host}, an address of this machine's own network; nothing was sent there")


def proxy_for(there: SplitResult) -> SplitResult | None:
    """The proxy for a host from the environment or the system."""
    proxies = urllib.request.getproxies()
    found = proxies.get(there.scheme) or proxies.get("all")
    if not found or urllib.request.proxy_bypass(there.netloc.rpartition("@")[2]):
        return None
    try:
        proxy = urlsplit(found if "://" in found else f"http://{found}")
        proxy.port  # noqa: B018  # raises ValueError for what is no port
        if not HOST.fullmatch(proxy.hostname or ""):
            raise ValueError("it has no host")
    except ValueError as error:
        raise StoreError(f"the proxy URL in the environment is not usable ({error})") from error
    if proxy.scheme != "http":
        raise StoreError(f"proxies of the kind {proxy.scheme}:// are not supported; set HTTPS_PROXY to an http:// one")
    return proxy


def authorization(proxy: SplitResult) -> dict[str, str]:
    """The authorization header for a proxy with a user in its URL."""
    if proxy.username is None:
        return {}
    secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(secret).decode()}"}


def stranger(proxy: SplitResult) -> StoreError:
    """The error for a proxy that requires or rejects authentication."""
    name = "a name and a password" if proxy.username is None else "another name or password"
    variable = "as http://NAME:PASSWORD@HOST:PORT in HTTPS_PROXY, or in HTTP_PROXY for an http:// address"
    return StoreError(f"the proxy {proxy.hostname} needs {name}; give them {variable}")


@cache
def trust() -> ssl.SSLContext:
    """An SSL context with the certificates that huggingface_hub trusts."""
    import httpx2  # for its choice of certificates: the system's

    try:
        return httpx2.create_ssl_context()
    except OSError as error:  # includes ssl.SSLError
        named = [f"{name}={os.environ[name]}" for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
        where = " and ".join(named) or "this machine"
        raise StoreError(
            f"the certificates of {where} cannot be read ({plain(error)}); set it to others, or unset it"
        ) from error


def retry_after(headers: Message) -> float | None:
    """The wait in seconds that a server asks for, as a number, or as a date relative to its clock."""
    asked = headers.get("Retry-After", "")
    if asked.strip().isdecimal():
        return float(asked)
    with suppress(ValueError, TypeError, OverflowError):  # no valid date
        then, now = (parsedate_to_datetime(headers.get(name, "")) for name in ("Retry-After", "Date"))
        return max(0.0, (then - now).total_seconds())
    return None


def patiently(request: Callable[[], Value], patience: Patience, *, on_wait: Callable[[str, float], None]) -> Value:
    """Repeat a request until it succeeds; `on_wait` is told why and how long this waits."""
    answered = network = False
    for failures in range(1, patience.tries + 1):
        try:
            return request()
        except TryAgain as error:
            reason, pause = str(error), patience.wait(failures, error.after)
            answered = answered or not isinstance(error, Unreached)
            network = network or not isinstance(error, NoNetwork)
            tries = patience.tries if network else patience.tries_without_network
            if failures >= min(tries, patience.tries) or pause > patience.longest_order:
                break
            on_wait(reason, pause)
            time.sleep(pause)
    told = given_up(reason, pause, failures, patience)
    raise told if answered else HubUnreachable(*told.args)


def given_up(reason: str, pause: float, failures: int, patience: Patience) -> StoreError:
    """The error after too many failures."""
    if pause > patience.longest_order:
        return StoreError(f"{reason}, and asks to wait {pause / 60:.0f} minutes; try again then")
    return StoreError(f"{reason}, {failures} times in a row; check the network, and try again later")


def unreached(host: str | None, error: BaseException) -> Unreached:
    """The error for an unreachable host."""
    if isinstance(error, socket.gaierror) or (isinstance(error, OSError) and error.errno in NO_NETWORK):
        return NoNetwork(f"no network: {host} cannot be reached ({plain(error)})")
    return Unreached(f"{host} cannot be reached ({plain(error)})")


def plain(error: BaseException) -> str:
    """An error's short message, without signatures of URLs."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    said = getattr(error, "strerror", None) or NUMBER.sub("", str(error)) or type(error).__name__
    return plain_text(said)


def plain_text(text: str) -> str:
    """A text without signatures of URLs."""
    return SIGNATURE.sub(r"\1", text)


def plain_url(url: str) -> str:
    """A URL without its query, where storage has a signature, and without a password."""
    scheme, mark, rest = url.partition("?")[0].partition("#")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"
