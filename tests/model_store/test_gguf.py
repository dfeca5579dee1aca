"""GGUF files against transformers, llama.cpp and its gguf package: weights, logits, tokenizers."""

import json
import re
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tokenizers

import backends
from backends import Session, quantize
from backends.decoder import Quantized
from backends.reference import Session as ReferenceSession
from chatapp.generation.text.tokenizer import Tokenizer
from model_store import Store, UnsupportedCheckpoint
from model_store.checkpoint.kept import Kept, joined, wider
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from model_store.gguf import gemma4, open_gguf
from model_store.gguf.adjustments import deepseek
from model_store.gguf.blocks import KINDS, dequantize, kept
from model_store.gguf.reader import Header
from model_store.gguf.vocabulary import COMPOSED, WORDS, tokenizer_files, words_of
from model_store.tokenizers import sentencepiece, tokenizer
from model_store.tokenizers.merges import byte_pair_encoding
from model_store.tokenizers.special_tokens import special_tokens
from support.arrays import near
from support.awkward_texts import TEXTS
from support.checkpoints import HERE, Run
from support.gguf_conversion import ARCHITECTURES, converted, converted_t5, metadata_of, rounded
from support.gguf_files import gguf, vocabulary
from support.respelled_checkpoints import Tensors, configure, respelled

TESTS = Path(__file__).parents[1]
GOLDEN, OWN, VOCABULARIES = TESTS / "golden", TESTS / "golden_gguf", TESTS / "golden_tokenizers"
TOLERANCE = 1e-4
"""Absolute, in float32."""
NOT_IN_GGUF = {
    "exaone4-hybrid",
    "falcon-grouped",
    "glm4_moe_lite",
    "falcon-sequential",
    "gemma4_text-experts",
    "gpt2-layer_scale",
    "gpt_oss",
    "granitemoehybrid",
    "granitemoehybrid-biases",
    "gpt_bigcode-multi_head",
    "minicpm3",
    "nemotron_h-biases",
    "phimoe-longrope",
    "qwen2-window",
    "qwen2_moe",
    "qwen3_5",
    "qwen3_moe-mixed",
}
"""What llama.cpp does not have, or is refused in its files."""
CASES = sorted(
    path.name for path in GOLDEN.iterdir() if path.name.split("-")[0] in ARCHITECTURES and path.name not in NOT_IN_GGUF
)
FILES = sorted(OWN.glob("*.gguf"))
BLOCKS = sorted(kind.name for kind in KINDS.values() if kind.unpack and not kind.tail)
OF = {kind.name: kind for kind in KINDS.values()}
CUTS = json.loads((OWN / "words.json").read_text(encoding="utf-8"))
"""A vocabulary, texts, and the tokens that llama.cpp makes of them by the name of how it cuts them."""
MARKS, CASES_OF_LETTERS = ("größer", "Ελληνικά", "Ünïcödé"), ("HTTPServer", "Ünïcödé")
APART = {
    "deepseek-llm": ("1234567890", "COVID", "x = ", "In 2024", "中文123", "Ünïcödé", "if(x"),
    **dict.fromkeys(("tekken", "gpt-4o", "minimax-m2"), MARKS),
    **dict.fromkeys(("youtu", "tiny_aya"), CASES_OF_LETTERS),
    "kimi-k2": (*MARKS, "HTTPServer"),
}
"""Beginnings of texts that llama.cpp cuts otherwise than the publishers' expressions, which it only comes near to:
digits in one, marks apart from their letters, small letters and capitals alike."""


def session_of(path: Path, backend: str, folder: Path, precision: str = "f32") -> Session:
    checkpoint, family, decoder = open_gguf(path)
    weights = Canonical(checkpoint, family, decoder)
    if backend == "reference":
        return ReferenceSession(decoder, dict(weights))
    held = Kept(weights) if precision == checkpoint.exact else weights
    backends.get(backend).lower(decoder, held, folder, precision=precision)
    return backends.get(backend).load(folder, device=backends.get(backend).devices()[0])


