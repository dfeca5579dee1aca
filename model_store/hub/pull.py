"""Pull a model: plan it, download what it needs, and publish it as a checkpoint of the store."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import backends
from backends import quantize
from backends.decoder import Decoder
from backends.prebuilt import PRECISION
from model_store import families, fit, gguf, prebuilt
from model_store.bandwidth import speed
from model_store.checkpoint import packed, rounded
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.config_fields import refuse_sizes
from model_store.convert import describe
from model_store.disk import SPARE, amount, existing, writing
from model_store.errors import StoreError, UnsupportedCheckpoint
from model_store.gguf.preview import write_preview
from model_store.hub import blobs, catalog, file_selection, hub, manifest, pulled, transfer
from model_store.hub.hub import OnWait, Repository
from model_store.hub.partial import Wanted, count_arrived
from model_store.hub.transfer import OnTransfer, Tracker, Transfer
from model_store.hub.web import Patience, Site
from model_store.location import Location
from model_store.locks import Held, Owner, alone
from model_store.models import StoredModel, usual_precision

CONFIG_LIMIT = 1 << 22
"""Largest config.json in bytes."""
INDEX_LIMIT = 1 << 25
FACTS = (
    "size", "there", "precision", "precision_reason", "disk_needed", "disk_free", "memory_needed", "memory",
    "tokens_per_second", "problems",
)  # fmt: skip
"""Fields of a plan in its JSON form."""
ITEM_BITS = {"float32": 32, "float16": 16, "bfloat16": 16}


@dataclass(frozen=True)
class Plan:
    """A planned pull: its files, and the needs of the model here; sizes in bytes."""

    location: Location
    repository: Repository
    revision: str | None
    files: tuple[Wanted, ...]
    quantization: str | None
    """The quantisation that was asked for, of a GGUF file."""
    graph: str | None
    """The graph to run, if it is an export, or the GGUF file."""
    model: StoredModel
    """The model as it will be in the store."""
    precision: str
    precision_reason: str
    read: Mapping[str, bytes]
    """Small files that planning has read, by digest."""
    there: int
    """Bytes of the files that are here already."""
    lowered: int
    """Bytes of the lowered model, for all backends that will be tried."""
    disk_free: int
    memory_needed: int
    memory: int
    tokens_per_second: float

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return file_selection.total(self.files)

    @property
    def disk_needed(self) -> int:
        """Bytes still to be downloaded, and of what is made of them."""
        return self.size - self.there + self.lowered

    @property
    def origin(self) -> dict[str, str | None]:
        """The model's source, for its manifest."""
        source = self.repository
        return {
            "endpoint": source.site.endpoint,
            "repository": source.id,
            "revision": self.revision,
            "commit": source.commit,
            "licence": source.licence,
            "quantization": self.quantization,
            "graph": self.graph,
        }

    @property
    def problems(self) -> list[str]:
        """Why it does not fit, with the numbers."""
        found = []
        if self.disk_needed + SPARE > self.disk_free:
            free = f"{amount(self.disk_free)} are free, of which {amount(SPARE)} must stay free"
            found.append(f"{amount(self.disk_needed)} of disk space needed, and {free}")
        if self.memory_needed > self.memory:
            found.append(
                f"{amount(self.memory_needed)} of memory needed at {self.precision}, "
                f"and this machine has {amount(self.memory)}"
            )
        return found

    @property
    def facts(self) -> dict[str, object]:
        """The plan as JSON."""
        found: dict[str, object] = {
            "model": self.model.name,
            "repository": self.repository.id,
            "commit": self.repository.commit,
            "licence": self.repository.licence,
            "family": self.model.family,
            "parameters": self.model.parameters or None,
            "export": self.model.export or None,
            "files": [asdict(file) for file in self.files],
        }
        return found | {name: getattr(self, name) for name in FACTS}

    def fetch(self, *, on_transfer: OnTransfer, patience: Patience | None = None) -> Path:
        """Download the files, resuming earlier attempts; returns the checkpoint's folder."""
        source, location, patience = self.repository, self.location, patience or Patience()
        unique = list({file.digest: file for file in self.files}.values())
        tracker = Tracker(unique)

        def on_wait(owner: Owner | None) -> None:
            on_transfer(tracker.look(count_here(location, unique), 0, f"waiting for {owner or 'another process'}"))

        with writing(location.root), alone(location, "pulling", on_wait) as held:
            target = location.checkpoint
            if manifest.is_here(target, source.commit, self.files):
                return target  # it was here, or another process was faster
            folder = pulled.begin(location, self.origin, self.files)
            for digest, content in self.read.items():
                (folder / f"{digest}.read").write_bytes(content)
                (folder / f"{digest}.read").replace(folder / digest)
            transfer.fetch(
                unique,
                folder,
                lambda file, offset: source.open(file, offset, stall=patience.stall),
                on_transfer=telling(held, on_transfer),
                patience=patience,
            )
            return pulled.publish(location)


