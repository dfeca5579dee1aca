"""Ask the Hugging Face Hub: what a repository holds, for the bytes of its files, for models by name."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import quote, urlencode, urlsplit

import httpx2

from model_store.errors import StoreError
from model_store.hub import file_selection, web
from model_store.hub.file_selection import Entries, Listing
from model_store.hub.partial import Wanted
from model_store.hub.web import Answer, Patience, Site, TryAgain

web.check_endpoint(
    os.environ.get("HF_ENDPOINT", "https://huggingface.co")
)  # huggingface_hub cannot be imported with what is no address

import huggingface_hub  # noqa: E402
from huggingface_hub import HfApi, ModelInfo, constants, errors, get_session, get_token  # noqa: E402
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # noqa: E402  # documented, not in __all__
    build_hf_headers,
    hf_raise_for_status,
)

API_LIMIT = 1 << 25
"""Bytes of an answer that lists files or models."""
MOST_FILES = 20_000
EXPIRED = (400, 401, 403, 410)
"""What storage answers where the signature of an address is no longer valid."""
OnWait = Callable[[str, float], None]
"""Told what went wrong, and how many seconds pass before it is tried again."""


@dataclass(frozen=True)
class Repository:
    """A model's repository, at one commit."""

    site: Site
    id: str
    commit: str
    licence: str
    gated: bool
    files: Entries

    @property
    def page(self) -> str:
        """Where people read about it."""
        return f"{self.site.endpoint}/{self.id}"

    def open(self, file: Wanted, offset: int, *, stop: int | None = None, stall: float = Patience.stall) -> Answer:
        """Ask for a file from a byte on, up to another (None: its end)."""
        headers = {"Range": f"bytes={offset}-{stop - 1 if stop else ''}"} if offset or stop else {}
        url = f"{self.page}/resolve/{self.commit}/{quote(file.name)}"
        for again in (True, False):
            answer = web.get(url, self.site, headers=headers, stall=stall)
            if answer.status in (200, 206):
                return answer
            try:
                content = answer.whole(1 << 16) or b""
            finally:
                answer.close()
            if not again or answer.status not in EXPIRED or self.site.owns(urlsplit(answer.url)):
                break  # else the Hub is asked once more for an address of its storage
        refuse(answer, content, self.id, self.site)

    def read(self, file: Wanted, limit: int, *, patience: Patience, on_wait: OnWait) -> bytes:
        """A small file, or the first `limit` bytes of a large one."""

        size = min(limit, file.size)

        def request() -> bytes:
            answer = self.open(file, 0, stop=size if 0 < size < file.size else None, stall=patience.stall)
            content = bytearray()
            try:
                while len(content) < size and (chunk := answer.read()):
                    content += chunk
            finally:
                answer.close()
            if len(content) < size:
                raise TryAgain(f"{len(content):,} of {size:,} bytes of {file.name} came")
            return bytes(content[:size])

        return web.patiently(request, patience, on_wait=on_wait)

    def read_whole(self, file: Wanted, limit: int, *, patience: Patience, on_wait: OnWait) -> bytes:
        """A file of at most `limit` bytes, whose digest is checked."""
        if file.size > limit:
            raise StoreError(f"{file.name} of {self.id} has {file.size:,} bytes, too many for such a file")
        content = self.read(file, limit, patience=patience, on_wait=on_wait)
        digest = file.hash()
        digest.update(content)
        if digest.hexdigest() != file.digest:
            raise StoreError(f"{file.name} of {self.id} came with other bytes than the Hub announces; try again later")
        return content


def site() -> Site:
    """The Hub as the environment and an earlier `login` say: HF_ENDPOINT, HF_TOKEN, HF_HOME."""
    if constants.HF_HUB_OFFLINE:
        raise StoreError("HF_HUB_OFFLINE is set, so the Hub is not asked; unset it to use the network")
    return with_token(constants.ENDPOINT, get_token())


def with_token(endpoint: str, token: str | None) -> Site:
    """The Hub at an address, to which a token may be sent only where nobody can read it on its way."""
    there = web.check_endpoint(endpoint)
    if token and there.scheme == "http" and not web.is_loopback(there.hostname or ""):
        raise StoreError(
            f"HF_ENDPOINT is {web.plain_url(endpoint)}, and over http:// anybody on the way could read your token: set "
            "an https:// address, or leave the token out (unset HF_TOKEN, or HF_TOKEN_PATH=none for one that was kept)"
        )
    return Site(endpoint, token)


