"""Make tests/golden_gguf/words.json: the tokens that llama.cpp makes of texts, by the name of how it cuts them.

PYTHONPATH=tests python -m golden_makers.gguf_words, with `pip install tokenizers xllamacpp numpy`.
The vocabulary joins bytes across words, so that every cut is seen in the tokens.
"""

import json
import sys
import tempfile
import urllib.request
from pathlib import Path

import numpy as np
import xllamacpp
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

sys.path.insert(0, str(Path(__file__).parents[2]))
from model_store.gguf.vocabulary import WORDS
from support.awkward_texts import PROSE, TEXTS
from support.gguf_files import gguf

GOLDEN = Path(__file__).parents[1] / "golden_gguf" / "words.json"
TOKENS = 2000
MARKED = "<|", "<s>", "</s>", "<pad>", "<mask>", "<0x"
MORE = [
    "In 2024, 1234567 of 12345 users (98.76%) paid 1,234,567.89; call 0049301234567 or 1234.",
    "HTTPServer's getURLForID2 isn't XMLHttpRequest'S, I'D say: we'Ve _private __init__ $var @user #tag",
    "中文123字符，标点！と日本語のテキスト「引用」カタカナ、ㄅㄆㄇ 한국어ㅋㅋ 문장입니다。汉字Latin混合",
    "a/b//c\\d\n/e\n\n  /f\r\n\t//g ;; :: ... --- === !== ?? <=> |> ~= ^^ && ||\n",
    "Ünïcödé ÀÉÎ ßẞ ǅ ʰ ª º Ⅷ ² ⅓ ٣٤٥ १२३ ๑๒๓ e\u0301 x\u0308y नमस्ते दुनिया ภาษาไทย",
    "if(x>=10){y[i]+=0x1F;}//done!\n\n\n\nclass A:\n    pass\n\n\treturn  \n",
]


def texts() -> list[str]:
    """The texts, without those that spell special tokens."""
    return [text for text in [*TEXTS, *MORE] if text and not any(mark in text for mark in MARKED)]


def vocabulary() -> dict[str, list[str]]:
    """Byte pairs that were learnt without any cuts."""
    learning = Tokenizer(models.BPE())
    learning.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS, initial_alphabet=alphabet, show_progress=False, max_token_length=12
    )
    corpus = [*PROSE, *texts()]
    pieces = [text[start : start + size] for text in corpus for size in (5, 8, 13) for start in range(0, len(text), 3)]
    learning.train_from_iterator(pieces * 2, trainer)
    model = json.loads(learning.to_str())["model"]
    tokens = sorted(model["vocab"], key=lambda token: model["vocab"][token])
    return {"tokens": tokens, "merges": [one if isinstance(one, str) else " ".join(one) for one in model["merges"]]}


def content(name: str, made: dict[str, list[str]]) -> bytes:
    """A GGUF file with this vocabulary and hardly a model."""
    sizes = {"embedding_length": 32, "context_length": 64, "block_count": 1, "attention.head_count": 1}
    sizes |= {"feed_forward_length": 32, "attention.head_count_kv": 1, "rope.dimension_count": 32}
    keys = {"model": "gpt2", "pre": name, "add_bos_token": False, **made, "bos_token_id": 0, "eos_token_id": 0}
    metadata = {"general.architecture": "llama", "llama.attention.layer_norm_rms_epsilon": 1e-5}
    metadata |= {f"llama.{key}": value for key, value in sizes.items()}
    metadata |= {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    metadata["tokenizer.ggml.token_type"] = [1] * len(made["tokens"])
    layer = ("attn_norm", "ffn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes = {f"blk.0.{one}.weight": (32,) if one.endswith("norm") else (32, 32) for one in layer}
    shapes |= {"token_embd.weight": (len(made["tokens"]), 32), "output_norm.weight": (32,)}
    return gguf(metadata, {one: (0, shape, bytes(4 * int(np.prod(shape)))) for one, shape in shapes.items()})


def ask(path: Path, asked: list[str]) -> list[list[int]]:
    """The ids that llama.cpp gives to texts."""
    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel, settings.warmup = str(path), 64, 1, False
    server = xllamacpp.Server(settings)
    found = []
    for text in asked:
        body = json.dumps({"content": text, "add_special": False}).encode()
        request = urllib.request.Request(
            f"{server.listening_address}/tokenize", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            found.append(json.load(answer)["tokens"])
    return found


def main() -> None:
    """Ask for every name; names whose tokens are the same as another's are kept by that name."""
    made, asked = vocabulary(), texts()
    ids: dict[str, list[list[int]]] = {}
    alike: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        for name in WORDS:
            path.write_bytes(content(name, made))
            found = ask(path, asked)
            same = next((other for other, kept in ids.items() if kept == found), None)
            if same:
                alike[name] = same
            else:
                ids[name] = found
            print(name, same or "", flush=True)
    report = {**made, "texts": asked, "alike": alike, "ids": ids}
    GOLDEN.write_text(json.dumps(report, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
