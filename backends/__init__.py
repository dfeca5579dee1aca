"""Run decoders on this machine's accelerators: what every backend offers, and which there are."""

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
"""Told what is being done, and what share of it is, 0 to 1."""


@dataclass(frozen=True)
class Placement:
    """Where a model runs: of a session, as the runtime reports it."""

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
"""What the cache holds of one row of tokens, by names and in shapes of the session that gave it."""


class Batch(Protocol):
    """Rows of tokens, each as long as it is, that grow by a token at once: on the weights of a session, beside it."""

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens cached in each row."""

    @property
    def top(self) -> Top | None:
        """The largest logits of the last `forward`, where the runtime finds them itself."""

    def join(self, found: KeyValues, length: int) -> None:
        """Add a row that has read `length` tokens, of which the session has told what it caches."""

    def forward(self, tokens: "np.ndarray") -> "np.ndarray":
        """Append a token to each row, (rows, 1), and return the logits (rows, 1, vocab_size) float32.

        The logits are a view, valid until the next call. Raises ContextExceeded, and then nothing has changed.
        """

    def reorder(self, parents: Sequence[int]) -> None:
        """Let row i continue what row `parents[i]` was; fewer or more rows than before are fine, none too."""

    def export(self, row: int) -> KeyValues:
        """What the cache holds of a row, as views, valid until the next call."""


class Session(Protocol):
    """A loaded decoder with its key-value cache: rows of tokens that grow together.

    With an encoder, the first `forward` after `rewind(0)` reads the prompt, all of it, and returns the logits of the
    answer's first token; whatever comes after it is the answer. `length` counts both, as `context_length` does.
    """

    context_length: int
    """Tokens that the cache can hold."""
    vocab_size: int
    """Logits of a token."""
    placement: Placement
    """Where it runs."""
    whole_prompts: bool
    """Whether an encoder reads the prompt: in one call, as a text of its own, and no part serves the next one."""
    rows_apart: bool
    """Whether several tokens of several rows are not read in one call, but one after the other."""
    recurrent: bool
    """Whether layers keep states: going back may take reading again."""
    token_bytes: int
    """Bytes that a token takes in the cache of each row; 0 where the runtime does not tell."""

    @property
    def top(self) -> Top | None:
        """The largest logits of the last `forward`, where the runtime finds them itself."""

    @property
    def length(self) -> int:
        """Tokens cached in every row."""

    @property
    def batch(self) -> int:
        """Rows in the cache; 0 while it is empty."""

    def forward(self, tokens: "np.ndarray", last: int = 1) -> "np.ndarray":
        """Append `tokens` (batch, count) and return the logits of the last ones, (batch, last, vocab_size) float32.

        The logits are a view, valid until the next call. Raises ContextExceeded, and then nothing has changed.
        What an encoder reads has the logits of one token: `last` is 1.
        """

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens; 0 frees the batch size too.

        What an encoder has read is kept or forgotten as a whole.
        """

    def nearest(self, length: int) -> int:
        """The most tokens, `length` or fewer, from which a text that is rewound goes on without reading any again."""

    def reorder(self, parents: Sequence[int]) -> None:
        """Let row i continue what row `parents[i]` was; fewer or more rows than before are fine."""

    def export(self, row: int) -> KeyValues | None:
        """What the cache holds of a row, as views, valid until the next call; None where it cannot be put back."""

    def serves(self, found: KeyValues, length: int) -> bool:
        """Whether what was exported of a row can be put back for its first `length` tokens; of states only for all."""

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        """Cache one row, of these tokens, from what was exported of a row that begins with them; all else is forgotten.

        It must come from a session of the same model with the same placement, and serve for as many tokens.
        """

    def open_batch(self) -> Batch | None:
        """An empty batch; None where the runtime or the model wants rows of one length."""


@runtime_checkable
class HoldingBytes(Protocol):
    """A session that can hold what it caches of long texts in bytes, once somebody has verified what comes of it."""

    @property
    def may_hold_bytes(self) -> bool:
        """Whether it can with this model."""

    def hold_bytes_from(self, length: int) -> None:
        """Hold texts in bytes from so many tokens on, to compare the logits."""

    def allow_bytes(self, allowed: bool) -> None:
        """Do so where it is quicker, from now on and whenever it is loaded, or never."""


class Backend(Protocol):
    """The module of a backend."""

    def devices(self) -> list[str]:
        """Devices that are usable here, best first; none when the runtime is missing."""

    def missing(self) -> str:
        """Why there are no devices here; empty where there are."""

    def signature(self) -> str:
        """What a lowered model depends on besides the model: versions and, where it matters, the processor."""

    def lower(self, decoder: "Decoder", weights: "Weights", folder: Path, *, precision: str) -> None:
        """Write the runtime's graph of `decoder` to `folder`."""

    def carrier(self, precision: str) -> str:
        """In what the runtime holds, exactly, weights whose precision it has no type for; "" where it has one."""

    def load(self, folder: Path, *, device: str) -> Session:
        """Open a lowered decoder."""


def get(name: str) -> Backend:
    """The backend called `name`."""
    if name not in NAMES:
        raise BackendError(f"there is no backend called {name!r}; choose from {', '.join(NAMES)}")
    return cast(Backend, import_module(f"backends.{name}"))  # a module that meets the protocol


def prepare(name: str, folder: Path, *, device: str, on_progress: Progress | None = None) -> None:
    """Do what a backend must do once on a machine before it loads `folder`: Core ML has something to try, minutes long.

    Without this `load` does it, and nobody is told how far it is.
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
    """Refuse a `forward` that cannot be done, before anything has changed."""
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
    """Refuse to rewind to what was never there, or into a prompt whose first `prompt` tokens an encoder has read."""
    if not 0 <= length <= cached:
        raise BackendError(f"cannot rewind to {length} tokens, {cached} are cached")
    if 0 < length < prompt:
        raise BackendError(f"cannot rewind to {length} tokens: an encoder has read the first {prompt} as a whole")


def check_batch(lengths: Sequence[int], tokens: "np.ndarray", context_length: int) -> None:
    """Refuse a `forward` of a batch that cannot be done, before anything has changed."""
    if not lengths or tokens.shape != (len(lengths), 1):
        raise BackendError(f"{len(lengths)} rows grow by a token each, and tokens of shape {tokens.shape} were given")
    if max(lengths) >= context_length:
        raise ContextExceeded(f"{max(lengths)} + 1 tokens do not fit the context of {context_length} tokens")


def check_parents(parents: Sequence[int], batch: int) -> None:
    """Refuse rows that do not exist."""
    if not parents or any(not 0 <= parent < batch for parent in parents):
        raise BackendError(f"cannot reorder {batch} cached rows by {list(parents)}")