def repository(site: Site, id: str, revision: str | None, *, patience: Patience, on_wait: OnWait) -> Repository:
    """What a repository holds, at the commit that `revision` means now."""

    def request() -> Repository:
        with hub_errors(site, id, revision):
            found = api(site).model_info(id, revision=revision, files_metadata=True, timeout=patience.stall)
            if not isinstance(found.sha, str) or len(found.sha) != 40 or not set(found.sha) <= set("0123456789abcdef"):
                raise ValueError(f"the commit is {found.sha!r}")
            siblings = found.siblings or []
            if len(siblings) > MOST_FILES:
                raise StoreError(f"{id} lists {len(siblings):,} files, too many for a model")
            listed = Listing((one.rfilename, one.size, one.lfs.sha256 if one.lfs else one.blob_id) for one in siblings)
            return Repository(site, id, found.sha, licence(found.tags), bool(found.gated), listed)

    return web.patiently(request, patience, on_wait=on_wait)


@dataclass(frozen=True)
class Found:
    """A repository that a search has found."""

    id: str
    family: str
    downloads: int
    licence: str
    gated: bool
    parameters: int
    """0 where the Hub does not know."""


EXPANDED = ["downloads", "gated", "safetensors", "tags"]
"""What the Hub tells about each repository that it finds."""
REPACKED = {"gguf", "gptq", "awq", "bitsandbytes", "mlx", "exl2", "4-bit", "8-bit", "compressed-tensors", "adapter"}
"""Tags of repositories whose weights we do not read."""


def search(site: Site, text: str, families: frozenset[str], *, on_wait: OnWait, limit: int = 20) -> list[Found]:
    """The most downloaded models with `text` in their name, of the families that run here."""

    def request() -> list[Found]:
        with hub_errors(site, text, None):
            found: list[Found] = []
            # HfApi.list_models would ask again and again by itself, at length, with a client of its own making.
            session = client(site)
            headers = build_hf_headers(token=site.token or False, library_name="chatapp")
            query = urlencode(
                {"search": text, "sort": "downloads", "limit": 10 * limit, "expand": EXPANDED}, doseq=True
            )
            answer = session.get(f"{site.endpoint}/api/models?{query}", headers=headers)
            hf_raise_for_status(answer)
            for facts in answer.json():
                one = ModelInfo(**facts)  # type: ignore[no-untyped-call]
                tags = set(one.tags or ())
                if (known := sorted(tags & families)) and not tags & REPACKED and len(found) < limit:
                    told = licence(one.tags), bool(one.gated), parameters(one)
                    found.append(Found(one.id, known[0], one.downloads or 0, *told))
            return found

    return web.patiently(request, Patience(), on_wait=on_wait)


def parameters(model: ModelInfo) -> int:
    """How many parameters a repository has, as the Hub has counted them."""
    total = model.safetensors.total if model.safetensors else 0
    return total if isinstance(total, int) and 0 < total < file_selection.LIMIT else 0


def login(token: str) -> str:
    """Keep a token where huggingface_hub looks for it, once the Hub has accepted it; the user's name."""
    place = site()
    with hub_errors(with_token(place.endpoint, token), "", None):
        name = str(api(place).whoami(token=token)["name"])
        huggingface_hub.login(token=token)
    return name


def licence(tags: list[str] | None) -> str:
    """The licence among a repository's tags."""
    return next((tag.partition(":")[2] for tag in tags or () if tag.startswith("license:")), "not stated")


def api(site: Site) -> HfApi:
    """huggingface_hub, asking through `client`."""
    client(site)
    return HfApi(endpoint=site.endpoint, token=site.token or False, library_name="chatapp")


def client(site: Site) -> httpx2.Client:
    """huggingface_hub's client, made to refuse what is too large and redirects into the own network."""
    web.proxy_for(urlsplit(site.endpoint))  # these two say what is wrong with the environment, if anything is
    web.trust()
    constants.HF_HUB_DISABLE_TELEMETRY = True  # it would ask the Hub which programs to look for here, and report them
    session = get_session()
    session.timeout = Patience.stall
    session.headers["Accept-Encoding"] = "identity"  # so that what is counted is what must be held

    def guard(request: httpx2.Request) -> None:
        there = urlsplit(str(request.url))
        host = there.hostname or ""
        web.refuse_plain(there, site)
        if not web.HOST.fullmatch(host):
            raise ValueError(f"it leads to {host!r}, which is no host")
        if not site.owns(there) and not site.private and web.is_private(host, resolving=not web.proxy_for(there)):
            raise web.forbidden(host)

    def limit(response: httpx2.Response) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise ValueError("it is compressed, which was not asked for")
        if isinstance(response.stream, httpx2.SyncByteStream):
            response.stream = Limited(response.stream)

    session.event_hooks = {"request": [guard], "response": [limit]}
    return session


