"""What is pulled is there once, whoever has it, and goes with the last model that needs it."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from model_store import Store, StoreError, runtime_caches
from model_store.hub import blobs, manifest, pulled
from model_store.hub.partial import Wanted
from model_store.location import Location
from model_store.locks import alone
from model_store.upkeep import copies, garbage, usage
from support.checkpoints import Run, write_tokenizer

GOLDEN = Path(__file__).parents[1] / "golden"
Pulled = Callable[[str], Path]


@pytest.fixture
def pulled_as(store: Store, tmp_path: Path) -> Pulled:
    """Publishes a tiny checkpoint as a pull does after the last byte; the checkpoint's folder."""
    source = Path(shutil.copytree(GOLDEN / "llama", tmp_path / "source"))
    write_tokenizer(source, 96)

    def publish(name: str) -> Path:
        wanted = []
        for path in sorted(path for path in source.iterdir() if path.suffix in (".json", ".safetensors")):
            empty = Wanted(path.name, path.stat().st_size, "0" * 64).hash()
            empty.update(path.read_bytes())
            wanted.append(Wanted(path.name, path.stat().st_size, empty.hexdigest()))
        folder = pulled.begin(Location(store.root, name), {"repository": "org/tiny", "commit": "0" * 40}, wanted)
        for file in wanted:
            if not (folder / file.digest).exists():
                shutil.copy(source / file.name, folder / file.digest)
        return pulled.publish(Location(store.root, name))

    return publish


def inodes(folder: Path) -> set[int]:
    return {path.stat().st_ino for path in folder.iterdir() if path.name != "pull.json"}


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_two_models_with_the_same_files_have_them_once(store: Store, pulled_as: Pulled) -> None:
    first, second = pulled_as("one"), pulled_as("two")
    assert inodes(first) == inodes(second) == {path.stat().st_ino for path in (store.root / "blobs").iterdir()}
    names = {blobs.blob(store.root, file.digest).name for file in manifest.read_files(first)}
    assert {path.name for path in (store.root / "blobs").iterdir()} == names == blobs.references(store.root)


def test_blobs_go_with_the_last_model_that_names_them(store: Store, pulled_as: Pulled) -> None:
    size = sum(path.stat().st_size for path in pulled_as("one").iterdir())
    pulled_as("two")
    assert store.remove("one") < 4096  # its manifests
    assert len(list((store.root / "blobs").iterdir())) == len(
        manifest.read_files(Location(store.root, "two").checkpoint)
    )
    assert store.get("two").family == "llama"
    assert store.remove("two") >= size - 4096
    assert list((store.root / "blobs").iterdir()) == []


def test_a_blob_that_an_unfinished_pull_names_is_kept(store: Store, pulled_as: Pulled) -> None:
    files = manifest.read_files(pulled_as("one"))
    pulled.begin(Location(store.root, "two"), {}, files)
    store.remove("one")
    assert len(list((store.root / "blobs").iterdir())) == len({file.digest for file in files})


def test_a_damaged_blob_is_not_used_again(store: Store, pulled_as: Pulled) -> None:
    folder = pulled_as("one")
    file = next(file for file in manifest.read_files(folder) if file.name == "config.json")
    blob = blobs.blob(store.root, file.digest)
    good = blob.read_bytes()
    blob.write_bytes(good.replace(b"llama", b"LLAMA"))
    assert blobs.find(store.root, file) is None
    assert (pulled_as("two") / "config.json").read_bytes() == good == blob.read_bytes()


