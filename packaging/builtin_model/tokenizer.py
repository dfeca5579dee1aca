"""Trains the byte-level BPE tokenizer, or takes that of a model, and encodes the corpus with it.

Writes tokenizer.json, tokenizer_config.json, train.npy (all tokens) and train_files.json (where each file begins).
"""

import argparse
import json
import random
import shutil
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 8192
SPECIAL = ["<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<file_sep>"]
"""StarCoder's spelling; a token's place in this list is its id."""

END, FIM_PREFIX, FIM_MIDDLE, FIM_SUFFIX, PAD, FILE_SEP = range(len(SPECIAL))

PLAIN_SPECIAL = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}

PIECES = r"\n+[ \t]*|[ ]?[A-Za-z_]+|[ ]?\d{1,3}|[ ]?[^\sA-Za-z_\d]+|[ \t]+(?=\S)|\s+"
"""A line break and its indentation are one piece, so that a usual indentation is one token."""

BYTES_PER_PACKAGE = 1_500_000
BYTES_IN_ALL = 20_000_000


def new_tokenizer() -> Tokenizer:
    """Makes an untrained tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sample(documents: list[dict[str, str]]) -> list[str]:
    """Draws the texts to learn from, none of the packages weighing too much."""
    texts: list[str] = []
    taken: dict[str, int] = {}
    for document in documents:
        if taken.get(document["package"], 0) < BYTES_PER_PACKAGE and sum(taken.values()) < BYTES_IN_ALL:
            texts.append(document["text"])
            taken[document["package"]] = taken.get(document["package"], 0) + len(document["text"])
    return texts


def train(documents: list[dict[str, str]], work: Path) -> Tokenizer:
    """Learns the merges and writes the two tokenizer files in Hugging Face's layout."""
    tokenizer = new_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=24,
    )
    tokenizer.train_from_iterator(sample(documents), trainer)
    tokenizer.save(str(work / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 1024,
        "bos_token": SPECIAL[END],
        "eos_token": SPECIAL[END],
        "pad_token": SPECIAL[PAD],
        "extra_special_tokens": SPECIAL[1:],
        "added_tokens_decoder": {str(i): {"content": token, **PLAIN_SPECIAL} for i, token in enumerate(SPECIAL)},
        "clean_up_tokenization_spaces": False,
        "fim_order": "spm",
    }
    (work / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    return tokenizer


def encode(documents: list[dict[str, str]], tokenizer: Tokenizer, work: Path) -> None:
    """Writes the tokens of every training file end to end, and a table of the files."""
    tokens: list[np.ndarray] = []
    files: list[dict[str, object]] = []
    start = 0
    for i in range(0, len(documents), 200):
        batch = documents[i : i + 200]
        for document, encoding in zip(batch, tokenizer.encode_batch_fast([d["text"] for d in batch]), strict=True):
            tokens.append(np.array(encoding.ids, dtype=np.uint16))
            files.append({"package": document["package"], "path": document["path"], "start": start})
            start += len(encoding.ids)
    np.save(work / "train.npy", np.concatenate(tokens))
    (work / "train_files.json").write_text(json.dumps(files))
    size = sum(len(d["text"].encode()) for d in documents)
    print(f"{start / 1e6:.1f} million tokens, {size / start:.2f} bytes each")


def main() -> None:
    """Parses the command line, trains and encodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--from", dest="model", type=Path, help="take this model's tokenizer instead of training one")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    work: Path = arguments.work
    with open(work / "train.jsonl", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    random.Random(arguments.seed).shuffle(documents)
    if arguments.model:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(arguments.model / name, work / name)
        tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    else:
        tokenizer = train(documents, work)
    encode(documents, tokenizer, work)


if __name__ == "__main__":
    main()
