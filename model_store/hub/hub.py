"""The Hugging Face Hub: repositories, their files, search, and the user's token."""

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from model_store.errors import StoreError
from model_store.hub import file_selection, web
from model_store.hub.file_selection import Entries, Listing
from model_store.hub.partial import Wanted
from model_store.hub.web import Answer, Patience, Site, TryAgain

web.check_endpoint(
    os.environ.get("HF_ENDPOINT", "https://huggingface.co")
)  # huggingface_hub cannot be imported with an invalid URL

from huggingface_hub import constants, get_token  # noqa: E402

API_LIMIT = 1 << 25
"""Largest response, in bytes, that lists files or models."""
MOST_FILES = 20_000
EXPIRED = (400, 401, 403, 410)
"""Storage's statuses for an expired signature."""
WRONG_TOKEN = "Invalid credentials in Authorization header"
"""The Hub's message for an unknown token."""
Value = TypeVar("Value")
OnWait = Callable[[str, float], None]
"""Called with what went wrong, and the seconds until the next try."""
COMMIT = set("0123456789abcdef")


@dataclass(frozen=True)
class Repository:
    """A model's repository at one commit."""

    site: Site
    id: str
    commit: str
    licence: str
    gated: bool
    files: Entries

    @property
    def page(self) -> str:
        """The repository's web page."""
        return f"{self.site.endpoint}/{self.id}"

    def open(self, file: Wanted, offset: int, *, stop: int | None = None, stall: float = Patience.stall) -> Answer:
        """Request a file from byte `offset` up to `stop` (None: its end)."""
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
                break  # otherwise the Hub is asked again for a URL of its storage
        raise refusal(answer, content, self.site, self.id)

    def read(self, file: Wanted, limit: int, *, start: int = 0, patience: Patience, on_wait: OnWait) -> bytes:
        """Read a small file, or `limit` bytes of a large one from byte `start`."""

        size = min(limit, file.size - start)

        def request() -> bytes:
            stop = start + size if 0 < size < file.size else None
            answer = self.open(file, start, stop=stop, stall=patience.stall)
            content = bytearray()
            try:
                if start and answer.status != 206:
                    raise TryAgain(f"the server does not send a part of {file.name}")
                while len(content) < size and (chunk := answer.read()):
                    content += chunk
            finally:
                answer.close()
            if len(content) < size:
                raise TryAgain(f"only {len(content):,} of {size:,} bytes of {file.name} arrived")
            return bytes(content[:size])

        return web.patiently(request, patience, on_wait=on_wait)

    def read_whole(self, file: Wanted, limit: int, *, patience: Patience, on_wait: OnWait) -> bytes:
        """Read a file of at most `limit` bytes, and check its digest."""
        if file.size > limit:
            raise StoreError(f"{file.name} of {self.id} has {file.size:,} bytes, too many for such a file")
        content = self.read(file, limit, patience=patience, on_wait=on_wait)
        digest = file.hash()
        digest.update(content)
        if digest.hexdigest() != file.digest:
            raise StoreError(f"{file.name} of {self.id} does not match the digest of the Hub; try again later")
        return content


def site() -> Site:
    """The Hub as configured by the environment and `login`: HF_ENDPOINT, HF_TOKEN, HF_HOME."""
    if constants.HF_HUB_OFFLINE:
        raise StoreError("HF_HUB_OFFLINE is set; unset it to use the network")
    return with_token(constants.ENDPOINT, get_token())


def with_token(endpoint: str, token: str | None) -> Site:
    """The Hub at a URL; the token is only used where nobody can read it on its way."""
    there = web.check_endpoint(endpoint)
    if token and there.scheme == "http" and not web.is_loopback(there.hostname or ""):
        raise StoreError(
            f"HF_ENDPOINT is {web.plain_url(endpoint)}, and over http:// anybody on the way could read your token: set "
            "an https:// address, or leave the token out (unset HF_TOKEN, or HF_TOKEN_PATH=none for one that was kept)"
        )
    return Site(endpoint, token)