def plan(
    roots: Sequence[Path],
    text: str,
    *,
    site: Site | None = None,
    precision: str | None = None,
    patience: Patience | None = None,
    on_wait: OnWait = lambda reason, pause: None,
) -> Plan:
    """Plan to pull `text`, asking only the Hub; raises StoreError for what cannot run."""
    if precision:
        quantize.precision(precision)  # raises for unknown ones
    wanted, patience = catalog.refer(text), patience or Patience()
    location = pulled.locate(roots, wanted.name)
    ahead = Ahead(location, ask(site or hub.site(), wanted, patience, on_wait), patience, on_wait)
    found = ahead.source
    model, needs, texts = find_model(ahead, wanted.quantization, precision)
    chosen = tuple(sorted((*texts, *needs.files), key=lambda file: file.size))
    if len({file.name.casefold() for file in chosen}) < len(chosen):
        raise StoreError(f"{found.id} has files whose names differ only in case; nothing was downloaded")
    return Plan(
        location=location,
        repository=found,
        revision=wanted.revision,
        files=chosen,
        quantization=wanted.quantization,
        graph=needs.files[0].name if needs.export or needs.files[0].name.endswith(".gguf") else None,
        model=model,
        precision=precision or model.precision,
        precision_reason="as you asked" if precision else model.precision_reason,
        read=ahead.read,
        there=sum(count_here(location, chosen, found.commit).values()),
        lowered=needs.lowered,
        disk_free=shutil.disk_usage(existing(location.root)).free,
        memory_needed=fit.memory_needed(needs.weights, needs.cache),
        memory=fit.memory(),
        tokens_per_second=speed(location.root).tokens_per_second(needs.weights),
    )


def ask(site: Site, wanted: catalog.Reference, patience: Patience, on_wait: OnWait) -> Repository:
    """A model's repository; raises StoreError if it is gated."""
    found = hub.repository(site, wanted.repository, wanted.revision, patience=patience, on_wait=on_wait)
    if found.gated and not found.site.token:
        raise hub.gated(found.page, found.id, known=False)
    return found


def find_model(
    ahead: "Ahead", quantization: str | None, precision: str | None
) -> tuple[StoredModel, "Needs", list[Wanted]]:
    """The model as it will be in the store, its needs, and the files to download beside its weights."""
    files, id = ahead.source.files, ahead.source.id
    if quantization or (file_selection.ggufs(files) and not file_selection.has_weights(files)):
        model, needs = of_gguf(ahead, file_selection.gguf(files, id, quantization), precision)
        return model, needs, file_selection.cards(files)
    texts = file_selection.texts(files, id)
    config = ahead.read_json(files["config.json"], CONFIG_LIMIT)
    needs = find_needs(ahead, config, precision)
    chats = any(file.name.startswith("chat_template") for file in texts)
    return foresee(ahead.location, config, needs, chats=chats), needs, texts


def foresee(location: Location, config: Config, needs: "Needs", *, chats: bool) -> StoredModel:
    """The model as it will be in the store."""
    return StoredModel(
        name=location.name,
        folder=location.checkpoint,
        family=str(config.get("model_type", "unknown")),
        parameters=needs.parameters,
        context_length=needs.context_length,
        chats=chats,
        size=file_selection.total(needs.files),
        own_precision=needs.own_precision[0],
        own_precision_reason=needs.own_precision[1],
        export=needs.export,
    )


