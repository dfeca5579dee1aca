"""Run decoders on this machine's accelerators: what every backend offers, and the list of backends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from backends.errors import BackendError as BackendError
from backends.errors import ContextExceeded as ContextExceeded

if TYPE_CHECKING:  # numpy takes 70 ms to import, and the command line only needs the names
    import numpy as np

    from backends.decoder import Decoder, Weights

NAMES = ("onnx", "openvino", "coreml")
"""Backends in the order in which they are tried."""


Progress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done, 0 to 1."""


@dataclass(frozen=True)
class Placement:
    """Where a model runs, as the runtime reports it."""

    backend: str
    device: str
    precision: str

    def __str__(self) -> str:
        return f"{self.backend} {self.device} {self.precision}"


@dataclass(frozen=True)
class Top:
    """The largest of some logits, largest first and equal ones by id; views, valid as long as the logits are."""

    tokens: "np.ndarray"  # (batch, last, count) int64
    logits: "np.ndarray"  # (batch, last, count) float32


KeyValues = Mapping[str, "np.ndarray"]
"""The cached keys, values and states of one row, under the names and in the shapes of the session that exported them.
"""


class Batch(Protocol):
    """Rows of different lengths that each grow by a token per call, on the weights of the session that opened them."""

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens cached in each row."""

    @property
    def top(self) -> Top | None:
        """The largest logits of the last `forward`, where the runtime picks them out itself."""

    def join(self, found: KeyValues, length: int) -> None:
        """Add a row of `length` tokens from what the session exported of it."""

    def forward(self, tokens: "np.ndarray") -> "np.ndarray":
        """Append a token to each row, (rows, 1), and return the logits (rows, 1, vocab_size) float32.

        The logits are a view, valid until the next call. Raises ContextExceeded, and then nothing has changed.
        """

    def reorder(self, parents: Sequence[int]) -> None:
        """Make row i continue what row `parents[i]` was; there may be fewer or more rows than before, or none."""

    def export(self, row: int) -> KeyValues:
        """The cached keys and values of a row, as views that are valid until the next call."""


class Session(Protocol):
    """A loaded decoder with its key-value cache: rows of equal length that grow together.

    With an encoder, the first `forward` after `rewind(0)` reads the whole prompt and returns the logits of the answer's
    first token; later calls read the answer. `length` and `context_length` count both.
    """

    context_length: int
    """Tokens that the cache can hold."""
    vocab_size: int
    """Logits per token."""
    placement: Placement
    """Where it runs."""
    whole_prompts: bool
    """Whether an encoder reads the prompt: in one call, and no part of it can be reused for another prompt."""
    rows_apart: bool
    """Whether a call with several tokens of several rows is computed one token at a time."""
    recurrent: bool
    """Whether layers keep states, so that rewinding may mean reading tokens again."""
    token_bytes: int
    """Bytes that one token of one row takes in the cache; 0 if the runtime does not tell."""

    @property
    def top(self) -> Top | None:
        """The largest logits of the last `forward`, where the runtime picks them out itself."""

    @property
    def length(self) -> int:
        """Tokens cached in every row."""

    @property
    def batch(self) -> int:
        """Rows in the cache; 0 while it is empty."""

    def forward(self, tokens: "np.ndarray", last: int = 1) -> "np.ndarray":
        """Append `tokens` (batch, count) and return the logits of the last ones, (batch, last, vocab_size) float32.

        The logits are a view, valid until the next call. Raises ContextExceeded, and then nothing has changed. Where an
        encoder reads the prompt, `last` must be 1 in that call.
        """

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens; after `rewind(0)` the next call may have another number of rows.

        A prompt that an encoder has read is kept or forgotten as a whole.
        """

    def nearest(self, length: int) -> int:
        """The largest length, at most `length`, to which this can rewind without reading any tokens again."""

    def reorder(self, parents: Sequence[int]) -> None:
        """Make row i continue what row `parents[i]` was; there may be fewer or more rows than before."""

    def export(self, row: int) -> KeyValues | None:
        """The cached keys and values of a row, as views valid until the next call; None if they cannot be restored."""

    def serves(self, found: KeyValues, length: int) -> bool:
        """Whether `found` can be restored for its row's first `length` tokens; recurrent states only serve all."""

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        """Replace the cache by one row, `tokens`, from what was exported of a row that begins with them.

        `found` must come from a session of the same model with the same placement, and serve that many tokens.
        """

    def open_batch(self) -> Batch | None:
        """A new, empty batch; None if the runtime or the model needs rows of equal length."""