def repository(site: Site, id: str, revision: str | None, *, patience: Patience, on_wait: OnWait) -> Repository:
    """A repository at the commit that `revision` means now."""
    path = f"models/{quote(id)}" + (f"/revision/{quote(revision, safe='')}" if revision else "") + "?blobs=true"

    def read(facts: Any) -> Repository:  # Any: parsed JSON
        commit, files = facts["sha"], facts.get("siblings") or []
        if not isinstance(commit, str) or len(commit) != 40 or not set(commit) <= COMMIT:
            raise ValueError(f"the commit is {commit!r}")
        if len(files) > MOST_FILES:
            raise StoreError(f"{id} lists {len(files):,} files, too many for a model")
        listed = Listing(
            (one["rfilename"], one.get("size"), one["lfs"]["sha256"] if one.get("lfs") else one.get("blobId"))
            for one in files
        )
        return Repository(site, id, commit, licence(facts.get("tags")), bool(facts.get("gated")), listed)

    return ask(site, path, read, patience=patience, on_wait=on_wait, id=id, revision=revision)


@dataclass(frozen=True)
class Found:
    """A repository found by a search."""

    id: str
    family: str
    downloads: int
    licence: str
    gated: bool
    parameters: int
    """0 if the Hub does not know."""
    quantizations: tuple[str, ...] = ()
    """Those of its GGUF files."""


EXPANDED = ["downloads", "gated", "safetensors", "tags"]
"""The facts to ask for about each repository found."""
UNREAD = {"gguf", "mlx", "exl2", "exl3", "adapter"}
"""Tags of repositories with weights that we cannot read."""
ROUNDED = {"gptq", "awq", "bitsandbytes", "4-bit", "8-bit", "compressed-tensors"}
"""Tags of rounded models; of packed numbers the Hub counts the words."""
ASKS_ROUNDED = re.compile(r"awq|gptq|fp[48]|bnb|int[48]|w\d+a\d+|[48]-?bit", re.IGNORECASE)
"""Words in a search that ask for these."""


def search(site: Site, text: str, families: frozenset[str], *, on_wait: OnWait, limit: int = 20) -> list[Found]:
    """The most downloaded models with `text` in their name, of known families; rounded ones only if `text` asks."""
    left_out = UNREAD if ASKS_ROUNDED.search(text) else UNREAD | ROUNDED
    query = urlencode({"search": text, "sort": "downloads", "limit": 10 * limit, "expand": EXPANDED}, doseq=True)

    def read(models: Any) -> list[Found]:  # Any: parsed JSON
        found: list[Found] = []
        for facts in models:
            if not isinstance(tags := facts.get("tags") or [], list):
                raise TypeError("its tags are not a list")
            known = sorted(families.intersection(tags))
            if known and not left_out.intersection(tags) and len(found) < limit:
                count = 0 if ROUNDED.intersection(tags) else parameters(facts)
                told = licence(tags), bool(facts.get("gated")), count
                found.append(Found(str(facts["id"]), known[0], int(facts.get("downloads") or 0), *told))
        return found

    return ask(site, f"models?{query}", read, on_wait=on_wait, id=text)


def search_gguf(
    site: Site, text: str, wanted: str, architectures: frozenset[str], *, on_wait: OnWait, limit: int = 20
) -> list[Found]:
    """The most downloaded repositories with `text` in their name and GGUF files, of a `wanted` quantisation if any."""
    asked = {"search": text, "filter": "gguf", "sort": "downloads", "limit": 5 * limit}
    query = urlencode({**asked, "expand": ["downloads", "gated", "gguf", "siblings", "tags"]}, doseq=True)

    def read(models: Any) -> list[Found]:  # Any: parsed JSON
        found: list[Found] = []
        for facts in models:
            about = facts.get("gguf") or {}
            family, count = str(about.get("architecture")), int(about.get("total") or 0)
            names = [str(one["rfilename"]) for one in facts.get("siblings") or []]
            there = file_selection.ggufs(filter(file_selection.is_single, names))
            kinds = tuple(kind for kind in there if wanted in ("", kind))
            if kinds and family in architectures and len(found) < limit:
                told = licence(facts.get("tags")), bool(facts.get("gated")), count
                found.append(Found(str(facts["id"]), family, int(facts.get("downloads") or 0), *told, kinds))
        return found

    return ask(site, f"models?{query}", read, on_wait=on_wait, id=text)


def parameters(facts: Mapping[str, Any]) -> int:
    """A repository's number of parameters, as counted by the Hub."""
    total = (facts.get("safetensors") or {}).get("total")
    return total if isinstance(total, int) and 0 < total < file_selection.LIMIT else 0


