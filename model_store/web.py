"""One HTTP GET: through proxies, along the redirects that are allowed, and no token for a host that is not the Hub."""

import base64
import email.utils
import http.client
import ipaddress
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeVar
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import httpx2

from model_store.errors import StoreError

REDIRECTS = (301, 302, 303, 307, 308)
MOST_REDIRECTS = 5
BUSY = (408, 425, 429)
"""Statuses that ask to come again, besides those from 500."""
CHUNK = 1 << 18
"""Bytes asked of the system at once."""
NAT64 = ipaddress.ip_network("64:ff9b::/96")

Value = TypeVar("Value")


class Headers(Protocol):
    """Headers of an answer, in whichever library's words."""

    def get(self, name: str, default: str, /) -> str: ...


class TryAgain(Exception):
    """The network or the server failed in a way that may pass; `after` is in how many seconds, if it was said."""

    def __init__(self, reason: str, after: float | None = None):
        super().__init__(reason)
        self.after = after


@dataclass(frozen=True)
class Patience:
    """How long to wait for the network, in seconds."""

    stall: float = 20.0
    """Without a byte, after which a request is made anew."""
    tries: int = 8
    """Requests in a row that bring no byte."""
    pause: float = 0.5
    """After the first of them; twice as long after each further one."""
    longest_pause: float = 30.0
    longest_order: float = 600.0
    """What a server may tell us to wait."""

    def wait(self, failures: int, asked: float | None) -> float:
        """How long to wait after so many failures in a row, or as long as was asked for."""
        return min(self.longest_pause, self.pause * 2 ** (failures - 1)) if asked is None else asked


@dataclass(frozen=True)
class Site:
    """The Hub, or what stands in for it, and the token that only it is given."""

    endpoint: str
    token: str | None = None

    @property
    def private(self) -> bool:
        """Whether it is in one's own network, where redirects may then lead as well."""
        home = urlsplit(self.endpoint)
        return is_private(home.hostname or "", resolving=not proxy_for(home))

    def owns(self, url: SplitResult) -> bool:
        """Whether `url` is on this very host and port."""
        home = urlsplit(self.endpoint)
        return (url.scheme, url.hostname, url.port) == (home.scheme, home.hostname, home.port)


class Answer:
    """What a server answered; the body is read in chunks."""

    def __init__(self, connection: http.client.HTTPConnection, url: str):
        self.socket: socket.socket = connection.sock  # the connection forgets it when the server wants to close it
        self.connection, self.response, self.url = connection, connection.getresponse(), url
        self.status, self.headers = self.response.status, self.response.headers

    def read(self) -> bytes:
        """The next bytes of the body; none at its end, be it the right one or not."""
        try:
            return self.response.read1(CHUNK)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:  # the last two: it was closed
            raise TryAgain(f"the connection broke ({plain(error)})") from error

    def whole(self, limit: int) -> bytes | None:
        """The whole body; None if it has more than `limit` bytes."""
        content = bytearray()
        while chunk := self.read():
            content += chunk
            if len(content) > limit:
                return None
        length = self.headers["Content-Length"] or ""
        if length.isdecimal() and int(length) != len(content):
            raise TryAgain(f"{len(content):,} of {int(length):,} bytes came")
        return bytes(content)

    def close(self) -> None:
        """Be done with it; a `read` in another thread ends as well."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()


def get(url: str, site: Site, *, headers: dict[str, str] | None = None, stall: float) -> Answer:
    """Ask for `url`; raises TryAgain for what may pass, and StoreError for a redirect that must not be followed."""
    home = urlsplit(site.endpoint)
    for _ in range(MOST_REDIRECTS + 1):
        there = urlsplit(url)
        told = {"User-Agent": "chatapp", "Accept-Encoding": "identity", **(headers or {})}
        if site.token and site.owns(there):
            told["Authorization"] = f"Bearer {site.token}"
        else:
            refuse_plain(there, site)
        answer = ask(url, told, stall=stall, private=site.owns(there) or site.private)
        if answer.status not in REDIRECTS:
            break
        answer.close()
        url = urljoin(url, answer.headers["Location"] or "")
    else:
        raise StoreError(f"{home.hostname} redirects in a circle, lastly to {url}; try again later")
    if answer.status in BUSY or answer.status >= 500:
        answer.close()
        raise TryAgain(
            f"{urlsplit(url).hostname} answers {answer.status} {answer.response.reason}", retry_after(answer.headers)
        )
    return answer


def ask(url: str, headers: dict[str, str], *, stall: float, private: bool) -> Answer:
    """One request and its answer, whatever that is; a private address only if `private`."""
    there = urlsplit(url)
    if there.scheme not in ("http", "https") or not there.hostname:
        raise StoreError(f"{url!r} is no http address; check HF_ENDPOINT")
    proxy = proxy_for(there)
    if not private and is_private(there.hostname, resolving=not proxy):
        raise forbidden(there.hostname)
    target = (
        url if proxy and there.scheme == "http" else f"{there.path or '/'}{'?' if there.query else ''}{there.query}"
    )
    connection = connect(there, proxy, stall=stall, private=private)
    try:
        if proxy and there.scheme == "http":
            headers = headers | authorization(proxy)
        connection.request("GET", target, headers=headers)
        return Answer(connection, url)
    except ssl.SSLCertVerificationError as error:
        connection.close()
        raise untrusted(there.hostname, error.verify_message) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        raise TryAgain(f"{there.hostname} cannot be reached ({plain(error)})") from error
    except BaseException:
        connection.close()
        raise


def connect(
    there: SplitResult, proxy: SplitResult | None, *, stall: float, private: bool
) -> http.client.HTTPConnection:
    """A connection to a host, straight or through a proxy, that has not been opened yet."""
    host = there.hostname or ""
    if not proxy:
        kind = Secure if there.scheme == "https" else Direct
        return kind(host, there.port, stall=stall, private=private)
    if there.scheme == "http":
        return http.client.HTTPConnection(proxy.hostname or "", proxy.port or 80, timeout=stall)
    tunnel = http.client.HTTPSConnection(proxy.hostname or "", proxy.port or 80, timeout=stall, context=trust())
    tunnel.set_tunnel(host, there.port, authorization(proxy))
    return tunnel


class Direct(http.client.HTTPConnection):
    """A connection that refuses private addresses, unless they are allowed."""

    def __init__(self, host: str, port: int | None, *, stall: float, private: bool):
        super().__init__(host, port, timeout=stall)
        self.private = private

    def connect(self) -> None:
        self.sock = open_socket(self.host, self.port, self.timeout or 0.0, self.private)


class Secure(http.client.HTTPSConnection):
    """The same, encrypted."""

    def __init__(self, host: str, port: int | None, *, stall: float, private: bool):
        super().__init__(host, port, timeout=stall, context=trust())
        self.private = private

    def connect(self) -> None:
        plain = open_socket(self.host, self.port, self.timeout or 0.0, self.private)
        self.sock = trust().wrap_socket(plain, server_hostname=self.host)


def open_socket(host: str, port: int, timeout: float, private: bool) -> socket.socket:
    """Connect to one of the addresses of `host`, each looked at before it is used: a second lookup might differ."""
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
    """Whether `host` is this machine or one in its own network, as far as one can tell."""
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


def refuse_plain(there: SplitResult, site: Site) -> None:
    """Raise StoreError for a redirect to where bytes could be altered on their way, or that is no web address."""
    home = urlsplit(site.endpoint)
    if there.scheme not in (home.scheme, "https"):
        raise StoreError(
            f"{home.hostname} redirects to {there.geturl()}, which is not https; nothing was fetched from there"
        )


def forbidden(host: str) -> StoreError:
    """The error for a redirect into this machine's own network."""
    return StoreError(f"the Hub redirects to {host}, an address of this machine's own network; nothing was asked there")


