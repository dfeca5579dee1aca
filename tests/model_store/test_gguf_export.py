"""The target gguf: files that are read again as the models and the tokenizers that they were made of."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.reference import Session
from chatapp.generation.text.tokenizer import Tokenizer
from model_store import StoredModel
from model_store.checkpoint.checkpoint import Checkpoint
from model_store.checkpoint.weights import Canonical
from model_store.exports import ExportError, Source
from model_store.exports import gguf as target
from model_store.gguf import open_gguf
from model_store.gguf.blocks import KINDS, dequantize
from model_store.gguf.reader import Header, read_header
from model_store.gguf.vocabulary import tokenizer_files
from model_store.gguf.vocabulary_keys import Unsaid, vocabulary_keys
from model_store.gguf.writer import Writer, encode
from model_store.tokenizers import tokenizer as makers
from support import golden_logits
from support.awkward_texts import PROSE, TEXTS
from support.byte_tokenizers import write_tokenizer
from support.golden_models import Make
from support.respelled_checkpoints import Tensors, configure, respelled

TESTS = Path(__file__).parents[1]
VOCABULARIES = TESTS / "golden_tokenizers"
CASES = (
    "afmoe", "apertus", "bloom", "cohere2", "dots1", "ernie4_5_moe", "exaone", "exaone4", "falcon", "gemma2", "gemma3",
    "gemma3_text", "glm4", "glm4_moe", "gpt2", "gpt2-layer_scale", "gpt_bigcode", "gpt_neox", "gpt_oss-mxfp4",
    "granite", "granitemoe", "granitemoeshared", "hunyuan_v1_dense", "hunyuan_v1_moe", "llama", "llama-linear",
    "llama-tied_scaled", "llama-yarn", "minimax_m2", "nemotron", "olmo", "olmo2", "olmo3", "phi", "phi3-longrope",
    "qwen2", "qwen2_moe-each", "qwen2_vl", "qwen3", "qwen3_moe", "qwen3_vl", "stablelm-parallel",
)  # fmt: skip
"""One of each kind that llama.cpp has."""
CONTEXTS = ("mistral", 6), ("mixtral", 6), ("phi3", 6), ("gemma2", 6), ("gpt2", 20), ("phi3-longrope", 24)


def source_of(model: StoredModel) -> Source:
    rows = Source(model, model.folder).decoder.vocab_size
    return Source(model, write_tokenizer(model.folder, rows, model.family == "gpt_neox"))


def write(source: Source, folder: Path, precision: str = "f32", context: int = 0) -> Path:
    folder.mkdir()
    options = target.Options(precision, context)
    target.refuse(source, options)
    target.write(source, folder, options)
    assert [path.name for path in folder.iterdir()] == [f"{source.model.name}-{precision}.gguf"]
    return target.path_of(source, folder, options)


@pytest.mark.parametrize("case", CASES)
def test_a_file_has_the_logits_that_transformers_gives_for_the_checkpoint(
    golden: Make, tmp_path: Path, case: str
) -> None:
    checkpoint, family, decoder = open_gguf(write(source_of(golden(case)), tmp_path / "out"))
    tokens, logits = golden_logits.golden(case)
    found = Session(decoder, Canonical(checkpoint, family, decoder)).forward(tokens[:1], last=24)
    np.testing.assert_allclose(found, logits[:1], atol=golden_logits.TOLERANCE)


@pytest.mark.parametrize(("case", "context"), CONTEXTS)
def test_a_shorter_context_needs_no_windows(golden: Make, tmp_path: Path, case: str, context: int) -> None:
    source = source_of(golden(case))
    path = write(source, tmp_path / "out", context=context)
    checkpoint, family, decoder = open_gguf(path)
    assert decoder.context_length == context and not decoder.border
    assert {layer.window for layer in decoder.layers} == ({0, 6} if case == "gemma2" else {0})
    tokens, logits = golden_logits.golden(case)
    found = Session(decoder, Canonical(checkpoint, family, decoder)).forward(tokens[:1, :context], last=context)
    np.testing.assert_allclose(found, logits[:1, :context], atol=golden_logits.TOLERANCE)
    assert [one.passed for one in target.check(source, path.parent, target.Options("f32", context))] == [True]
    with pytest.raises(ExportError, match="has a context of 64 tokens; --context asks for 65"):
        target.refuse(source, target.Options("f32", 65))


def test_positions_of_images_are_not_written(golden: Make, tmp_path: Path) -> None:
    """As config.json of Qwen2-VL was published first."""
    model = golden("qwen2_vl")
    text = json.loads((model.folder / "config.json").read_text())["text_config"]
    del text["rope_parameters"]
    text |= {"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}, "rope_theta": 500.0}
    configure(model.folder, text_config=text)
    checkpoint, family, decoder = open_gguf(write(source_of(model), tmp_path / "out"))
    tokens, logits = golden_logits.golden("qwen2_vl")
    found = Session(decoder, Canonical(checkpoint, family, decoder)).forward(tokens[:1], last=24)
    np.testing.assert_allclose(found, logits[:1], atol=golden_logits.TOLERANCE)


def test_olmoe_is_written_where_heads_do_not_share_keys(golden: Make, tmp_path: Path) -> None:
    """As the published one is; each key-value head of the golden checkpoint is there twice, which changes no logit."""

    def twice(found: Tensors) -> Tensors:
        shared = [name for name in found if re.search(r"self_attn\.[kv]_(proj|norm)\.", name)]
        heads = {name: found[name].reshape(2, 16, -1).repeat(2, 0) for name in shared}
        return found | {name: values.reshape(64, *found[name].shape[1:]) for name, values in heads.items()}

    model = golden("olmoe")
    folder = respelled("olmoe", tmp_path / "twice", twice)
    configure(folder, num_key_value_heads=4)
    path = write(source_of(replace(model, folder=folder)), tmp_path / "out")
    checkpoint, family, decoder = open_gguf(path)
    tokens, logits = golden_logits.golden("olmoe")
    found = Session(decoder, Canonical(checkpoint, family, decoder)).forward(tokens[:1], last=24)
    np.testing.assert_allclose(found, logits[:1], atol=golden_logits.TOLERANCE)


def test_matrices_are_rounded_and_all_else_is_not(golden: Make, tmp_path: Path) -> None:
    source = source_of(golden("gpt2"))
    for precision, kind in ("f32", "F32"), ("f16", "F16"), ("q8_0", "Q8_0"):
        header = read_header(write(source, tmp_path / precision, precision))
        kinds = {name: entry.kind.name for name, entry in header.entries.items()}
        matrices = {name for name in kinds if len(header.entries[name].shape) == 2 and name != "position_embd.weight"}
        assert {kinds[name] for name in matrices} == {kind}
        assert {kinds[name] for name in kinds.keys() - matrices} == {"F32"}
        assert header.metadata["general.file_type"] == {"F32": 0, "F16": 1, "Q8_0": 7}[kind]
        assert "output.weight" not in kinds  # it is the embedding
        found = target.check(source, tmp_path / precision, target.Options(precision))
        assert [one.passed for one in found] == [True]


def test_a_check_finds_another_model(golden: Make, tmp_path: Path) -> None:
    source, other = source_of(golden("llama")), source_of(golden("llama-yarn"))
    path = write(other, tmp_path / "out")
    path.rename(path.with_name("llama-f32.gguf"))
    assert [one.passed for one in target.check(source, tmp_path / "out", target.Options("f32"))] == [False]


def test_numbers_are_rounded_to_blocks_as_llama_cpp_does() -> None:
    header = read_header(TESTS / "golden_gguf" / "qwen2-q8_0.gguf")
    data = header.path.read_bytes()
    rounded = {name: entry for name, entry in header.entries.items() if entry.kind.name == "Q8_0"}
    assert len(rounded) > 10
    for entry in rounded.values():
        count = int(np.prod(entry.shape))
        raw = np.frombuffer(data, np.uint8, count // 32 * 34, entry.start)
        assert encode(dequantize(entry.kind, raw, entry.shape), "Q8_0") == raw.tobytes()
    halves = np.array([[127, 0.5, -0.5, 1.5, *[0] * 28]], np.float32)
    assert np.frombuffer(encode(halves, "Q8_0"), np.int8)[2:6].tolist() == [127, 1, -1, 2]
    assert encode(np.zeros((1, 32), np.float32), "Q8_0") == bytes(34)


def test_rows_that_blocks_do_not_divide_are_float16(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)
    with Writer(tmp_path / "a.gguf") as writer:
        writer.add("a", values, "Q8_0")
        writer.finish({"general.architecture": "llama", "yes": True, "texts": ["a", "b"], "some": np.arange(3.0)})
    header = read_header(tmp_path / "a.gguf")
    assert header.entries["a"].kind is next(kind for kind in KINDS.values() if kind.name == "F16")
    assert header.metadata["yes"] is True and header.metadata["texts"] == ["a", "b"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_numbers_too_large_for_float16_ask_for_more_bits(golden: Make, tmp_path: Path) -> None:
    source = source_of(golden("llama"))
    tensor = Checkpoint(source.folder).tensors["model.layers.1.self_attn.o_proj.weight"]
    with tensor.path.open("r+b") as file:
        file.seek(tensor.start)
        file.write(np.array([7e4]).astype(tensor.dtype).tobytes())
    source = Source(source.model, source.tokenizer)
    with pytest.raises(ExportError, match="needs --precision f32: the tensor blk.1.attn_output.weight has values"):
        write(source, tmp_path / "out", "f16")
    assert write(source, tmp_path / "whole", "f32").exists()


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("gptj", "GGUF files of the family gptj are not written here, only of: afmoe, apertus, arcee, .*, starcoder2;"),
        ("gemma3n_text", "GGUF files of the family gemma3n_text can be read here, and not written"),
        ("gemma4", "GGUF files of the family gemma4 can be read here, and not written"),
        ("gemma4_text", "GGUF files of the family gemma4_text can be read here, and not written"),
        ("mistral", "llama.cpp's llama has no windows, and layer 0 has one of 6 tokens: --context 6 would do"),
        ("qwen2-window", "llama.cpp's qwen2 has another attention in layer 1"),
        ("falcon-grouped", "llama.cpp's falcon has no ffn_norm"),
        ("arcee", "llama.cpp's arcee has no bias of down_proj"),
        ("phi3-partial", "llama.cpp's phi3 has heads of 16, not 24"),
        ("gpt_bigcode-multi_head", "cannot be a GGUF file: starcoder with more than one key-value head is not"),
        ("olmoe", "llama.cpp's olmoe has keys of each head, and these are of 2 only"),
        ("qwen2_moe", "llama.cpp's qwen2moe chooses experts, or weighs them, otherwise"),
        ("phimoe", "GGUF files of the family phimoe can be read here, and not written"),
        ("deepseek_v2", "GGUF files of the family deepseek_v2 can be read here, and not written"),
        ("deepseek_v3", "GGUF files of the family deepseek_v3 can be read here, and not written"),
        ("t5", "an encoder-decoder .t5."),
    ],
)
def test_what_llama_cpp_cannot_have_is_refused_by_name(golden: Make, case: str, said: str) -> None:
    with pytest.raises(ExportError, match=said):
        target.refuse(source_of(golden(case)), target.Options("f32"))


def test_other_activations_and_precisions_are_refused(golden: Make) -> None:
    model = golden("gpt2")
    source = source_of(model)
    with pytest.raises(ExportError, match="lacks 'q4_0'; choose from f32, f16, q8_0"):
        target.refuse(source, target.Options("q4_0"))
    config = json.loads((model.folder / "config.json").read_text())
    (model.folder / "config.json").write_text(json.dumps({**config, "activation_function": "relu"}))
    with pytest.raises(ExportError, match="llama.cpp's gpt2 has the activation 'gelu_tanh'"):
        target.refuse(Source(model, source.tokenizer), target.Options("f32"))
    (model.folder / "config.json").write_text(json.dumps({**config, "activation_function": "gelu"}))
    target.refuse(Source(model, source.tokenizer), target.Options("f32"))  # it computes both in one way


class TestTokenizers:
    """Of the vocabularies that transformers' tokenizers were compared on."""

    def published(self, case: str, tmp_path: Path) -> tuple[Path, Path, int]:
        """A folder, its tokenizer.json, and the rows of an embedding with some to spare."""
        folder = Path(shutil.copytree(VOCABULARIES / case, tmp_path / case))
        made = makers.convert(folder)
        (folder / "tokenizer.json").write_text(json.dumps(made))
        ids = [*makers.ids_of(made["model"]).values(), *(one["id"] for one in made["added_tokens"])]
        return folder, folder / "tokenizer.json", max(ids) + 4

    @pytest.mark.parametrize(
        ("case", "name"),
        [("gpt2", "gpt-2"), ("qwen2", "qwen2"), ("gpt_neox", "gpt-2"), ("opt", "gpt-2"), ("llama", ""), ("gemma", "")],
    )
    def test_texts_become_the_same_tokens_again(self, case: str, name: str, tmp_path: Path) -> None:
        folder, path, rows = self.published(case, tmp_path)
        architecture = {"gpt_neox": "gptneox"}.get(case, "llama")
        (folder / "chat_template.jinja").write_text("{{ messages }}")
        keys = vocabulary_keys(folder, path, architecture=architecture, rows=rows)
        with Writer(tmp_path / "made.gguf") as writer:
            writer.finish({"general.architecture": architecture, **keys})
        made = tmp_path / "made"
        made.mkdir()
        for file, content in tokenizer_files(read_header(tmp_path / "made.gguf")).items():
            (made / file).write_text(json.dumps(content))
        own, again = Tokenizer(folder, path), Tokenizer(made, made / "tokenizer.json")
        for text in TEXTS + PROSE:
            assert again.encode(text) == own.encode(text), text
            assert again.decode(again.encode(text)) == own.decode(own.encode(text))
        assert again.start == own.start and again.eos >= own.eos
        assert own.hidden - again.hidden <= {keys.get("tokenizer.ggml.unknown_token_id")}
        assert keys.get("tokenizer.ggml.pre", "") == name
        assert keys["tokenizer.chat_template"] == "{{ messages }}"
        assert len(keys["tokenizer.ggml.tokens"]) == rows  # type: ignore[arg-type]  # a list

    def test_scores_follow_from_the_merges_where_the_publisher_gives_none(self, tmp_path: Path) -> None:
        folder, path, rows = self.published("llama", tmp_path)
        (folder / "tokenizer.model").unlink()
        keys = vocabulary_keys(folder, path, architecture="llama", rows=rows)
        header = Header(tmp_path, {"general.architecture": "llama", **keys}, {})
        assert tokenizer_files(header)["tokenizer.json"]["model"]["merges"] == [
            tuple(pair) for pair in json.loads(path.read_text())["model"]["merges"]
        ]

    def test_scores_say_in_which_order_tokens_are_joined_and_not_of_which_pairs(self, tmp_path: Path) -> None:
        folder, path, rows = self.published("llama", tmp_path)
        content = json.loads(path.read_text())
        pairs = content["model"]["merges"]
        place = next(i for i, pair in enumerate(pairs[1:]) if "".join(pair) == "".join(pairs[i]))
        pairs[place], pairs[place + 1] = pairs[place + 1], pairs[place]
        path.write_text(json.dumps(content))
        assert vocabulary_keys(folder, path, architecture="llama", rows=rows)
        pairs.insert(0, pairs.pop())
        path.write_text(json.dumps(content))
        with pytest.raises(Unsaid, match="merges would be others"):
            vocabulary_keys(folder, path, architecture="llama", rows=rows)

    @pytest.mark.parametrize(
        ("case", "change", "said"),
        [
            ("t5", {}, "tokenizers of the kind Unigram have no keys"),
            ("codegen", {}, "puts a space before every text"),
            ("gpt2", {"pre_tokenizer": {"type": "Whitespace"}}, "in a way that llama.cpp has no name for"),
            ("qwen2", {"normalizer": {"type": "Lowercase"}}, "changes texts first .Lowercase."),
            ("llama", {"normalizer": {"type": "NFKC"}}, "changes texts first .NFKC."),
            ("llama", {"post_processor": {"type": "RobertaProcessing"}}, "puts around texts .RobertaProcessing."),
        ],
    )
    def test_what_no_key_says_is_refused(self, case: str, change: dict[str, object], said: str, tmp_path: Path) -> None:
        folder, path, rows = self.published(case, tmp_path)
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        with pytest.raises(Unsaid, match=said):
            vocabulary_keys(folder, path, architecture="llama", rows=rows)

    def test_more_tokens_than_rows_are_refused(self, tmp_path: Path) -> None:
        folder, path, rows = self.published("gpt2", tmp_path)
        with pytest.raises(Unsaid, match="is beyond the 5 rows of the embedding"):
            vocabulary_keys(folder, path, architecture="gpt2", rows=5)
