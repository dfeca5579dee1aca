"""Checkpoints as they are on the Hub: prefixes, types, shards, copies and names vary, the weights are the same."""

import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from model_store import UnsupportedCheckpoint
from model_store.checkpoint.checkpoint import Checkpoint
from model_store.checkpoint.weights import Canonical
from model_store.convert import describe, open_checkpoint
from support.arrays import near
from support.golden_logits import CASES, GOLDEN
from support.respelled_checkpoints import Tensors, configure, respelled
from support.torch_files import tensor, write


def canonical(folder: Path) -> Canonical:
    return Canonical(*open_checkpoint(folder))


def assert_same(one: Canonical, other: Canonical) -> None:
    assert one.keys() == other.keys()
    for name in one:
        for values, expected in zip(vars(one[name]).values(), vars(other[name]).values(), strict=True):
            assert np.array_equal(values, expected), name


def prefixes(case: str) -> tuple[str, ...]:
    prefix = open_checkpoint(GOLDEN / case)[1].PREFIX
    return (prefix,) if isinstance(prefix, str) else prefix


@pytest.mark.parametrize("case", CASES)
def test_a_prefix_that_is_missing_changes_nothing(tmp_path: Path, case: str) -> None:
    def strip(found: Tensors) -> Tensors:
        for prefix in prefixes(case):
            found = {name.removeprefix(prefix): values for name, values in found.items()}
        return found

    assert_same(canonical(respelled(case, tmp_path, strip)), canonical(GOLDEN / case))


@pytest.mark.parametrize("case", CASES)
def test_stored_masks_and_frequencies_are_left_aside(tmp_path: Path, case: str) -> None:
    unused = open_checkpoint(GOLDEN / case)[1].UNUSED
    buffers = {f"anything{pattern.replace('*', 'x')}": np.ones(3, np.float32) for pattern in unused}
    folder = respelled(case, tmp_path, lambda found: found | buffers)
    assert_same(canonical(folder), canonical(GOLDEN / case))
    assert parameters(folder) == parameters(respelled(case, tmp_path / "plain", lambda found: found))


def parameters(folder: Path) -> int:
    (folder / "tokenizer.json").write_text('{"model": {}}')
    return describe(folder).parameters


@pytest.mark.parametrize("new", ["model.language_model.", "language_model.", "language_model.model."])
def test_gemma_3_with_images_is_read_in_old_and_new_names(tmp_path: Path, new: str) -> None:
    old = "language_model.model."
    folder = respelled(
        "gemma3", tmp_path, lambda found: {name.replace(old, new): values for name, values in found.items()}
    )
    assert_same(canonical(folder), canonical(GOLDEN / "gemma3"))


def test_gemma_3n_with_images_and_sounds_is_read_as_its_text(tmp_path: Path) -> None:
    def among_others(found: Tensors) -> Tensors:
        text = {name.replace("model.", "model.language_model."): values for name, values in found.items()}
        return text | {f"model.{one}.weight": np.ones((2, 2)) for one in ("audio_tower.conv", "embed_vision.embedding")}

    folder = respelled("gemma3n_text", tmp_path, among_others)
    text = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({"model_type": "gemma3n", "text_config": text}))
    assert_same(canonical(folder), canonical(GOLDEN / "gemma3n_text"))


def test_keys_that_no_layer_of_gemma_4_reads_are_left_aside(tmp_path: Path) -> None:
    def keep_keys(found: Tensors) -> Tensors:
        made = {name: values for name, values in found.items() if "layers.3.self_attn." in name}
        kept = {name: values for name, values in made.items() if "k_" in name or "v_" in name}
        return found | {name.replace("layers.3", "layers.5"): values for name, values in kept.items()}

    folder = respelled("gemma4_text", tmp_path, keep_keys)
    assert len(Checkpoint(folder).tensors) == len(Checkpoint(GOLDEN / "gemma4_text").tensors) + 3
    assert_same(canonical(folder), canonical(GOLDEN / "gemma4_text"))


@pytest.mark.parametrize(
    ("case", "change", "says"),
    [
        ("gemma4_text", "-layers.3.self_attn.k_norm", "lacks the tensor layers.3.self_attn.k_norm"),
        ("gemma4_text", "-layers.4.per_layer_input_gate", "lacks the tensor layers.4.per_layer_input_gate"),
        ("gemma4_text", "-embed_tokens_per_layer", "lacks the tensor embed_tokens_per_layer"),
        ("gemma4_text-k_eq_v", "-layers.1.self_attn.v_proj", "only .*k_proj.weight is there"),
        ("gemma4_text-k_eq_v", "+layers.2.self_attn.v_proj", "nothing is known about .*layers.2.self_attn.v_proj"),
        ("gemma4_text-k_eq_v", "+layers.2.per_layer_input_gate", "nothing is known about .*per_layer_input_gate"),
    ],
)
def test_what_gemma_4_lacks_or_has_against_its_config_is_refused_by_name(
    tmp_path: Path, case: str, change: str, says: str
) -> None:
    name = f"model.{change[1:]}.weight"

    def alter(found: Tensors) -> Tensors:
        rest = {each: values for each, values in found.items() if each != name}
        return rest | ({name: np.ones((32, 64), np.float32)} if change[0] == "+" else {})

    with pytest.raises(UnsupportedCheckpoint, match=says):
        canonical(respelled(case, tmp_path, alter))