@pytest.mark.parametrize("case", CASES)
def test_a_converted_checkpoint_has_the_logits_that_transformers_gives(case: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(converted(GOLDEN / case))
    golden = np.load(GOLDEN / case / "golden.npz")
    session = session_of(path, "reference", tmp_path)
    assert session.forward(golden["tokens"][:1], last=24) == near(golden["logits"][:1], abs=TOLERANCE)


def exchanged(found: Tensors) -> Tensors:
    """The first layer in the place of the second."""
    places = {"0": "1", "1": "0"}
    return {re.sub(r"(?<=layers\.)\d", lambda at: places[at[0]], name): values for name, values in found.items()}


def guessing(found: Tensors) -> Tensors:
    """The same, and a layer behind the last one that guesses ahead."""
    return exchanged(found) | {"model.layers.2.eh_proj.weight": np.ones((64, 128), np.float32)}


@pytest.mark.parametrize(
    ("case", "change", "read", "config"),
    [
        ("minicpm3", dict, dict, dict(scale_emb=12, scale_depth=1.4, dim_model_base=256, rms_norm_eps=0.001)),
        (
            "glm4_moe_lite",
            guessing,
            exchanged,
            dict(mlp_layer_types=["dense", "sparse"], num_nextn_predict_layers=1)
            | dict(rope_parameters=dict(rope_theta=500.0, rope_type="default")),
        ),
    ],
)
def test_what_llama_cpp_says_of_a_changed_checkpoint_has_its_logits(
    case: str,
    change: Callable[[Tensors], Tensors],
    read: Callable[[Tensors], Tensors],
    config: dict[str, object],
    tmp_path: Path,
) -> None:
    (tmp_path / "read").mkdir()
    folder, plain = respelled(case, tmp_path, change), respelled(case, tmp_path / "read", read)
    path = tmp_path / "model.gguf"
    for one in folder, plain:
        configure(one, **config)
    path.write_bytes(converted(folder))
    checkpoint, family, decoder = open_checkpoint(plain)
    tokens = np.load(GOLDEN / case / "golden.npz")["tokens"][:1]
    expected = ReferenceSession(decoder, Canonical(checkpoint, family, decoder)).forward(tokens, last=24)
    assert session_of(path, "reference", tmp_path).forward(tokens, last=24) == near(expected, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"key_length": None}, "does not tell the sizes of heads"),
        ({"moe_intermediate_size": None}, "or of experts"),
        ({"n_group": 8}, "experts in groups that softmax chooses from"),
    ],
)
def test_deepseek_s_keys_that_cannot_be_are_refused(changed: dict[str, object], says: str) -> None:
    keys = {"key_length": 192, "qk_rope_head_dim": 64, "moe_intermediate_size": 48, "num_attention_heads": 4}
    keys["n_routed_experts"] = 8
    with pytest.raises(ValueError, match=says):
        deepseek({**keys, "rope_scaling": None, **changed})


@pytest.mark.parametrize(
    ("sizes", "kind"), [({"vocab_size": 154880}, "deepseek_v3"), ({"vocab_size": 102400}, "deepseek_v2")]
)
def test_glm_flash_is_known_by_its_sizes_as_its_files_do_not_tell_how_it_chooses(
    sizes: dict[str, object], kind: str
) -> None:
    keys = {"key_length": 256, "qk_rope_head_dim": 64, "moe_intermediate_size": 1536, "num_attention_heads": 20}
    config = {**keys, **sizes, "model_type": "deepseek_v2", "num_hidden_layers": 47, "n_routed_experts": 64}
    config["rope_scaling"] = None
    deepseek(config)
    assert config["model_type"] == kind


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_llama_cpp_has_its_logits(path: Path, tmp_path: Path) -> None:
    golden = np.load(path.with_suffix(".npz"))
    tolerance = 5e-3 if path.stem.startswith("gemma") else TOLERANCE  # llama.cpp's gelu is a table in float16
    for backend in ("reference", "onnx"):
        folder = tmp_path / backend
        folder.mkdir()
        session = session_of(path, backend, folder)
        assert session.forward(golden["tokens"], last=24) == near(golden["logits"], abs=tolerance)