def untrusted(host: str | None, why: str) -> StoreError:
    """The error for a host that cannot prove who it is."""
    return StoreError(
        f"{host} cannot prove who it is ({why}); if a proxy stands in between, name its certificate in SSL_CERT_FILE"
    )


def proxy_for(there: SplitResult) -> SplitResult | None:
    """The proxy that the environment or the system sets for a host."""
    proxies = urllib.request.getproxies()
    found = proxies.get(there.scheme) or proxies.get("all")
    if not found or urllib.request.proxy_bypass(there.netloc.rpartition("@")[2]):
        return None
    proxy = urlsplit(found if "://" in found else f"http://{found}")
    if proxy.scheme != "http":
        raise StoreError(f"proxies of the kind {proxy.scheme}:// are not supported; set HTTPS_PROXY to an http:// one")
    return proxy


def authorization(proxy: SplitResult) -> dict[str, str]:
    """How to tell a proxy who we are, if its address says so."""
    if proxy.username is None:
        return {}
    secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(secret).decode()}"}


@cache
def trust() -> ssl.SSLContext:
    """The certificates that huggingface_hub's own requests trust."""
    return httpx2.create_ssl_context()


def retry_after(headers: Headers) -> float | None:
    """The seconds to wait that a server asks for: as such, or as a date, which is compared with its own clock."""
    asked = headers.get("Retry-After", "")
    if asked.strip().isdecimal():
        return float(asked)
    dates = email.utils.parsedate_tz(asked), email.utils.parsedate_tz(headers.get("Date", ""))
    then, now = (email.utils.mktime_tz(date) if date else None for date in dates)
    return max(0.0, then - now) if then is not None and now is not None else None


def patiently(
    request: Callable[[], Value],
    patience: Patience,
    *,
    on_wait: Callable[[str, float], None] = lambda reason, pause: None,
) -> Value:
    """Make a request until it succeeds; `on_wait` is told why and how long this waits."""
    for failures in range(1, patience.tries + 1):
        try:
            return request()
        except TryAgain as error:
            reason, pause = str(error), patience.wait(failures, error.after)
            if failures == patience.tries or pause > patience.longest_order:
                break
            on_wait(reason, pause)
            time.sleep(pause)
    raise given_up(reason, pause, patience)


def given_up(reason: str, pause: float, patience: Patience) -> StoreError:
    """The error for what has not passed."""
    if pause > patience.longest_order:
        return StoreError(f"{reason}, and asks to wait {pause / 60:.0f} minutes; try again then")
    return StoreError(f"{reason}, {patience.tries} times in a row; check the network, and try again later")


def plain(error: BaseException) -> str:
    """An error in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
