"""Make the little tokenizers of tests/golden_tokenizers and what transformers and SentencePiece make of awkward texts.

PYTHONPATH=tests python -m golden_makers.tokenizers [CASE ...], with `pip install '.[verify]' sentencepiece sacremoses`.
"""

import io
import json
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
import sacremoses
import sentencepiece
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers.convert_slow_tokenizer import LlamaConverter
from transformers.utils.chat_template_utils import render_jinja_template

from support.awkward_texts import LONG, PROSE, TEXTS

TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden_tokenizers"
TRAINING = [*PROSE * 5, (TESTS.parent / "CONTRIBUTING.md").read_text()]
ROBERTA = {name: f"<{name[:-6]}>" for name in ("pad_token", "unk_token", "mask_token")}
ROBERTA |= {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
QWEN_ADDED = {
    str(600 + place): {"content": content, "special": content[1] == "|"}
    | dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    for place, content in enumerate(("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>"))
}
PHI_ADDED = {
    str(number): {"content": content, "rstrip": content == "</s>", "special": content != "</s>"}
    | dict.fromkeys(("lstrip", "normalized", "single_word"), False)
    for number, content in ((0, "<unk>"), (1, "<s>"), (2, "</s>"), (560, "<|endoftext|>"), (561, "<|im_start|>"))
}
LLAMA: dict[str, Any] = dict(
    model_type="bpe",
    vocab_size=560,
    byte_fallback=True,
    normalization_rule_name="identity",
    remove_extra_whitespaces=False,
    allow_whitespace_only_pieces=True,
    split_digits=True,
)
GEMMA = LLAMA | dict(
    add_dummy_prefix=False,
    pad_id=0,
    eos_id=1,
    bos_id=2,
    unk_id=3,
    bos_piece="<bos>",
    eos_piece="<eos>",
    user_defined_symbols=["<b>", "\n\n", "▁▁"],
    control_symbols=["<start_of_turn>"],
)
T5: dict[str, Any] = dict(model_type="unigram", vocab_size=400, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
BOS = {"content": "</s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": True}

ASKED = {"role": "user", "content": "hello"}
THOUGHTS = [
    [ASKED, {"role": "assistant", "content": text}, {"role": "user", "content": "And now?"}]
    for text in (
        "<think>\nhm, the fox\n</think>\n\nA fox.",
        "\n<think>\n\n</think>\n\nA fox. ",
        "<think>cut off",
        "no thought <tool_call>f()",
        "<think>a</think>b<think>c</think> d",
        "</think>",
    )
]
THOUGHTS += [[{"role": "system", "content": "Be brief. /no_think"}, *THOUGHTS[0]], [*THOUGHTS[0], *THOUGHTS[4]]]

Files = dict[str, Any]
"""Contents of JSON files by their names, without the suffix."""
CASES: dict[str, tuple[Callable[[Path], None], Files]] = {
    "gpt2": (
        lambda folder: bpe(folder, ["<|endoftext|>"]),
        {"config": {"model_type": "gpt2"}},
    ),
    "opt": (
        lambda folder: bpe(folder, ["<s>", "<pad>", "</s>", "<unk>"]),
        {
            "config": {"model_type": "opt"},
            "tokenizer_config": {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "add_prefix_space": False},
            "special_tokens_map": {"bos_token": BOS, "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"},
        },
    ),
    "codegen": (
        lambda folder: bpe(folder, ["<|endoftext|>"]),
        {
            "config": {"model_type": "codegen"},
            "tokenizer_config": {"tokenizer_class": "CodeGenTokenizer", "add_prefix_space": True},
            "added_tokens": {"  ": 600, "\t\t": 601, "<sep>": 602},
        },
    ),
    "codet5": (
        lambda folder: bpe(folder, ["<pad>", "<s>", "</s>", "<unk>", "<mask>", "<extra_id_1>", "<extra_id_0>"]),
        {
            "config": {"model_type": "t5"},
            "tokenizer_config": {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": False},
            "special_tokens_map": ROBERTA
            | {"mask_token": BOS | {"content": "<mask>", "lstrip": True}}
            | {"additional_special_tokens": ["<extra_id_1>", "<extra_id_0>"]},
        },
    ),
    "gpt_neox": (
        lambda folder: bpe(folder, ["<|endoftext|>"]),
        {"config": {"model_type": "gpt_neox"}, "tokenizer_config": {"tokenizer_class": "GPTNeoXTokenizer"}},
    ),
    "qwen2": (
        lambda folder: bpe(folder, []),
        {
            "config": {"model_type": "qwen2"},
            "tokenizer_config": {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": QWEN_ADDED}
            | {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None},
        },
    ),
    "biogpt": (
        lambda folder: bpe(folder, ["<s>", "<pad>", "</s>", "<unk>"], suffix="</w>"),
        {"config": {"model_type": "biogpt"}},
    ),
    "llama": (
        lambda folder: pieces(folder / "tokenizer.model", LLAMA),
        {
            "config": {"model_type": "llama"},
            "tokenizer_config": {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "legacy": True},
        },
    ),
    "mistral": (
        lambda folder: pieces(folder / "tokenizer.model", LLAMA),
        {
            "config": {"model_type": "mistral"},
            "tokenizer_config": {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "legacy": False},
        },
    ),
    "phi3": (
        lambda folder: pieces(folder / "tokenizer.model", LLAMA),
        {
            "config": {"model_type": "phi3"},
            "tokenizer_config": {"tokenizer_class": "LlamaTokenizer", "add_bos_token": False, "legacy": False}
            | {"added_tokens_decoder": PHI_ADDED, "bos_token": "<s>", "eos_token": "<|endoftext|>"},
        },
    ),
    "gemma": (
        lambda folder: pieces(folder / "tokenizer.model", GEMMA),
        {
            "config": {"model_type": "gemma"},
            "tokenizer_config": {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "bos_token": "<bos>"}
            | {"eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": None},
        },
    ),
    "t5": (
        lambda folder: pieces(folder / "spiece.model", T5),
        {"config": {"model_type": "t5"}, "tokenizer_config": {"tokenizer_class": "T5Tokenizer", "extra_ids": 4}},
    ),
}


def bpe(folder: Path, special: list[str], suffix: str = "") -> None:
    """Write vocab.json and merges.txt: of bytes, or of letters where a suffix ends words."""
    ending: dict[str, Any] = {"end_of_word_suffix": suffix} if suffix else {}
    if suffix:
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix=suffix))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = [] if suffix else pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False, **ending
    )
    moses = sacremoses.MosesTokenizer("en")
    words = [moses.tokenize(text, aggressive_dash_splits=True, return_str=True) for text in TRAINING]
    tokenizer.train_from_iterator(words if suffix else PROSE, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    write_json(folder / "vocab.json", model["vocab"])
    third = " 7" if suffix else ""  # as BioGPT's file has it
    header = "" if suffix else "#version: 0.2\n"
    lines = (" ".join(pair) + third + "\n" for pair in model["merges"])
    (folder / "merges.txt").write_text(header + "".join(lines), "utf-8")


def pieces(path: Path, options: dict[str, Any]) -> None:
    """Train a SentencePiece model."""
    written = io.BytesIO()
    lines = (line for text in TRAINING for line in text.split("\n"))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=written, minloglevel=2, num_threads=1, **options
    )
    path.write_bytes(written.getvalue())


def reference(case: str, folder: Path) -> tuple[Callable[[str], list[int]], Callable[[list[int]], str]]:
    """How transformers encodes and decodes."""
    declared = CASES[case][1].get("tokenizer_config", {})
    kind = getattr(transformers, declared.get("tokenizer_class", "AutoTokenizer"))
    tokenizer = kind.from_pretrained(folder)
    if declared.get("legacy"):  # the class of version 5 no longer does what its converter, and all of version 4, did
        converter = LlamaConverter.__new__(LlamaConverter)
        converter.original_tokenizer = SimpleNamespace(legacy=True, add_prefix_space=True)
        tokenizer.backend_tokenizer.normalizer = converter.normalizer(None)
        tokenizer.backend_tokenizer.pre_tokenizer = converter.pre_tokenizer("▁", True)
    return (lambda text: tokenizer(text)["input_ids"]), (lambda ids: tokenizer.decode(ids, skip_special_tokens=True))


def make(case: str) -> None:
    """Write a checkpoint's files, without weights, and what they make of the texts."""
    folder = GOLDEN / case
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write, files = CASES[case]
    write(folder)
    for name, content in files.items():
        write_json(folder / f"{name}.json", content)
    encode, decode = reference(case, folder)
    ids = [encode(text) for text in TEXTS]
    long = encode(LONG)
    golden: dict[str, Any] = {
        "ids": ids,
        "texts": [decode(tokens) for tokens in ids],
        "long": [len(long), zlib.crc32(json.dumps(long).encode())],
    }
    for path in folder.glob("*.model"):
        processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        golden["plain"] = [processor.encode(text) for text in TEXTS]
    write_json(folder / "golden.json", golden)


def render_chats() -> None:
    """Write what transformers makes of conversations with each template of tests/chat_templates."""
    cases = json.loads((TESTS / "chat_templates" / "conversations.json").read_text())
    golden = {}
    for path in sorted((TESTS / "chat_templates").glob("*.jinja")):
        texts = []
        for conversation in cases["conversations"]:
            try:
                rendered, _ = render_jinja_template(
                    [conversation], chat_template=path.read_text(), add_generation_prompt=True, **cases["special"]
                )
                texts.append(rendered[0].replace(datetime.now().strftime("%d %b %Y"), "TODAY"))
            except Exception as error:
                texts.append(f"refused: {error}")
        golden[path.stem] = texts
    write_json(TESTS / "chat_templates" / "golden.json", golden)


def render_tools() -> None:
    """Write what transformers makes of a conversation with tools, with templates that know them."""
    path = TESTS / "chat_templates" / "tools.json"
    cases = json.loads(path.read_text())
    special = json.loads((TESTS / "chat_templates" / "conversations.json").read_text())["special"]
    sources = {name: (TESTS / "chat_templates" / f"{name}.jinja").read_text() for name in cases["published"]}
    cases["rendered"] = {
        name: render_jinja_template(
            [cases["conversation"]], cases["tools"], chat_template=source, add_generation_prompt=True, **special
        )[0][0].replace(datetime.now().strftime("%d %b %Y"), "TODAY")
        for name, source in {**sources, **cases["templates"]}.items()
    }
    write_json(path, cases)


def encode_thoughts() -> None:
    """Write the tokens that transformers makes of thinking assistants, where <think> is an added token."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(GOLDEN / "qwen2", name, dirs_exist_ok=True))
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        for place, content in enumerate(("<think>", "</think>")):
            settings["added_tokens_decoder"][str(604 + place)] = QWEN_ADDED["603"] | {"content": content}
        write_json(folder / "tokenizer_config.json", settings)
        tokenizer = transformers.Qwen2Tokenizer.from_pretrained(folder)
    golden: dict[str, Any] = {"added": settings["added_tokens_decoder"], "conversations": THOUGHTS}
    for template in ("smollm3", "qwen3"):
        source = (TESTS / "chat_templates" / f"{template}.jinja").read_text()
        golden[template] = [
            tokenizer.apply_chat_template(talk, chat_template=source, add_generation_prompt=True)["input_ids"]
            for talk in THOUGHTS
        ]
    write_json(TESTS / "chat_templates" / "thoughts.json", golden)


def write_json(path: Path, content: object) -> None:
    """Write JSON with letters as they are."""
    path.write_text(json.dumps(content, ensure_ascii=False, indent=None) + "\n", "utf-8")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or CASES:
        make(wanted)
    render_chats()
    render_tools()
    encode_thoughts()