@pytest.mark.parametrize("path", [path for path in FILES if "f32" not in path.stem], ids=lambda path: path.stem)
def test_at_its_own_precision_a_file_is_kept_as_it_is(path: Path, tmp_path: Path) -> None:
    checkpoint, family, decoder = open_gguf(path)
    weights = Canonical(checkpoint, family, decoder)
    exact = {"qwen2-q8_0", "llama-q4_0"}
    found = Kept(weights)
    for name in weights:
        values, expected = found[name].values, weights[name].values
        assert isinstance(expected, np.ndarray)
        assert np.array_equal(quantize.dequantize(values), expected), name
        if path.stem in exact and expected.ndim == 2:
            assert isinstance(values, Quantized), name
    golden = np.load(path.with_suffix(".npz"))
    session = session_of(path, "onnx", tmp_path, checkpoint.precision)
    difference = session.forward(golden["tokens"], last=24) - golden["logits"]
    assert np.sqrt(np.mean(difference**2)) < 0.07 * golden["logits"].std()  # activations have eight bits
    assert found.keys() == weights.keys()


@pytest.mark.parametrize("case", ["t5", "t5-codet5", "t5-flan", "mt5", "umt5"])
def test_an_encoder_and_its_decoder_answer_as_the_publishers_files_do(case: str, tmp_path: Path) -> None:
    published = tmp_path / case
    shutil.copytree(TESTS / "golden_answers" / case, published)
    configure(published, relative_attention_max_distance=128)  # which no key of GGUF says
    path = tmp_path / "model.gguf"
    path.write_bytes(converted_t5(published))
    arrays = np.load(published / "golden.npz")
    found = []
    for checkpoint, family, decoder in (open_gguf(path), open_checkpoint(published)):
        session = ReferenceSession(decoder, Canonical(checkpoint, family, decoder))
        session.forward(arrays["prompts"])
        found.append(session.forward(arrays["answers"], last=24))
    assert found[0] == near(found[1], abs=1e-6)
    if case == "t5":  # whose distances are the usual ones
        assert found[0][:, -24:] == near(arrays["logits"][:, -24:], abs=TOLERANCE)