@dataclass(frozen=True)
class Ahead:
    """Reads a repository's small files and headers ahead of the download, from here or the Hub."""

    location: Location
    source: Repository
    patience: Patience
    on_wait: OnWait
    read: dict[str, bytes] = field(default_factory=dict)
    """Whole files from the Hub, by digest."""

    def read_json(self, file: Wanted, limit: int) -> Config:
        """The JSON object in a file of at most `limit` bytes."""
        path = find_here(self.location, file) if file.size <= limit else None
        with suppress(OSError):
            if path and blobs.is_whole(path, file):
                return parse(path.read_bytes(), file, self.source.id)
        self.read[file.digest] = self.source.read_whole(file, limit, patience=self.patience, on_wait=self.on_wait)
        return parse(self.read[file.digest], file, self.source.id)

    def read_weights(self, file: Wanted, packed_bits: int) -> fit.Weights:
        """The weights in a safetensors file, by its header."""
        if path := find_here(self.location, file):
            with suppress(OSError, UnsupportedCheckpoint):  # damaged since: it will be downloaded again
                return fit.read_header(file.name, file.size, partial(start_of, path), packed_bits=packed_bits)

        def start(size: int) -> bytes:
            return self.source.read(file, size, patience=self.patience, on_wait=self.on_wait)

        return fit.read_header(file.name, file.size, start, packed_bits=packed_bits)

    def read_gguf(self, file: Wanted) -> tuple[StoredModel, Decoder]:
        """The model in a GGUF file, by its header."""

        def read(start: int, size: int) -> bytes:
            return self.source.read(file, size, start=start, patience=self.patience, on_wait=self.on_wait)

        with TemporaryDirectory() as name, writing(folder := Path(name)):
            if here := find_here(self.location, file):
                with suppress(OSError, UnsupportedCheckpoint):  # damaged since: it will be downloaded again
                    return describe_gguf(here, folder)
            path = folder / file.name
            try:
                write_preview(path, file.size, read)
                return describe_gguf(path, folder)
            except UnsupportedCheckpoint as error:
                told = str(error).replace(str(path), f"{file.name} of {self.source.id}")
                raise UnsupportedCheckpoint(told.replace(name, self.source.id)) from error


@dataclass(frozen=True)
class Needs:
    """The needs of a model, in bytes."""

    files: Sequence[Wanted]
    """The files of its weights, or of the graph, or the GGUF file."""
    parameters: int
    """0 if unknown before the download."""
    context_length: int
    weights: int
    """Bytes of the weights in memory."""
    lowered: int
    """On disk, for all backends that will be tried."""
    cache: int
    """Bytes of a conversation's keys and values."""
    own_precision: tuple[str, str]
    """The precision that weights which are rounded already suit, and why; empty for others."""
    export: str = ""
    """The only backend, for an export."""


def find_needs(ahead: Ahead, config: Config, precision: str | None) -> Needs:
    """The needs of a repository's checkpoint, or else of its exported graph."""
    found = ahead.source
    if not file_selection.has_weights(found.files) and (exported := file_selection.exported(found.files, found.id)):
        return of_export(exported, config, found.id, precision)
    decoder = read_decoder(config, found.id)
    index, files = file_selection.weight_index(found.files, found.id)
    if index:
        files = [index, *file_selection.shards(index, ahead.read_json(index, INDEX_LIMIT), found.files)]
    weights = weigh([file for file in files if file != index], config, ahead.read_weights)
    own = rounded.foreseen(config)
    size = fit.lowered_size(weights.parameters, precision or own[0] or usual_precision(weights.parameters))
    lowered = count_places() * size
    return Needs(files, weights.parameters, decoder.context_length, size, lowered, fit.cache_size(decoder), own)


