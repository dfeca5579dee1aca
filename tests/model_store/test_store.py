"""The store finds, lowers, keeps and removes models, and nothing in it is ever half there."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from model_store import ModelNotFound, Store, StoredModel, StoreError, UnsupportedCheckpoint, imports
from model_store.checkpoint.links import origin
from model_store.location import Location

GOLDEN = Path(__file__).parents[1] / "golden"
GGUF = Path(__file__).parents[1] / "golden_gguf" / "qwen2-q8_0.gguf"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A golden checkpoint with a tokenizer."""
    folder = Path(shutil.copytree(GOLDEN / "gpt2", tmp_path / "my gpt2"))
    Tokenizer(models.WordLevel({"a": 0}, "a")).save(str(folder / "tokenizer.json"))
    return folder


def write_vocabulary(folder: Path) -> None:
    """What publishers shipped before there was tokenizer.json."""
    (folder / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2}')
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")


def test_a_checkpoint_folder_becomes_a_model_that_is_found_by_name(store: Store, checkpoint: Path) -> None:
    model = store.get(str(checkpoint))
    assert (model.name, model.family, model.context_length, model.chats) == ("my-gpt2", "gpt2", 64, False)
    assert (
        model.parameters == 96 * 32 + 64 * 32 + 2 * (32 * 96 + 96 + 32 * 32 + 32 + 8 * 32 * 32 + 5 * 32 + 4 * 32) + 64
    )
    assert store.get("my-gpt2") == model
    assert [found.name for found in store.list()] == ["builtin", "my-gpt2"]


def test_a_model_is_lowered_once(store: Store, checkpoint: Path) -> None:
    told: list[float] = []
    first = store.lowered(store.get(str(checkpoint)), "onnx", "int8", lambda what, fraction: told.append(fraction))
    assert first.seconds > 0 and told == sorted(told) and told[-1] == 1
    again = store.lowered(store.get("my-gpt2"), "onnx", "int8", lambda what, fraction: pytest.fail("lowered again"))
    assert again.seconds == 0 and again.folder == first.folder and again.size == first.size > 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_who_may_read_a_store_may_read_what_is_lowered_or_copied_into_it(store: Store, checkpoint: Path) -> None:
    model = imports.carry_out(store, imports.plan(store, str(checkpoint), name="copy", copy=True))
    store.lowered(model, "onnx", "f32")
    readable = store.folder("copy").stat().st_mode
    folders = [path for path in store.folder("copy").rglob("*") if path.is_dir()]
    assert {path.name for path in folders} == {"checkpoint", "onnx-f32"}
    assert all(path.stat().st_mode == readable for path in folders)


def test_another_runtime_or_processor_lowers_again(store: Store, checkpoint: Path) -> None:
    model = store.get(str(checkpoint))
    path = store.lowered(model, "onnx", "int8").folder / "variant.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "signature": "onnxruntime 0.1, abacus"}))
    assert store.lowered(store.get("my-gpt2"), "onnx", "int8").seconds > 0


def test_a_changed_checkpoint_is_lowered_again(store: Store, checkpoint: Path) -> None:
    store.lowered(store.get(str(checkpoint)), "onnx", "int8")
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "n_positions": 64, "layer_norm_epsilon": 1e-3}))
    assert store.get("my-gpt2").variants == ()


def test_models_that_are_first_run_at_once_get_names_of_their_own(checkpoint: Path, tmp_path: Path) -> None:
    folders = [Path(shutil.copytree(checkpoint, tmp_path / str(number) / "chat")) for number in range(6)]
    files = [Path(shutil.copy(GGUF, tmp_path / str(number) / "chat.gguf")) for number in range(2)]
    with ThreadPoolExecutor(8) as threads:
        models = list(threads.map(lambda path: Store(tmp_path / "store").get(str(path)), [*folders, *files]))
    assert {model.name for model in models} == {"chat", *(f"chat-{number}" for number in range(2, 9))}
    store = Store(tmp_path / "store")
    assert [origin(store.get(model.name).folder) for model in models] == [*folders, *files]