@pytest.mark.parametrize("case", ["mixtral", "gpt_oss-mxfp4"])
@pytest.mark.parametrize("backend", HERE)
def test_experts_are_kept_as_the_integers_that_they_are(tmp_path: Path, backend: str, case: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(rounded(GOLDEN / case))
    checkpoint, family, decoder = open_gguf(path)
    weights = Canonical(checkpoint, family, decoder)
    held = Kept(weights)
    for name in (name for name in weights if ".experts." in name):
        values, expected = held[name].values, weights[name].values
        assert isinstance(values, Quantized) and isinstance(expected, np.ndarray)
        assert np.array_equal(quantize.dequantize(values), expected)
    tokens = np.load(GOLDEN / case / "golden.npz")["tokens"][:1]
    logits = ReferenceSession(decoder, held).forward(tokens, last=24)
    session = session_of(path, backend, tmp_path, checkpoint.exact)
    assert np.median(np.abs(session.forward(tokens, last=24) - logits).mean(-1)) < 0.06 * logits.std()


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_the_numbers_that_the_gguf_package_gives(name: str) -> None:
    arrays = np.load(OWN / "blocks.npz")
    raw, values = arrays[f"{name}.raw"], arrays[f"{name}.values"]
    assert np.array_equal(dequantize(OF[name], raw.ravel(), values.shape), values)
    if OF[name].bits:
        held = kept(OF[name], raw.ravel(), len(raw))
        assert held.bits == OF[name].bits
        assert np.array_equal(quantize.dequantize(held), values)


def test_ternary_numbers_are_read_as_bitnet_cpp_writes_them() -> None:
    """As quantize_to_i2_s does in its utils/convert-hf-to-gguf-bitnet.py: blocks of 128, and one scale behind all."""
    numbers, scale = np.random.default_rng(0).integers(-1, 2, (3, 256)), np.float32(0.3)
    first, second, third, fourth = (numbers + 1).astype(np.uint8).reshape(-1, 4, 32).swapaxes(0, 1)
    packed = (first << 6 | second << 4 | third << 2 | fourth).tobytes()
    data = np.frombuffer(packed + scale.tobytes() + bytes(28), np.uint8)
    assert len(data) == OF["I2_S"].stored(numbers.size)
    assert np.array_equal(dequantize(OF["I2_S"], data, numbers.shape), numbers * scale)
    assert np.array_equal(quantize.dequantize(kept(OF["I2_S"], data, 3)), numbers * scale)


def test_words_of_bitnet_are_cut_as_llama_3_does_as_its_files_do_not_say() -> None:
    header = Header(Path("x.gguf"), {"general.architecture": "bitnet-b1.58"}, {})
    assert words_of(header) == "llama-bpe"


def test_matrices_of_different_formats_are_joined_without_rounding() -> None:
    arrays = np.load(OWN / "blocks.npz")
    four, eight, six = (arrays[f"{name}.raw"] for name in ("Q4_0", "Q8_0", "Q6_K"))
    parts = [
        kept(OF["Q4_0"], np.tile(four, (4, 1)).ravel(), 2),
        kept(OF["Q8_0"], np.tile(eight, (4, 1)).ravel(), 2),
        kept(OF["Q6_K"], six[:1].ravel(), 1),
    ]
    whole = joined(parts)
    assert (whole.bits, whole.block) == (8, 16)
    assert np.array_equal(quantize.dequantize(whole), np.concatenate([quantize.dequantize(part) for part in parts]))
    assert joined(parts[:1] * 2).bits == 4
    assert wider(np.array([[0x80, 0x1F]], np.uint8)).tolist() == [[-8, 0, 7, -7]]


def test_the_file_decides_the_precision_and_show_says_why(tmp_path: Path) -> None:
    store = Store(tmp_path)
    known = {path.stem: store.get(str(path)) for path in FILES}
    assert {name: model.precision for name, model in known.items()} == {
        "gemma3-q5_1": "int8-32",
        "llama-q4_0": "int4-32",
        "llama-q4_k_m": "int8-32",
        "qwen2-q8_0": "int8-32",
        "smollm3-f32": "int8",
    }
    assert "is kept as it is" in known["qwen2-q8_0"].precision_reason
    assert "Q4_K has offsets" in known["llama-q4_k_m"].precision_reason
    assert "billion" in known["smollm3-f32"].precision_reason


def test_verification_compares_with_the_weights_as_they_are_kept(chatapp: Run) -> None:
    done = chatapp("verify", str(OWN / "llama-q4_0.gguf"), "--json")
    assert done.returncode == 0, done.stderr
    found = [one for one in json.loads(done.stdout)["comparisons"] if one["against"] == "int4-32 weights"]
    assert len(found) == 3 and all(one["error"] < 0.02 for one in found)


LAYERS = {
    "attention.sliding_window_pattern": (None, "does not tell of each layer whether it has a window"),
    "attention.key_length_swa": (None, "heads of layers with windows have no size"),
    "attention.value_length_swa": (8, "heads of layers with windows have no size, or two"),
    "rope.dimension_count_swa": (8, "or turn in part"),
    "attention.head_count_kv": (None, "does not tell the key-value heads"),
    "expert_count": (8, "nothing is known about the key gemma4.expert_count"),
}


@pytest.mark.parametrize("key", LAYERS)
def test_gemma_4_is_refused_where_its_file_does_not_tell_how_layers_differ(key: str, tmp_path: Path) -> None:
    value, says = LAYERS[key]
    config = json.loads((GOLDEN / "gemma4_text" / "config.json").read_text())
    metadata = {**metadata_of(config), **vocabulary(96), f"gemma4.{key}": value}
    tensors = {"token_embd.weight": (0, (96, 64), bytes(4 * 96 * 64)), "a": (0, (1,), bytes(4))}
    tensors |= {f"b{i}": (0, (1,), bytes(4)) for i in range(6)}
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf({name: found for name, found in metadata.items() if found is not None}, tensors))
    with pytest.raises(UnsupportedCheckpoint, match=says):
        open_gguf(path)


def test_factors_of_positions_only_leave_elements_alone_in_gemma_4() -> None:
    assert gemma4.share(None) == gemma4.share({"short_factor": [1.0, 1.0]}) == 1
    assert int(gemma4.share({"short_factor": [1.0, 1e30, 1e30]}) * 3) == 1
    for factors in [1.0, 2.0], [1e30, 1.0], [1.0, 1e30, 1.0]:
        with pytest.raises(ValueError, match="stretched otherwise"):
            gemma4.share({"short_factor": factors})


