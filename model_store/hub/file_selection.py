"""Choose the files of a repository that a model needs, and reject malicious names and sizes."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from model_store.errors import StoreError, UnsupportedCheckpoint
from model_store.hub.partial import Wanted
from model_store.models import DEVICES
from model_store.prebuilt import GRAPHS, PACKAGE

TEXTS: tuple[str, ...] = ("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
CARDS = ("README.md", "LICENSE", "LICENSE.txt")
TEXTS += ("added_tokens.json", "chat_template.jinja", *CARDS)
VOCABULARIES = ("vocab.json", "merges.txt", "tokenizer.model", "spiece.model")
"""Files to make a tokenizer of, if there is no tokenizer.json."""
WEIGHTS = (
    ("model.safetensors.index.json", "model.safetensors"),
    ("pytorch_model.bin.index.json", "pytorch_model.bin"),
)
"""Index and single file, in order of preference."""
OTHERS = {
    ".gguf": "GGUF files",
    ".onnx": "an ONNX model",
    ".mlmodel": "a Core ML model",
    ".msgpack": "Flax weights",
    ".h5": "TensorFlow weights",
    ".pt": "PyTorch pickles",
    ".pth": "PyTorch pickles",
    ".npz": "NumPy weights",
}
PREFERRED = ("Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q5_K_S", "Q6_K", "Q8_0", "MXFP4", "F16", "BF16", "F32")
"""Quantisations of GGUF files in order of preference, where none is asked for; Ollama begins with the same."""
QUANTIZATION = re.compile(r"(?:.*?[-_.])?((?:UD-)?(?:I?Q\d|TQ\d|I2_S|B?F16|FP16|F32|MXFP4)\w*)", re.IGNORECASE)
"""The name of a GGUF file, without its ending, that tells its quantisation."""
PART = re.compile(r"-\d{5}-of-\d{5}$")
"""The end of the name of a GGUF file that is a part of one."""
BESIDE = re.compile(r"mmproj|imatrix[^-.]*\.gguf$", re.IGNORECASE)
"""Names of GGUF files that hold no language model."""
BY_HAND = "download it, join it with llama-gguf-split --merge if it is in parts, and: chatapp import FILE"
LIMIT = 1 << 40
"""Largest file in bytes; no model that runs on one machine has a larger one."""
TEXT_LIMIT = 1 << 28
TEMPLATES = re.compile(r"additional_chat_templates/[A-Za-z0-9][A-Za-z0-9._-]{0,100}\.jinja")
"""The only files in a subfolder that a checkpoint needs."""
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
NAMES = re.compile(rf"({PLAIN.pattern})|({TEMPLATES.pattern})|(onnx/{PLAIN.pattern})")
"""Valid names of a model's files."""

Entries = Mapping[str, Wanted]
"""The files of a repository by name."""


def check_name(name: object) -> str:
    """Check a file's name from a repository; raises StoreError if it could lead out of a folder on any system."""
    if not isinstance(name, str):
        raise StoreError(f"the repository lists a file with the name {name!r}; nothing was downloaded")
    folded = unicodedata.normalize("NFKC", name).replace("\u2215", "/").replace("\u2044", "/").replace("\u29f5", "\\")
    parts = folded.split("/")
    if (
        not name
        or len(name) > 1000
        or {"", ".", ".."} & {part.strip() for part in parts}
        or set(folded) & set('\\:*?"<>|')
        or any(unicodedata.category(c).startswith("C") for c in name)  # control, bidirectional, surrogate, unassigned
        or any(DEVICES.fullmatch(part) for part in parts)
    ):
        raise StoreError(f"the repository lists a file with the unsafe name {name!r}; nothing was downloaded")
    return name