def test_a_tokenizer_is_made_once_and_kept_beside_the_model(store: Store, checkpoint: Path) -> None:
    own = checkpoint / "tokenizer.json"
    assert store.tokenizer(store.get(str(checkpoint))) == own
    own.unlink()
    write_vocabulary(checkpoint)
    before = sorted(checkpoint.rglob("*"))
    model = store.get(str(checkpoint))
    made = store.tokenizer(model)
    assert made.parent == store.root / "my-gpt2" and Tokenizer.from_file(str(made)).encode("a").ids
    written = made.stat().st_mtime_ns
    assert store.tokenizer(store.get("my-gpt2")) == made and made.stat().st_mtime_ns == written
    assert sorted(checkpoint.rglob("*")) == before
    store.remove("my-gpt2")
    assert not made.exists()


@pytest.mark.parametrize(
    "name", ["vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja", "additional_chat_templates/x.jinja"]
)
def test_a_tokenizer_is_made_anew_when_a_file_that_it_may_depend_on_changes(
    store: Store, checkpoint: Path, name: str
) -> None:
    (checkpoint / "tokenizer.json").unlink()
    write_vocabulary(checkpoint)
    made = store.tokenizer(store.get(str(checkpoint)))
    (checkpoint / name).parent.mkdir(exist_ok=True)
    with (checkpoint / name).open("a") as changed:
        changed.write("\n")
    model = store.get(str(checkpoint))
    assert not made.exists()
    assert store.tokenizer(model) == made and made.exists()


def test_a_model_without_any_vocabulary_is_refused_when_it_is_found(store: Store, checkpoint: Path) -> None:
    (checkpoint / "tokenizer.json").unlink()
    with pytest.raises(UnsupportedCheckpoint, match=r"neither tokenizer\.json nor vocab\.json"):
        store.get(str(checkpoint))


def test_a_tokenizer_that_cannot_be_kept_is_said_with_where(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (checkpoint / "tokenizer.json").unlink()
    write_vocabulary(checkpoint)
    store = Store(tmp_path / "file" / "store")
    with pytest.raises(StoreError, match=r"cannot write to the model store .*CHATAPP_HOME"):
        store.tokenizer(store.get(str(checkpoint)))


@pytest.mark.parametrize(
    ("content", "chats"), [({"chat_template": None}, False), ({"chat_template": "x"}, True), ({}, False)]
)
def test_a_model_chats_when_it_has_a_template_that_is_one(
    store: Store, checkpoint: Path, content: dict[str, str | None], chats: bool
) -> None:
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(content))
    assert store.get(str(checkpoint)).chats == chats


def test_other_weights_of_the_same_size_and_time_are_noticed(store: Store, checkpoint: Path) -> None:
    store.lowered(store.get(str(checkpoint)), "onnx", "int8")
    weights = checkpoint / "model.safetensors"
    status = weights.stat()
    weights.write_bytes(weights.read_bytes()[:-2] + b"\x12\x34")
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.get("my-gpt2").variants == ()


def test_two_folders_of_one_name_are_two_models(store: Store, checkpoint: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(checkpoint, tmp_path / "other" / "my gpt2"))
    assert (store.get(str(checkpoint)).name, store.get(str(other)).name) == ("my-gpt2", "my-gpt2-2")
    assert store.get(str(other)).folder == other