def as_published(found: Tensors) -> Tensors:
    """From gpt_bigcode to SantaCoder: matrices the other way, and queries apart from keys and values."""
    published = {}
    for name, values in found.items():
        published[name] = values.T if values.ndim == 2 and ".h." in name else values
        if ".c_attn." in name:
            q, kv = np.split(published.pop(name), [32], axis=-1)
            published |= {name.replace("c_attn", "q_attn"): q, name.replace("c_attn", "kv_attn"): kv}
    return published


def test_santacoder_as_first_published_is_the_same_model(tmp_path: Path) -> None:
    folder = respelled("gpt_bigcode", tmp_path, as_published)
    configure(folder, model_type="gpt2", attention_head_type="multiquery", activation_function="gelu_fast")
    assert_same(canonical(folder), canonical(GOLDEN / "gpt_bigcode"))
    assert open_checkpoint(folder)[2] == open_checkpoint(GOLDEN / "gpt_bigcode")[2]


@pytest.mark.parametrize(
    ("case", "old", "new"), [("gpt_neox", "embed_out", "lm_head"), ("gpt_neox-sequential_yarn", "embed_out", "lm_head")]
)
def test_the_head_has_another_name_in_some_versions(tmp_path: Path, case: str, old: str, new: str) -> None:
    folder = respelled(case, tmp_path, lambda found: {name.replace(old, new): value for name, value in found.items()})
    assert_same(canonical(folder), canonical(GOLDEN / case))


def test_nemotron_spells_its_blocks_as_letters_and_its_heads_otherwise(tmp_path: Path) -> None:
    folder = respelled("nemotron_h", tmp_path, lambda found: found)
    configure(folder, layers_block_type=None, hybrid_override_pattern="M-M*-M", num_hidden_layers=6)
    configure(folder, head_dim=None, attention_head_dim=16)
    assert open_checkpoint(folder)[2] == open_checkpoint(GOLDEN / "nemotron_h")[2]
    assert_same(canonical(folder), canonical(GOLDEN / "nemotron_h"))
    configure(folder, hybrid_override_pattern="M-M*E")
    with pytest.raises(UnsupportedCheckpoint, match="experts without gates"):
        open_checkpoint(folder)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, ml_dtypes.bfloat16])
def test_every_type_of_numbers_gives_the_same_weights(tmp_path: Path, dtype: type) -> None:
    folder = respelled("qwen3", tmp_path, lambda found: {name: value.astype(dtype) for name, value in found.items()})
    assert_same(canonical(folder), canonical(GOLDEN / "qwen3"))


def test_half_precision_gives_nearly_the_same_weights(tmp_path: Path) -> None:
    folder = respelled("qwen3", tmp_path, lambda found: {name: v.astype(np.float16) for name, v in found.items()})
    halves, whole = canonical(folder), canonical(GOLDEN / "qwen3")
    for name in whole:
        values, expected = (np.asarray(each[name].values, np.float32) for each in (halves, whole))
        assert values == near(expected, abs=1e-7)  # half of the smallest number that float16 has


def test_a_copy_of_the_embedding_is_stored_once_and_another_head_is_kept(tmp_path: Path) -> None:
    case = "llama-tied_scaled"
    assert canonical(GOLDEN / case)["lm_head"].name == "embedding"
    copied = respelled(
        case, tmp_path / "copy", lambda found: found | {"lm_head.weight": found["model.embed_tokens.weight"].copy()}
    )
    assert canonical(copied)["lm_head"].name == "embedding"
    other = respelled(
        case, tmp_path / "other", lambda found: found | {"lm_head.weight": -found["model.embed_tokens.weight"]}
    )
    assert canonical(other)["lm_head"].name == "lm_head"
    configure(copied, tie_word_embeddings=False)
    assert canonical(copied)["lm_head"].name == "lm_head"


def write_shards(folder: Path) -> None:
    """Put pytorch_model.bin in two parts and an index in the place of the safetensors file."""
    whole = {name: np.array(values) for name, values in Checkpoint(folder).tensors.items()}
    (folder / "model.safetensors").unlink()
    weight_map: dict[str, str] = {}
    for part in range(2):
        members = sorted(whole)[part::2]
        file = f"pytorch_model-0000{part + 1}-of-00002.bin"
        state = {name: tensor(str(i), whole[name]) for i, name in enumerate(members)}
        write(folder / file, state, {str(i): whole[name] for i, name in enumerate(members)})
        weight_map |= dict.fromkeys(members, file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_shards_of_pytorch_are_joined_and_a_missing_one_is_named(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "opt", tmp_path / "opt"))
    write_shards(folder)
    assert_same(canonical(folder), canonical(GOLDEN / "opt"))
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(UnsupportedCheckpoint, match=r"lacks 'pytorch_model-00002-of-00002\.bin'"):
        canonical(folder)