class TestTokenizers:
    """Of the vocabularies that transformers' tokenizers were compared on, written as GGUF does."""

    def file(self, case: str, tmp_path: Path, **changes: object) -> Path:
        folder = VOCABULARIES / case
        roles = special_tokens(folder)
        if (folder / "tokenizer.model").exists():
            pieces = list(sentencepiece.read(folder / "tokenizer.model").pieces)
            keys: dict[str, object] = {
                "model": "llama",
                "tokens": [one.text for one in pieces],
                "scores": [one.score for one in pieces],
                "token_type": [one.kind for one in pieces],
                "add_space_prefix": case != "gemma",
                "unknown_token_id": next(place for place, one in enumerate(pieces) if one.kind == 2),
            }
        else:
            model = byte_pair_encoding(folder)
            made = tokenizer.convert(folder)
            extra = {one["content"]: one["id"] for one in made["added_tokens"]}
            ids = {**model["vocab"], **extra}
            tokens = sorted(ids, key=lambda token: ids[token])
            special = {one["content"] for one in made["added_tokens"] if one["special"]}
            keys = {
                "model": "gpt2",
                "pre": {"qwen2": "qwen2"}.get(case, "gpt-2"),
                "tokens": tokens,
                "token_type": [3 if one in special else 4 if one in extra else 1 for one in tokens],
                "merges": [" ".join(pair) for pair in model["merges"]],
            }
        count = len(keys["tokens"])  # type: ignore[arg-type]  # a list
        for role in ("bos", "eos"):
            if (text := roles.get(f"{role}_token")) in keys["tokens"]:  # type: ignore[operator]  # a list
                keys[f"{role}_token_id"] = keys["tokens"].index(text)  # type: ignore[attr-defined]  # a list
        metadata = {
            key if key.startswith("tokenizer.") else f"tokenizer.ggml.{key}": value
            for key, value in {**keys, **changes}.items()
        }
        metadata = {"general.architecture": "llama", **metadata}
        path = tmp_path / "model.gguf"
        sizes = {"embedding_length": 8, "context_length": 64, "block_count": 1, "attention.head_count": 1}
        metadata |= {f"llama.{key}": value for key, value in sizes.items()}
        names = {
            "attn_norm": (8,), "ffn_norm": (8,), "attn_q": (8, 8), "attn_k": (8, 8), "attn_v": (8, 8),
            "attn_output": (8, 8), "ffn_gate": (8, 8), "ffn_up": (8, 8), "ffn_down": (8, 8),
        }  # fmt: skip
        shapes = {"token_embd.weight": (count, 8), "output_norm.weight": (8,)}
        shapes |= {f"blk.0.{name}.weight": shape for name, shape in names.items()}
        tensors = {name: (0, shape, bytes(4 * int(np.prod(shape)))) for name, shape in shapes.items()}
        path.write_bytes(gguf(metadata, tensors))
        return path

    def opened(self, path: Path, root: Path) -> Tokenizer:
        store = Store(root)
        model = store.get(str(path))
        return Tokenizer(model.folder, store.tokenizer(model))

    def test_gemma_4_joins_pieces_in_the_order_that_its_file_says_and_no_lines(self, tmp_path: Path) -> None:
        plain = self.opened(self.file("gemma", tmp_path), tmp_path / "plain")
        pairs = tokenizer.convert(VOCABULARIES / "gemma")["model"]["merges"]
        merges: list[str] = [" ".join(pair) for pair in pairs]
        path = self.file(
            "gemma", tmp_path, model="gemma4", merges=merges, scores=[0.0] * len(plain.vocabulary.get_vocab())
        )
        found = self.opened(path, tmp_path / "gemma4")
        for text in TEXTS:
            lines = re.findall(r"\n+|[^\n]+", text)
            assert found.encode(text) == [token for line in lines for token in plain.encode(line)], text
            assert found.decode(found.encode(text)) == text.replace("▁", " ")
        backwards = self.file("gemma", tmp_path, model="gemma4", merges=merges[::-1])
        other = self.opened(backwards, tmp_path / "backwards")
        assert any(other.encode(text) != found.encode(text) for text in TEXTS)

    @pytest.mark.parametrize("case", ["gpt2", "qwen2", "llama", "gemma"])
    def test_texts_become_the_tokens_that_the_publishers_files_give(self, case: str, tmp_path: Path) -> None:
        found = self.opened(self.file(case, tmp_path), tmp_path / "store")
        made = tmp_path / "tokenizer.json"
        made.write_text(json.dumps(tokenizer.convert(VOCABULARIES / case)))
        published = Tokenizer(VOCABULARIES / case, made)
        for text in TEXTS:
            assert found.encode(text) == published.encode(text), text
            assert found.decode(found.encode(text)) == published.decode(published.encode(text))
        assert found.eos >= published.eos

    @pytest.mark.parametrize("name", WORDS)
    def test_words_are_cut_as_llama_cpp_cuts_them(self, name: str) -> None:
        keys = {
            "model": "gpt2",
            "pre": name,
            "tokens": CUTS["tokens"],
            "merges": CUTS["merges"],
            "add_bos_token": False,
        }
        header = Header(Path(name), {f"tokenizer.ggml.{key}": value for key, value in keys.items()}, {})
        made = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_files(header)["tokenizer.json"]))
        for text, ids in zip(CUTS["texts"], CUTS["ids"][CUTS["alike"].get(name, name)], strict=True):
            if name in COMPOSED and text != unicodedata.normalize("NFC", text):
                continue  # llama.cpp does not compose
            assert (made.encode(text).ids == ids) is not text.startswith(APART.get(name, ())), text
            assert made.decode(made.encode(text).ids) == text

    def test_pieces_of_t5_are_those_of_the_publishers_file(self) -> None:
        model = sentencepiece.read(VOCABULARIES / "t5" / "spiece.model")
        assert model.charsmap and model.algorithm == "unigram"
        keys: dict[str, object] = {
            "model": "t5", "pre": "default", "tokens": [one.text for one in model.pieces],
            "scores": np.array([one.score for one in model.pieces], np.float32),
            "token_type": np.array([one.kind for one in model.pieces], np.int32),
            "precompiled_charsmap": np.frombuffer(model.charsmap, np.uint8), "unknown_token_id": model.unknown,
            "eos_token_id": 1, "add_space_prefix": model.dummy_prefix, "remove_extra_whitespaces": model.single_spaces,
        }  # fmt: skip
        header = Header(Path("t5"), {f"tokenizer.ggml.{key}": value for key, value in keys.items()}, {})  # type: ignore[misc]  # values of keys
        made = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_files(header)["tokenizer.json"]))
        published = tokenizers.Tokenizer.from_str(json.dumps(tokenizer.convert(VOCABULARIES / "t5")))
        for text in TEXTS:
            if "<extra_id" not in text and "<unk>" not in text:  # which files do not mark
                assert made.encode(text).ids == published.encode(text).ids, text

    def test_a_text_begins_with_the_token_that_the_file_names(self, tmp_path: Path) -> None:
        assert self.opened(self.file("llama", tmp_path), tmp_path / "store").start == (1,)
        without = self.file("llama", tmp_path, add_bos_token=False)
        assert self.opened(without, tmp_path / "other").start == ()

    def test_a_chat_template_makes_it_answer(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "store")
        assert not store.get(str(self.file("llama", tmp_path))).chats
        template = {"tokenizer.chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}"}
        model = store.get(str(self.file("llama", tmp_path, **template)))
        assert model.chats and model.name == "model"

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"model": "bert"}, "tokenizers of the kind 'bert'"),
            ({"tokens": ["a", "a"], "scores": [0.0, 0.0], "token_type": [1, 2]}, "the token 'a' is there twice"),
            ({"scores": [1.0]}, "tokenizer.ggml.scores has not one number for each"),
            ({"bos_token_id": 1 << 30}, "tokenizer.ggml.bos_token_id is 1073741824"),
            ({"add_bos_token": "yes"}, "neither yes nor no"),
        ],
    )
    def test_a_vocabulary_that_cannot_be_is_refused(
        self, changes: dict[str, object], message: str, tmp_path: Path
    ) -> None:
        with pytest.raises(UnsupportedCheckpoint, match=message):
            self.opened(self.file("llama", tmp_path, **changes), tmp_path / "store")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"pre": "klingon"}, "words cut as 'klingon'"),
            ({"merges": ["q"]}, "the merge 'q' joins no two tokens"),
            ({"merges": ["q \u4e00"]}, "joins no two tokens to another one"),
        ],
    )
    def test_byte_pairs_that_cannot_be_are_refused(
        self, changes: dict[str, object], message: str, tmp_path: Path
    ) -> None:
        with pytest.raises(UnsupportedCheckpoint, match=message):
            self.opened(self.file("gpt2", tmp_path, **changes), tmp_path / "store")