def test_without_links_there_are_only_the_files_of_the_models(
    store: Store, pulled_as: Pulled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*names: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    folder = pulled_as("one")
    assert list((store.root / "blobs").iterdir()) == []
    copies.copy(store, "one", "two")
    file = manifest.read_files(folder)[0]
    assert blobs.find(store.root, file) == folder / file.name
    store.remove("one")
    assert blobs.find(store.root, file) == Location(store.root, "two").checkpoint / file.name


def test_a_copy_takes_no_room_and_outlives_its_origin(store: Store, pulled_as: Pulled) -> None:
    first = pulled_as("one")
    store.lowered(store.get("one"), "onnx", "int8")
    copied = copies.copy(store, "one", "two")
    assert copied.folder == Location(store.root, "two").checkpoint and inodes(copied.folder) == inodes(first)
    assert [variant.folder.name for variant in copied.variants] == ["onnx-int8"]
    found = {one.name: one for one in usage.usage(store)}
    assert found["two"].own < 4096 and found["two"].variants < 8192 < found["two"].shared == found["one"].shared
    shared = found["two"].shared
    assert shared < usage.total(store) < shared + 50_000
    store.remove("one")
    assert store.lowered(store.get("two"), "onnx", "int8").seconds == 0
    assert {one.name: one for one in usage.usage(store)}["two"].shared == 0


@pytest.mark.parametrize("new", ["../out", "a/b", "..", "", ".hidden", "blobs", "Checkpoints", "builtin", "a\nb", "~"])
def test_a_copy_cannot_be_called_anything(store: Store, pulled_as: Pulled, new: str, tmp_path: Path) -> None:
    pulled_as("one")
    store.get("one")
    before = everything(tmp_path)
    with pytest.raises(StoreError, match="cannot be the name of a model"):
        copies.copy(store, "one", new)
    assert everything(tmp_path) == before


def test_a_name_that_is_taken_is_refused(store: Store, pulled_as: Pulled) -> None:
    pulled_as("one"), pulled_as("two")
    with pytest.raises(StoreError, match="a model 'two' already exists"):
        copies.copy(store, "one", "two")


def test_who_works_on_a_model_is_told_to_who_would_remove_or_copy_it(store: Store, pulled_as: Pulled) -> None:
    pulled_as("one")
    with alone(Location(store.root, "one"), "lowering for onnx") as held:
        held.tell("lowering", 0.5)
        words = (
            rf"one is in use by process {os.getpid()} on .*, lowering for onnx since .* \(lowering, 50%\); try again"
        )
        for work in (lambda: store.remove("one"), lambda: copies.copy(store, "one", "two")):
            with pytest.raises(StoreError, match=words):
                work()
    assert store.remove("one") > 0


def test_garbage_is_found_told_and_deleted(store: Store, pulled_as: Pulled) -> None:
    pulled_as("one")
    model = store.get("one")
    old = store.lowered(model, "onnx", "f32").folder
    facts = json.loads((old / "variant.json").read_text())
    (old / "variant.json").write_text(json.dumps({**facts, "signature": "onnxruntime 0.1"}))
    kept = store.lowered(model, "onnx", "int8").folder
    stray = store.root / "blobs" / f"sha256-{'a' * 64}"
    stray.write_bytes(b"12345")
    (store.root / "blobs" / "notes.txt").write_text("the user's own")
    (store.root / "one" / ".unfinished-x").mkdir()
    (store.root / "one" / "tokenizer-0.json").write_text("{}")
    (store.root / ".two.gone" / "onnx-f32").mkdir(parents=True)
    (store.root / "half" / "onnx-f32").mkdir(parents=True)
    pulled.begin(Location(store.root, "three"), {}, [])
    expected = {"onnx-f32", stray.name, ".unfinished-x", "tokenizer-0.json", ".two.gone", "half"}
    before = {name for name in everything(store.root) if not name.startswith(".locks")}
    told = garbage.collect(store, dry_run=True)
    assert {one.path.name for one in told} == expected and everything(store.root) >= before
    assert {one.path.name: one.size for one in told}[stray.name] == 5
    assert garbage.collect(store) == told
    assert not any((store.root / name).exists() for name in ("half", ".two.gone")) and not old.exists()
    assert kept.exists() and Location(store.root, "three").partial.exists()
    later = garbage.collect(store, now=time.time() + garbage.STALE + 60)
    assert [one.path.name for one in later] == [".three.partial"]
    assert garbage.collect(store) == [] and [one.name for one in store.list()] == ["builtin", "one"]


def test_what_another_process_works_on_is_no_garbage(store: Store, pulled_as: Pulled) -> None:
    pulled_as("one")
    store.get("one")
    (store.root / "one" / ".unfinished-x").mkdir()
    with alone(Location(store.root, "one"), "lowering"):
        assert garbage.collect(store) == []
    assert len(garbage.collect(store)) == 1


def test_garbage_is_left_where_a_manifest_was_altered(store: Store, pulled_as: Pulled) -> None:
    manifest, before = pulled_as("one") / "pull.json", len(list((store.root / "blobs").iterdir()))
    pulled_as("two")
    manifest.write_text('{"files": {"../x": {"size": 1, "digest": "0"}}}')
    told: list[str] = []
    assert garbage.collect(store, warn=told.append) == []
    assert len(told) == 1 and str(manifest) in told[0]
    store.remove("two")
    assert len(list((store.root / "blobs").iterdir())) == before


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights there")
@pytest.mark.parametrize("link", ["one", "blobs", "checkpoints/one", ".locks", "one/onnx-int8"])
def test_links_in_the_store_are_refused_by_name(store: Store, pulled_as: Pulled, tmp_path: Path, link: str) -> None:
    pulled_as("one")
    store.lowered(store.get("one"), "onnx", "int8")
    outside = tmp_path / "outside"
    (store.root / link).rename(outside)
    (store.root / link).symlink_to(outside)
    before = {path: path.stat().st_mtime_ns for path in outside.rglob("*")}
    for work in (
        lambda: store.remove("one"),
        lambda: store.lowered(store.get("one"), "onnx", "int8"),
        lambda: copies.copy(store, "one", "two"),
        lambda: garbage.collect(store),
        lambda: runtime_caches.delete(runtime_caches.caches(store.every_location().values())),
    ):
        try:
            work()
        except StoreError as error:
            assert "is a symbolic link" in str(error) or "no model" in str(error), error
        assert {path: path.stat().st_mtime_ns for path in outside.rglob("*")} == before


def test_compiled_copies_are_listed_cleared_and_bounded(store: Store, pulled_as: Pulled) -> None:
    pulled_as("one")
    for precision, used in (("f32", 1_000), ("int8", 2_000)):
        cache = store.lowered(store.get("one"), "onnx", precision).folder / "compiled-cpu"
        cache.mkdir()
        (cache / "blob").write_bytes(b"x" * 1000)
        for path in (cache / "blob", cache):
            os.utime(path, (used, used))
    locations = store.every_location().values()
    assert [one.variant for one in runtime_caches.caches(locations)] == ["onnx-f32", "onnx-int8"]
    assert [one.variant for one in runtime_caches.trim(locations, 1500)] == ["onnx-f32"]
    assert runtime_caches.caches([store.location("builtin")]) == []
    deleted = runtime_caches.delete(runtime_caches.caches(locations))
    assert [(one.variant, one.size) for one in deleted] == [("onnx-int8", 1000)]
    assert runtime_caches.caches(locations) == [] and len(store.get("one").variants) == 2


def test_models_of_several_folders_are_found_where_they_are(store: Store, pulled_as: Pulled, tmp_path: Path) -> None:
    folder = pulled_as("one")
    first = tmp_path / "external"
    first.mkdir()
    both = Store(first, more=[store.root])
    assert [one.name for one in both.list()] == ["builtin", "one"]
    assert both.get("one").folder == folder
    assert both.lowered(both.get("one"), "onnx", "int8").folder.is_relative_to(store.root)
    assert both.lowered(both.get("builtin"), "onnx", "int8").folder.is_relative_to(first)
    assert both.remove("one") > 0 and [one.name for one in both.list()] == ["builtin"]


def test_a_revision_that_was_being_replaced_comes_back(store: Store, pulled_as: Pulled) -> None:
    folder = pulled_as("one")
    folder.rename(folder.with_name(".one.old"))
    assert [one.name for one in store.list()] == ["builtin", "one"]


def test_the_commands_tell_what_they_did(
    store: Store, pulled_as: Pulled, tmp_path: Path, chatapp: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHATAPP_HOME", str(tmp_path))
    pulled_as("one")
    assert chatapp("cp", "one", "two").stdout == "two is one, and shares its files\n"
    facts = json.loads(chatapp("show", "two", "--json").stdout)
    assert (facts["name"], facts["source"]["repository"]) == ("two", "org/tiny")
    assert "org/tiny at 0000" in chatapp("show", "two").stdout
    told = {one["name"]: one for one in json.loads(chatapp("du", "--json").stdout)["models"]}
    assert told["one"]["shared"] == told["two"]["shared"] > 100_000
    assert re.search(r"\ntwo +[\d.]+ k?B +\d+ kB", chatapp("du").stdout)
    (store.root / "blobs" / f"sha1-{'a' * 40}").write_bytes(b"1234567")
    assert "7 B would be freed" in chatapp("gc", "--dry-run").stdout
    assert json.loads(chatapp("gc", "--json").stdout)[0]["why"] == "no model has it"
    assert chatapp("gc").stdout == "0 B freed\n"
    assert chatapp("cache").stdout.startswith("0 B; above 8 GB")
    assert json.loads(chatapp("cache", "clear", "one", "--json").stdout) == []
    assert "no model 'onne'" in chatapp("cache", "clear", "onne").stderr
    assert "to clear a model's caches: chatapp cache clear one" in chatapp("cache", "list", "one").stderr


def test_a_disk_that_is_not_there_is_said_and_left_out(
    store: Store, pulled_as: Pulled, tmp_path: Path, home: Path, chatapp: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled_as("one")
    home.mkdir()
    gone = tmp_path / "gone"
    with monkeypatch.context() as patch:
        patch.setenv("CHATAPP_STORES", os.pathsep.join([str(gone), str(store.root)]))
        done = chatapp("list", "--json")
    assert done.stderr == f"Note: the store folder {gone} does not exist; its models are left out\n"
    assert [one["name"] for one in json.loads(done.stdout)] == ["builtin", "one"]
    (home / "settings.toml").write_text(f"stores = [{json.dumps(str(store.root))}]")
    assert "one" in chatapp("list").stdout and not gone.exists()
    (home / "settings.toml").write_text('stores = "/mnt"')
    assert "must be a list of folders" in chatapp("list").stderr
    (home / "settings.toml").write_text('stores = ["here"]')
    assert "must be an absolute path" in chatapp("list").stderr


def test_listing_reads_only_small_manifests(store: Store, pulled_as: Pulled) -> None:
    pulled_as("one")
    store.lowered(store.get("one"), "onnx", "int8")
    copies.copy(store, "one", "two")
    store.get("builtin")
    opened: list[str] = []
    sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
    assert [len(model.variants) for model in store.list()] == [0, 1, 1]
    read = {str(Path(path).relative_to(store.root)) for path in opened if path.startswith(str(store.root))}
    manifests = [f"{name}/{file}" for name in ("one", "two") for file in ("model.json", "onnx-int8/variant.json")]
    assert read == {"builtin/model.json", *manifests}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the drill forks")
def test_the_store_survives_kills(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    paths = os.pathsep.join([str(root.parent), str(root), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "drills.store", "20"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("20 processes")