def test_removing_frees_what_was_made_and_leaves_the_checkpoint(store: Store, checkpoint: Path) -> None:
    variant = store.lowered(store.get(str(checkpoint)), "onnx", "int8")
    assert store.remove("my-gpt2") >= variant.size
    assert (checkpoint / "model.safetensors").exists() and not variant.folder.exists()
    with pytest.raises(ModelNotFound):
        store.get("my-gpt2")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("buildin", "did you mean builtin"),
        ("no-such-model", "chatapp list"),
        ("../outside", "chatapp list"),
        ("", "chatapp list"),
        ("a\0b", "chatapp list"),
        ("qwen2.5:0.5b", r"did you mean qwen2\.5-0\.5b-instruct\? to download it: chatapp pull"),
        ("https://huggingface.co/org/name", "chatapp pull org/name"),
        ("hf.co/org/name", "chatapp pull org/name$"),
        ("hf.co/org/Qwen3-0.6B-GGUF:Q4_K_M", r"to pull it: chatapp pull org/Qwen3-0\.6B-GGUF:Q4_K_M$"),
        ("./x.gguf", "check the path"),
    ],
)
def test_an_unknown_name_is_refused_with_what_to_do(store: Store, name: str, hint: str) -> None:
    with pytest.raises(ModelNotFound, match=hint):
        store.get(name)


def test_what_a_copy_or_pull_left_that_was_killed_at_its_very_beginning_can_be_removed(store: Store) -> None:
    partial = store.location("begun").partial
    partial.mkdir(parents=True)
    store.remove("begun")
    assert not partial.exists()


@pytest.mark.parametrize("name", ["..", ".", "../victim", "/victim"])
def test_removing_never_leaves_the_store(store: Store, tmp_path: Path, name: str) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_text("kept")
    with pytest.raises(StoreError):
        store.remove(name)
    assert (tmp_path / "victim" / "file").exists()


def test_a_folder_that_is_no_checkpoint_is_refused_and_not_listed(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnsupportedCheckpoint, match=r"no config\.json"):
        store.get(str(tmp_path / "empty"))
    assert [model.name for model in store.list()] == ["builtin"]


def test_a_file_that_cannot_be_read_is_named(store: Store, checkpoint: Path) -> None:
    (checkpoint / "model-2.safetensors").symlink_to(checkpoint / "nowhere")
    with pytest.raises(StoreError, match=r"cannot read .*model-2\.safetensors"):
        store.get(str(checkpoint))


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "store")
    assert [model.name for model in store.list()] == ["builtin"]
    with pytest.raises(StoreError, match=r"cannot write to the model store .*file/store.*CHATAPP_HOME"):
        store.lowered(store.get("builtin"), "onnx")


def test_a_manifest_edited_by_hand_is_refused_by_its_path(store: Store, checkpoint: Path) -> None:
    store.get(str(checkpoint))
    path = store.root / "my-gpt2" / "model.json"
    for text in ("{", json.dumps({**json.loads(path.read_text()), "surprise": 1})):
        path.write_text(text)
        with pytest.raises(StoreError, match=r"my-gpt2/model\.json .*delete the folder"):
            store.get("my-gpt2")
        found, broken = store.survey()
        assert [model.name for model in store.list()] == [model.name for model in found] == ["builtin"]
        assert list(broken) == ["my-gpt2"] and "delete the folder" in broken["my-gpt2"]


def test_a_manifest_that_may_not_be_read_is_not_to_be_deleted(
    store: Store, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.get(str(checkpoint))

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("model_store.files.open", refuse, raising=False)
    with pytest.raises(
        StoreError, match=r"/model\.json cannot be read: permission denied; if the store is shared, ask"
    ):
        store.get("my-gpt2")


def test_a_model_that_fails_as_nobody_foresaw_hides_no_other(
    store: Store, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.get(str(checkpoint))

    def fail(location: Location) -> StoredModel:
        raise ValueError("odd")

    monkeypatch.setattr(store, "read", fail)
    found, broken = store.survey()
    assert [model.name for model in store.list()] == [model.name for model in found] == ["builtin"]
    assert broken == {"my-gpt2": "odd"}


@pytest.mark.parametrize(
    ("parameters", "precision", "reason"),
    [(999_999_999, "int8", "below a billion parameters"), (1_000_000_000, "int4", "with a billion parameters or more")],
)
def test_the_size_of_a_model_decides_on_its_precision(parameters: int, precision: str, reason: str) -> None:
    model = StoredModel("any", Path(), "llama", parameters, 1024, chats=True, size=1)
    assert model.precision == precision
    assert model.precision_reason.startswith(reason)