def of_export(files: Sequence[Wanted], config: Config, id: str, precision: str | None) -> Needs:
    """The needs of an exported graph, which runs as it is."""
    backend = prebuilt.BACKENDS[Path(files[0].name).suffix]
    if why := backends.get(backend).missing():
        raise StoreError(f"{id} is an export for {backend}, and {why}")
    if precision and precision != PRECISION:
        raise StoreError(
            f"{id} is an export for {backend} and runs as it is, not at {precision}; leave out --precision, or pull the"
            " checkpoint that it was made of"
        )
    try:
        cache = fit.cache_size(read_decoder(config, id))
    except UnsupportedCheckpoint:  # other programs know more types
        cache = 0
    refuse_sizes(config)
    context_length = prebuilt.context_length(f"config.json of {id}", config)
    own = PRECISION, prebuilt.REASON.format(backend)
    return Needs(files, 0, context_length, file_selection.total(files), 0, cache, own, backend)


def of_gguf(ahead: Ahead, file: Wanted, precision: str | None) -> tuple[StoredModel, Needs]:
    """The model in a GGUF file, and its needs."""
    model, decoder = ahead.read_gguf(file)
    model = replace(model, name=ahead.location.name, folder=ahead.location.checkpoint)
    size = fit.lowered_size(model.parameters, precision or model.precision)
    own = model.own_precision, model.own_precision_reason
    cache, lowered = fit.cache_size(decoder), count_places() * size
    return model, Needs([file], model.parameters, model.context_length, size, lowered, cache, own)


def describe_gguf(path: Path, folder: Path) -> tuple[StoredModel, Decoder]:
    """Describe the GGUF file at `path` by files made in `folder`; raises UnsupportedCheckpoint if it cannot run."""
    gguf.write_files(path, folder)
    return describe(folder), gguf.open_gguf(path)[2]


def count_places() -> int:
    """The number of backends that will be tried."""
    return sum(bool(backends.get(name).devices()) for name in backends.NAMES)


def parse(content: bytes, file: Wanted, id: str) -> Config:
    """Parse a file's JSON object."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnsupportedCheckpoint(f"{file.name} of {id} is not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise UnsupportedCheckpoint(f"{file.name} of {id} is not a JSON object")
    return value


def read_decoder(config: Config, id: str) -> Decoder:
    """The decoder of a config.json; raises UnsupportedCheckpoint if it cannot run."""
    try:
        return families.find(config).decoder(config)
    except UnsupportedCheckpoint as error:
        raise UnsupportedCheckpoint(f"{id} cannot be run: {error}") from error
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise UnsupportedCheckpoint(f"config.json of {id} lacks a field or has a wrong one: {error}") from error


def weigh(files: list[Wanted], config: Config, weights_in: Callable[[Wanted, int], fit.Weights]) -> fit.Weights:
    """The weights in the files: by the header of the first, and by the others' sizes."""
    first, size = files[0], file_selection.total(files)
    if not first.name.endswith(".safetensors"):
        bits = ITEM_BITS.get(str(config.get("dtype") or config.get("torch_dtype")), 32)
        return fit.Weights(size * 8 // bits, bits)
    weights = weights_in(first, packed.scheme(config.get("quantization_config") or {})["bits"])
    return weights if len(files) == 1 else fit.Weights(round(size * 8 / max(1, weights.bits)), weights.bits)


def start_of(path: Path, size: int) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as file:
        return file.read(size)


def telling(held: Held, on_transfer: OnTransfer) -> OnTransfer:
    """A callback that reports to waiting processes and to `on_transfer`."""

    def tell(now: Transfer) -> None:
        held.tell("fetching", now.done / max(1, now.size))
        on_transfer(now)

    return tell


def count_here(location: Location, files: Sequence[Wanted], commit: str | None = None) -> dict[str, int]:
    """Bytes of each file that are here, by name."""
    target = location.checkpoint
    if commit and manifest.is_here(target, commit, files):
        return {file.name: file.size for file in files}
    return {file.name: count_arrived(location.partial, file) for file in files}


def find_here(location: Location, file: Wanted) -> Path | None:
    """A file, verified when it was downloaded, in whichever model, finished or not."""
    for path in (location.partial / file.digest, *blobs.holders(location.root, file.digest)):
        if path.is_file() and not path.is_symlink() and path.stat().st_size == file.size:
            return path
    return None