def login(token: str) -> str:
    """Save a token where huggingface_hub looks for it, once the Hub has accepted it; returns the user's name."""
    trusted = with_token(site().endpoint, token)
    name = ask(trusted, "whoami-v2", lambda facts: str(facts["name"]))
    path = Path(constants.HF_TOKEN_PATH)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f".{path.name}.{os.getpid()}")
        with open(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(token)
        whole.replace(path)
    except OSError as error:
        raise StoreError(
            f"cannot save the token in {path} ({error.strerror}); set HF_HOME to another folder"
        ) from error
    return name


def licence(tags: list[str] | None) -> str:
    """The licence among a repository's tags."""
    return next((tag.partition(":")[2] for tag in tags or () if tag.startswith("license:")), "not stated")


def ask(
    site: Site,
    path: str,
    read: Callable[[Any], Value],  # Any: parsed JSON
    *,
    patience: Patience | None = None,
    on_wait: OnWait = lambda reason, pause: None,
    id: str = "",
    revision: str | None = None,
) -> Value:
    """Request JSON from the Hub, and return `read` of it; `id` and `revision` are for messages."""
    patience = patience or Patience()

    def request() -> Value:
        answer = web.get(f"{site.endpoint}/api/{path}", site, stall=patience.stall)
        try:
            content = answer.whole(API_LIMIT)
        finally:
            answer.close()
        if answer.status >= 400:
            raise refusal(answer, content or b"", site, id, revision)
        try:
            if answer.status != 200:
                raise ValueError(f"its answer is {answer.status}")
            if content is None:
                raise ValueError(f"it is larger than {API_LIMIT:,} bytes")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise ValueError("it is compressed, which was not requested")
            return read(json.loads(content))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise StoreError(
                f"{site.endpoint} does not answer as the Hub would ({web.plain(error)[:200]}); "
                "check HF_ENDPOINT, and whether your network needs a login"
            ) from error

    return web.patiently(request, patience, on_wait=on_wait)


def refusal(answer: Answer, content: bytes, site: Site, id: str, revision: str | None = None) -> StoreError:
    """The error for a response that is neither a success nor temporary, and the page to visit."""
    status, there = answer.status, urlsplit(answer.url)
    if not site.owns(there):  # storage knows nothing of repositories
        return StoreError(f"{there.hostname} answers {status} to a request for a file of {id}; try again later")
    page = f"{site.endpoint}/{id}"
    code, said = answer.headers.get("X-Error-Code", ""), answer.headers.get("X-Error-Message", "")
    if code == "GatedRepo":
        return gated(page, id, known=site.token is not None)
    if said == "Access to this resource is disabled.":
        return StoreError(f"{id} has been disabled by the Hub; see {page}")
    if code == "RevisionNotFound":
        return StoreError(f"{id} has no revision {revision!r}; see {page}/refs")
    if code == "EntryNotFound":
        return StoreError(f"a file that {id} lists is missing; it may have just changed: pull again")
    # For unreadable repositories the Hub answers as for missing ones.
    hidden = status == 401 and said != WRONG_TOKEN and ("/api/models/" in there.path or f"/{id}/resolve/" in there.path)
    if code == "RepoNotFound" or hidden:
        if site.token:
            return StoreError(f"{id} does not exist at {site.endpoint}, or your token has no access to it; see {page}")
        return StoreError(
            f"no public repository {id} at {site.endpoint}; check the name at {page}; "
            "if it is private, run: chatapp login"
        )
    if status == 401:
        return StoreError(
            f"{site.endpoint} does not accept your token; create a new one at {site.endpoint}/settings/tokens, "
            "then run: chatapp login"
        )
    if status == 403:
        return StoreError(f"{site.endpoint} denies access to {id}; see {page}")
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        said = said or str(json.loads(content)["error"])
    why = web.plain_text(f"{status} {said or answer.reason}")
    return StoreError(f"{site.endpoint} refused a request for {id}: {why[:300]}")


def gated(page: str, id: str, *, known: bool) -> StoreError:
    """The error for a gated model."""
    if known:
        return StoreError(f"{id} is gated and your account has no access yet; request it at {page}, then pull again")
    return StoreError(f"{id} is gated: accept its terms at {page}, then: chatapp login, and pull again")
