"""Whether a tokenizer belongs to a model."""

from pathlib import Path

from model_store.checkpoint import read_json
from model_store.errors import UnsupportedCheckpoint


def check_vocabulary(path: Path, rows: int) -> None:
    """Raise when the vocabulary of the tokenizer.json at `path` goes beyond the `rows` of the embedding.

    It may be smaller, for embeddings are padded. Tokens added to it may lie beyond: Gemma 3 of 1B has one, for images,
    that its texts never hold.
    """
    vocabulary = (read_json(path).get("model") or {}).get("vocab") or {}
    ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    last = max(ids, default=-1)
    if last >= rows:
        raise UnsupportedCheckpoint(
            f"{path} has a token {last:,} and the model knows {rows:,} (vocab_size in config.json): they do not belong"
            " together; fetch the model's own tokenizer.json"
        )