class Limited(httpx2.SyncByteStream):
    """The body of an answer, which must not be endless."""

    def __init__(self, stream: httpx2.SyncByteStream):
        self.stream = stream

    def __iter__(self) -> Iterator[bytes]:
        size, pace = 0, web.Pace(Patience.stall)
        for chunk in self.stream:
            pace.check()
            pace.arrived += len(chunk)
            size += len(chunk)
            if size > API_LIMIT:
                raise ValueError(f"it has more than {API_LIMIT:,} bytes")
            yield chunk

    def close(self) -> None:
        """Let go of the connection."""
        self.stream.close()


@contextmanager
def hub_errors(site: Site, id: str, revision: str | None) -> Iterator[None]:
    """Turn what huggingface_hub raises into StoreError, or into TryAgain where it may pass."""
    try:
        yield
    except errors.HfHubHTTPError as error:
        response = error.response
        if response is not None and (response.status_code in web.BUSY or response.status_code >= 500):
            host = urlsplit(site.endpoint).hostname
            raise TryAgain(f"{host} answers {response.status_code}", web.retry_after(response.headers)) from error
        raise explained(error, id, site, revision) from error
    except errors.OfflineModeIsEnabled as error:
        raise StoreError("HF_HUB_OFFLINE is set, so the Hub is not asked; unset it to use the network") from error
    except errors.HFValidationError as error:
        raise StoreError(f"{id!r} is no name of a repository; write ORGANISATION/NAME") from error
    except (httpx2.TransportError, ConnectionError, TimeoutError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise web.untrusted(urlsplit(site.endpoint).hostname, str(error)) from error
        raise web.unreached(urlsplit(site.endpoint).hostname, error) from error
    except ImportError as error:  # httpx2 without what it needs for the proxy that the environment sets
        raise web.other_proxy("socks://") from error
    except (
        httpx2.HTTPError,
        httpx2.InvalidURL,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        raise StoreError(
            f"{site.endpoint} does not answer as the Hub would ({web.plain(error)[:200]}); "
            "is there a network that wants you to log in, or is HF_ENDPOINT wrong?"
        ) from error


def refuse(answer: Answer, content: bytes, id: str, site: Site) -> NoReturn:
    """Raise what an answer means that is neither the file nor a passing trouble, as huggingface_hub understands it."""
    if site.owns(urlsplit(answer.url)):  # else it is storage, which knows nothing of repositories
        headers = {
            name: value for name, value in answer.headers.items() if not name.lower().startswith(("content", "trans"))
        }
        with hub_errors(site, id, None):
            request = httpx2.Request("GET", answer.url)
            hf_raise_for_status(httpx2.Response(answer.status, headers=headers, content=content, request=request))
    host = urlsplit(answer.url).hostname
    raise StoreError(f"{host} answers {answer.status} to a request for a file of {id}; try again later")


def explained(error: Exception, id: str, site: Site, revision: str | None) -> StoreError:
    """What an error of the Hub means for the user, and which page to visit."""
    page = f"{site.endpoint}/{id}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return gated(page, id, known=site.token is not None)
    if isinstance(error, errors.DisabledRepoError):
        return StoreError(f"{id} has been disabled by the Hub; see {page}")
    if isinstance(error, errors.RepositoryNotFoundError):
        if site.token:
            return StoreError(f"there is no {id} at {site.endpoint}, or your token may not read it; see {page}")
        return StoreError(
            f"there is no public repository {id} at {site.endpoint}; check the name at {page}, "
            "or if it is private: chatapp login"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return StoreError(f"{id} has no revision {revision!r}; see {page}/refs")
    if isinstance(error, errors.EntryNotFoundError):
        return StoreError(f"a file that {id} lists is not there; pull again, it may have just been changed")
    if status == 401:
        return StoreError(
            f"{site.endpoint} does not accept your token; make a new one at {site.endpoint}/settings/tokens, "
            "then: chatapp login"
        )
    if status == 403:
        return StoreError(f"{site.endpoint} does not let you read {id}; see {page}")
    return StoreError(f"{site.endpoint} refuses what was asked about {id}: {web.plain(error)[:300]}")


def gated(page: str, id: str, *, known: bool) -> StoreError:
    """The error for a model whose publisher wants to be asked."""
    if known:
        return StoreError(
            f"{id} is gated and your account has no access to it yet; ask for it at {page}, then pull again"
        )
    return StoreError(f"{id} is gated: accept its terms at {page}, then: chatapp login, and pull again")
