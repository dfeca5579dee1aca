"""Check that a tokenizer is valid, and belongs to a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_store.errors import UnsupportedCheckpoint
from model_store.files import read_json
from model_store.tokenizers.tokenizer import convert

KINDS = ("BPE", "Unigram", "WordLevel", "WordPiece")


def check_tokenizer(folder: Path, rows: int) -> None:
    """Raise if a checkpoint's tokenizer, published or converted, does not belong to the model."""
    published = folder / "tokenizer.json"
    if published.is_file():
        check_vocabulary(read_json(published), rows, published)
    else:
        check_vocabulary(convert(folder), rows, folder)


def check_vocabulary(content: Mapping[str, Any], rows: int, path: Path) -> None:
    """Raise if a tokenizer.json's vocabulary has more than `rows` ids.

    It may have fewer, as embeddings are padded. Added tokens may be beyond: Gemma 3 of 1B has one, for images, that its
    texts never contain.
    """
    model = content.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") not in KINDS:
        kind = repr(model.get("type")) if isinstance(model, dict) else "missing"
        raise UnsupportedCheckpoint(
            f"the model of the tokenizer in {path} is {kind}; known are {', '.join(KINDS)}; download it again"
        )
    check_merges(model, path)
    vocabulary = model.get("vocab") or {}
    ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    last = max(ids, default=-1)
    if last >= rows:
        raise UnsupportedCheckpoint(
            f"{path} has a token {last:,} and the model knows {rows:,} (vocab_size in config.json): they do not belong"
            " together; use the model's own tokenizer.json"
        )


def check_merges(model: Mapping[str, Any], path: Path) -> None:
    """Raise if merges use tokens that the vocabulary lacks, on which the tokenizers library may fail."""
    vocabulary, prefix = model.get("vocab") or {}, model.get("continuing_subword_prefix") or ""
    for merge in model.get("merges") or ():
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(token, str) for token in pair)):
            raise UnsupportedCheckpoint(f"{path} joins {merge!r}, which is not a pair of tokens; download it again")
        for token in (*pair, pair[0] + pair[1].removeprefix(prefix)):
            if token not in vocabulary:
                raise UnsupportedCheckpoint(
                    f"{path} joins {pair[0]!r} and {pair[1]!r}, and its vocabulary lacks {token!r}; download it again"
                )