def check_entry(name: object, size: object, digest: object) -> Wanted:
    """Check a listed file; raises StoreError unless its name, size and digest are valid."""
    checked = check_name(name)
    if type(size) is not int or not 0 <= size <= LIMIT:
        raise StoreError(f"the repository says that {checked} has {str(size)[:40]} bytes; nothing was downloaded")
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", digest):
        raise StoreError(f"the repository gives no usable digest of {checked}; nothing was downloaded")
    return Wanted(checked, size, digest)


class Listing(Mapping[str, Wanted]):
    """The files that a repository lists, checked only when asked for, so that others may be odd."""

    def __init__(self, files: Iterable[tuple[object, object, object]]):
        """Takes names, sizes and digests."""
        self.files = {name: (size, digest) for name, size, digest in files if isinstance(name, str)}

    def __getitem__(self, name: str) -> Wanted:
        return check_entry(name, *self.files[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def cards(entries: Entries) -> list[Wanted]:
    """The card and licence, all that is pulled beside a GGUF file."""
    found = [entries[name] for name in CARDS if name in entries]
    return [file for file in found if file.size <= TEXT_LIMIT]


def texts(entries: Entries, repository: str) -> list[Wanted]:
    """Configuration, tokenizer, templates, card and licence, without what tokenizer.json makes superfluous."""
    if "config.json" not in entries:
        if "adapter_config.json" in entries:
            raise UnsupportedCheckpoint(f"{repository} is an adapter for another model; it cannot be run")
        raise UnsupportedCheckpoint(f"{repository} has no config.json{instead(entries)}")
    tokenizers = ("tokenizer.json",) if "tokenizer.json" in entries else VOCABULARIES
    templates = filter(TEMPLATES.fullmatch, entries)
    chosen = [entries[name] for name in (*TEXTS, *tokenizers, *templates) if name in entries]
    if not any(file.name in tokenizers for file in chosen):
        raise UnsupportedCheckpoint(
            f"{repository} has none of tokenizer.json, {', '.join(VOCABULARIES)}; it cannot be run"
        )
    for file in chosen:
        if file.size > TEXT_LIMIT:
            raise StoreError(f"{file.name} of {repository} has {file.size:,} bytes, too many for such a file")
    return chosen


def has_weights(entries: Entries) -> bool:
    """Whether a repository has a checkpoint's weights, which are preferred to exports."""
    usual = {name for names in WEIGHTS for name in names}
    return any(name in usual or (PLAIN.fullmatch(name) and name.endswith(".safetensors")) for name in entries)


def weight_index(entries: Entries, repository: str) -> tuple[Wanted | None, list[Wanted]]:
    """The index of the weights, or else their single file; safetensors are preferred to PyTorch's."""
    for index, single in WEIGHTS:
        if index in entries:
            return entries[index], []
        if single in entries:
            return None, [entries[single]]
    alone = [name for name in entries if PLAIN.fullmatch(name) and name.endswith(".safetensors")]
    if len(alone) == 1:
        return None, [entries[alone[0]]]
    raise UnsupportedCheckpoint(f"{repository} has neither model.safetensors nor pytorch_model.bin{instead(entries)}")


def exported(entries: Entries, repository: str) -> list[Wanted]:
    """The files of an exported graph, the graph first; none if there is no such graph.

    Core ML packages are nested folders, which pulls do not support.
    """
    graphs = [name for name in entries if name.endswith(".onnx") and NAMES.fullmatch(name)]
    usual = [name for name in GRAPHS if name in entries]
    if not usual and len(graphs) > 1:
        raise UnsupportedCheckpoint(
            f"{repository} holds several ONNX exports ({', '.join(sorted(graphs)[:5])}), none with the usual name;"
            " download one of them with config.json and the tokenizer, then run: chatapp import PATH"
        )
    for name in usual or graphs:
        if name.endswith(".xml"):
            beside = [name.removesuffix(".xml") + ".bin"]
        else:
            ours = f"{name.removesuffix('.onnx')}.data"
            beside = sorted(one for one in entries if one == ours or one.startswith((f"{name}_data", f"{name}.data")))
        if lacking := [one for one in beside if one not in entries or not NAMES.fullmatch(one)]:
            raise UnsupportedCheckpoint(f"{repository} has {name} without {lacking[0]}, its weights; it cannot be run")
        return [entries[one] for one in (name, *beside)]
    if packages := sorted({name.partition(f"{PACKAGE}/")[0] for name in entries if f"{PACKAGE}/" in name}):
        raise UnsupportedCheckpoint(
            f"{repository} holds only Core ML packages ({', '.join(one + PACKAGE for one in packages[:5])}), which are"
            " not pulled; download one, with config.json and the tokenizer, and then: chatapp import PATH"
        )
    return []


def ggufs(names: Iterable[str]) -> dict[str, list[str]]:
    """The names of GGUF files with a model, by quantisation, as they tell it."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        plain = name.rpartition("/")[2]
        if name.endswith(".gguf") and not BESIDE.search(plain):
            stem = PART.sub("", plain[:-5])
            told = QUANTIZATION.fullmatch(stem)
            found.setdefault((told[1] if told else stem).upper(), []).append(name)
    return found


def gguf(entries: Entries, repository: str, quantization: str | None) -> Wanted:
    """The GGUF file of a quantisation, or with this name; None: the only one, or the first of the preferred ones."""
    known = ggufs(entries)
    there = ggufs(filter(is_single, entries))
    stems = {name[:-5].upper(): [name] for names in there.values() for name in names}
    first = prefer(there) if there else ""
    wanted = quantization or (first if first in PREFERRED or len(there) == 1 else "")
    names = stems.get(wanted) or there.get(wanted, [])
    if len(names) == 1:
        return entries[names[0]]
    how = f"to pull one: chatapp pull {repository}:"
    if names:
        raise StoreError(f"{repository} has several files of {wanted} ({', '.join(names)}); {how}{names[0]}")
    has = f"no GGUF file of {wanted or 'a usual quantisation'}"
    if wanted in known or (known and not there):
        kind = wanted if wanted in known else next(iter(known))
        has = f"{kind} only in parts or in a folder ({known[kind][0]}); only single files outside folders can be pulled"
    others = f"it has {', '.join(there)}; {how}{first}" if there else BY_HAND if known else "see chatapp search"
    raise StoreError(f"{repository} has {has}; {others}")


def prefer(quantizations: Iterable[str]) -> str:
    """The preferred one of some quantisations, or the first."""
    there = list(quantizations)
    return next((kind for kind in PREFERRED if kind in there), there[0])


def is_single(name: str) -> bool:
    """Whether a GGUF file is whole, and not in a folder."""
    return PLAIN.fullmatch(name) is not None and not PART.search(name[:-5])


def shards(index: Wanted, content: Mapping[str, Any], entries: Entries) -> list[Wanted]:
    """The distinct files that an index names."""
    named = content.get("weight_map")
    if not isinstance(named, dict) or not named:
        raise UnsupportedCheckpoint(f"{index.name} has no weight_map; the repository is damaged")
    names = sorted({check_name(name) for name in named.values()})
    for name in names:
        if name not in entries or not PLAIN.fullmatch(name) or not name.endswith((".safetensors", ".bin")):
            raise UnsupportedCheckpoint(f"{index.name} names {name!r}, which is not a weights file of the repository")
    return [entries[name] for name in names]


def instead(entries: Entries) -> str:
    """What a repository without usable weights has, and what can be done; ends a message."""
    found = sorted({what for suffix, what in OTHERS.items() if any(name.endswith(suffix) for name in entries)})
    end = "to pull one: chatapp pull ORGANISATION/NAME:QUANTISATION" if ggufs(entries) else "it cannot be run"
    return f"{', but ' if found else ''}{' and '.join(found)}; {end}"


def total(files: Sequence[Wanted]) -> int:
    """Bytes of files."""
    return sum(file.size for file in files)