@runtime_checkable
class HasInt8Cache(Protocol):
    """A session that can store keys and values of long texts as int8, once the results have been verified."""

    @property
    def has_int8_cache(self) -> bool:
        """Whether this model's cache can be int8."""

    def use_int8_from(self, length: int) -> None:
        """Use int8 for texts of at least `length` tokens, so that their logits can be compared."""

    def allow_int8(self, allowed: bool) -> None:
        """Use int8 where it is faster, now and after every later load; or never."""


class Backend(Protocol):
    """What the module of a backend must define."""

    def devices(self) -> list[str]:
        """The devices usable on this machine, best first; none if the runtime is missing."""

    def missing(self) -> str:
        """Why there are no devices; "" if there are."""

    def signature(self) -> str:
        """What a lowered model depends on besides the model: versions and, where it matters, the processor."""

    def lower(self, decoder: "Decoder", weights: "Weights", folder: Path, *, precision: str) -> None:
        """Write the runtime's graph of `decoder` to `folder`."""

    def carrier(self, precision: str) -> str:
        """The type in which the runtime stores a precision that it has no type for, without loss; "" if it has one."""

    def load(self, folder: Path, *, device: str) -> Session:
        """Open a lowered decoder."""


def get(name: str) -> Backend:
    """The backend called `name`."""
    if name not in NAMES:
        raise BackendError(f"unknown backend {name!r}; choose from {', '.join(NAMES)}")
    return cast(Backend, import_module(f"backends.{name}"))  # a module that meets the protocol


def prepare(name: str, folder: Path, *, device: str, on_progress: Progress | None = None) -> None:
    """Do a backend's one-time work for `folder` on this machine: Core ML tries packages, which takes minutes.

    `load` does it otherwise, without reporting progress.
    """
    if name == "coreml":
        from backends.coreml import prepare

        prepare(folder, device=device, on_progress=on_progress)


def list_types(name: str, folder: Path, *, device: str) -> list[str]:
    """The types that a backend can compute a lowered decoder in, its own choice first; "" where it has no choice.

    Only timing tells which is quickest.
    """
    if name == "openvino":
        from backends.openvino import list_types

        return list_types(folder, device=device)
    return [""]


def compute_in(name: str, folder: Path, kind: str) -> None:
    """Compute in one of the types that `list_types` names whenever `folder` is loaded from now on."""
    if kind:
        from backends.openvino import compute_in

        compute_in(folder, kind)


def check_call(session: Session, batch: int, count: int, last: int) -> None:
    """Raise BackendError for a `forward` that cannot be done, before anything has changed."""
    if count < 1 or not 1 <= last <= count:
        raise BackendError(f"forward needs at least one token and 1 to {count} wanted logits, not {last}")
    if session.whole_prompts and not session.length and last > 1:
        raise BackendError(f"an encoder reads the prompt: only the answer's first token has logits, not {last} of them")
    if session.length and batch != session.batch:
        raise BackendError(f"{session.batch} rows are cached and {batch} were given; reorder or rewind(0) first")
    if session.length + count > session.context_length:
        raise ContextExceeded(
            f"{session.length} + {count} tokens do not fit the context of {session.context_length} tokens"
        )


def check_rewind(length: int, cached: int, prompt: int = 0) -> None:
    """Raise BackendError for a `rewind` beyond what is cached, or into the `prompt` tokens that an encoder has read."""
    if not 0 <= length <= cached:
        raise BackendError(f"cannot rewind to {length} tokens, {cached} are cached")
    if 0 < length < prompt:
        raise BackendError(f"cannot rewind to {length} tokens: an encoder has read the first {prompt} as a whole")


def check_batch(lengths: Sequence[int], tokens: "np.ndarray", context_length: int) -> None:
    """Raise BackendError for a batch's `forward` that cannot be done, before anything has changed."""
    if not lengths or tokens.shape != (len(lengths), 1):
        raise BackendError(f"{len(lengths)} rows grow by a token each, and tokens of shape {tokens.shape} were given")
    if max(lengths) >= context_length:
        raise ContextExceeded(f"{max(lengths)} + 1 tokens do not fit the context of {context_length} tokens")


def check_parents(parents: Sequence[int], batch: int) -> None:
    """Raise BackendError for rows that do not exist."""
    if not parents or any(not 0 <= parent < batch for parent in parents):
        raise BackendError(f"cannot reorder {batch} cached rows by {list(parents)}")
