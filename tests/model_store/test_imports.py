"""Models that are on this machine already are imported, linked or copied, from wherever they are."""

import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from model_store import ModelNotFound, Places, Store, StoreError, UnsupportedCheckpoint, imports
from model_store.models import RESERVED, StoredModel
from support.checkpoints import MakeCheckpoint, Run

GGUF = Path(__file__).parents[1] / "golden_gguf" / "qwen2-q8_0.gguf"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "hub", tmp_path / "ollama", tmp_path / "lm studio")


@pytest.fixture
def store(tmp_path: Path, places: Places) -> Store:
    return Store(tmp_path / "store", places)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


class TestPlanning:
    def test_a_plan_writes_nothing(self, store: Store, checkpoint: MakeCheckpoint) -> None:
        for source in (str(checkpoint()), str(GGUF)):
            for copy in (False, True):
                plan = imports.plan(store, source, copy=copy)
                assert bool(plan.copied) == copy and plan.free > 0
        assert plan.kind == "GGUF file" and plan.model.name == "qwen2-q8_0" and plan.model.family == "qwen2"
        assert not store.root.exists()

    def test_a_copy_outlives_what_was_copied(self, store: Store, checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
        folder, file = checkpoint(), Path(shutil.copy(GGUF, tmp_path / "mine.gguf"))
        (folder / "secret.key").write_text("not needed")
        told: list[float] = []
        for source in (folder, file):
            plan = imports.plan(store, str(source), name=f"copy-{source.stem}", copy=True)
            imports.carry_out(store, plan, lambda step, share: told.append(share))
        shutil.rmtree(folder)
        file.unlink()
        assert told[-1] == 1 and "copy-tiny/checkpoint/secret.key" not in files(store.root)
        for name in ("copy-tiny", "copy-mine"):
            assert store.lowered(store.get(name), "onnx", "f32").size > 0
        assert store.remove("copy-tiny") > 0 and not (store.root / "copy-tiny").exists()

    @pytest.mark.parametrize("copy", [False, True])
    def test_of_two_imports_at_once_under_one_name_the_later_is_refused(
        self, store: Store, checkpoint: MakeCheckpoint, copy: bool
    ) -> None:
        plans = [imports.plan(store, str(checkpoint(name)), name="mine", copy=copy) for name in ("one", "two")]
        imports.carry_out(store, plans[0])
        with pytest.raises(StoreError, match="a model 'mine' already exists; choose another --name"):
            imports.carry_out(store, plans[1])
        folder = store.get("mine").folder
        assert folder == (store.location("mine").imported if copy else plans[0].source)

    def test_what_is_run_while_a_copy_is_made_gets_another_name(
        self, store: Store, checkpoint: MakeCheckpoint, tmp_path: Path
    ) -> None:
        other = Path(shutil.copytree(checkpoint("two"), tmp_path / "elsewhere" / "mine"))
        plan = imports.plan(store, str(checkpoint("one")), name="mine", copy=True)
        run: list[StoredModel] = []
        imports.carry_out(store, plan, lambda step, share: None if run else run.append(store.get(str(other))))
        assert [(one.name, one.folder) for one in run] == [("mine-2", other)]
        assert store.get("mine").folder == store.location("mine").imported and store.get("mine-2").folder == other

    def test_an_import_that_was_stopped_at_its_end_keeps_its_name(
        self, store: Store, checkpoint: MakeCheckpoint
    ) -> None:
        imports.carry_out(store, imports.plan(store, str(checkpoint("one")), name="mine", copy=True))
        store.location("mine").manifest.unlink()
        with pytest.raises(StoreError, match="a model 'mine' already exists"):
            imports.plan(store, str(checkpoint("two")), name="mine", copy=True)
        assert store.get("mine").family == "llama"

    @pytest.mark.parametrize(
        "name", ["model.safetensors", "pytorch_model.bin", "config.json", "tokenizer.json", "model.gguf"]
    )
    def test_what_git_lfs_did_not_fetch_is_said_to_be_missing(
        self, store: Store, checkpoint: MakeCheckpoint, tmp_path: Path, name: str
    ) -> None:
        folder = checkpoint()
        if name == "pytorch_model.bin":
            (folder / "model.safetensors").unlink()
        if name == "model.gguf":
            shutil.rmtree(folder)
            folder.mkdir()
        (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0a1b\nsize 5000000000\n")
        for given in {folder, folder / name if name == "model.gguf" else folder}:
            with pytest.raises(UnsupportedCheckpoint, match=rf"{name} is a Git LFS pointer.* git lfs pull"):
                imports.plan(store, str(given))

    def test_what_is_too_large_to_copy_is_refused_before(self, store: Store) -> None:
        plan = imports.plan(store, str(GGUF), copy=True)
        plan = imports.Plan(plan.kind, plan.source, 1 << 60, plan.free, plan.model)
        with pytest.raises(StoreError, match="MB are free"):
            imports.carry_out(store, plan)
        assert not store.root.exists()

    @pytest.mark.parametrize(
        "name", ["../out", "a/b", "..", "/tmp/x", "a\\b", ".hidden", "a\nb", "~x", "checkpoints", "Blobs"]
    )
    def test_a_name_that_leaves_the_store_is_refused(self, name: str, store: Store) -> None:
        says = "it is the name of a folder of the store" if name.lower() in RESERVED else "a name has letters, digits"
        with pytest.raises(StoreError, match=f"cannot be the name of a model: {says}"):
            imports.plan(store, str(GGUF), name=name)

    def test_a_name_that_is_taken_is_refused(self, store: Store, checkpoint: MakeCheckpoint) -> None:
        imports.carry_out(store, imports.plan(store, str(checkpoint()), name="mine"))
        for name, says in {"mine": "a model 'mine' already exists", "builtin": "comes with chatapp"}.items():
            with pytest.raises(StoreError, match=says):
                imports.plan(store, str(GGUF), name=name)
        assert imports.plan(store, str(checkpoint("another")), name="another").model.name == "another"

    def test_a_folder_with_one_gguf_file_is_that_file(self, store: Store, tmp_path: Path) -> None:
        folder = tmp_path / "repository"
        folder.mkdir()
        shutil.copy(GGUF, folder / "small.gguf")
        assert store.get(str(folder)).name == "small"
        shutil.copy(GGUF, folder / "large.gguf")
        with pytest.raises(UnsupportedCheckpoint, match="several GGUF files.*: large.gguf, small.gguf"):
            store.get(str(folder))

    def test_other_files_are_refused_by_what_they_are(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").write_bytes(b"12345678")
        with pytest.raises(UnsupportedCheckpoint, match="is neither a GGUF file.*give the folder"):
            store.get(str(tmp_path / "model.safetensors"))
        with pytest.raises(UnsupportedCheckpoint, match="no file or folder 'nowhere'"):
            imports.plan(store, "nowhere")

    @pytest.mark.skipif(os.name == "nt", reason="pipes and devices of Unix")
    def test_a_pipe_or_a_device_is_refused_unread(self, store: Store, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", "/dev/zero"):
            for use in (store.get, partial(imports.plan, store)):
                with pytest.raises(UnsupportedCheckpoint, match=f"^{path} is a device or a pipe"):
                    use(str(path))


class TestLinks:
    def test_a_gguf_file_is_known_again_by_its_path(self, store: Store, tmp_path: Path) -> None:
        file = Path(shutil.copy(GGUF, tmp_path / "mine.gguf"))
        first = store.get(str(file))
        assert store.get(str(file)) == store.get("mine") == first
        assert store.lowered(first, "onnx").seconds > 0
        for name in ("mine", str(file)):
            assert store.get(name).variants and store.lowered(store.get(name), "onnx").seconds == 0
        other = Path(shutil.copy(GGUF, tmp_path / "other"))
        assert store.get(str(other)).name == "other"
        assert [model.name for model in store.list()] == ["builtin", "mine", "other"]

    @pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names there are UTF-8")
    def test_a_file_whose_name_is_not_utf_8_is_one_as_any_other(self, store: Store, tmp_path: Path) -> None:
        folder = tmp_path / os.fsdecode(b"d\xe9")
        folder.mkdir()
        shutil.copy(GGUF, folder / os.fsdecode(b"c\xe9.gguf"))
        model = store.get(str(folder))
        assert store.lowered(model, "onnx").size > 0
        assert [one.name for one in store.survey()[0]] == ["builtin", model.name]

    def test_a_link_to_a_gguf_file_keeps_its_name(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "Qwen.gguf").symlink_to(GGUF)
        assert store.get(str(tmp_path / "Qwen.gguf")).name == "Qwen"

    def test_a_gguf_file_that_changed_is_read_anew(self, store: Store, tmp_path: Path) -> None:
        file = Path(shutil.copy(GGUF, tmp_path / "mine.gguf"))
        store.lowered(store.get(str(file)), "onnx")
        shutil.copy(GGUF.with_name("llama-q4_0.gguf"), file)
        changed = store.get("mine")
        assert (changed.family, changed.precision, changed.variants) == ("llama", "int4-32", ())
        assert store.lowered(changed, "onnx").seconds > 0

    def test_a_copy_that_was_edited_is_not_lost(self, store: Store, checkpoint: MakeCheckpoint) -> None:
        imports.carry_out(store, imports.plan(store, str(checkpoint()), name="mine", copy=True))
        path = store.root / "mine" / "checkpoint" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "max_position_embeddings": 77}))
        assert store.get("mine").context_length == 77

    def test_what_is_gone_is_told_by_its_path(self, store: Store, tmp_path: Path) -> None:
        file = Path(shutil.copy(GGUF, tmp_path / "mine.gguf"))
        store.get(str(file))
        file.unlink()
        with pytest.raises(StoreError, match=r"mine.gguf, where the model mine is.*chatapp rm mine"):
            store.get("mine")
        assert store.remove("mine") > 0


class TestHubCache:
    @pytest.fixture
    def snapshot(self, places: Places, checkpoint: MakeCheckpoint) -> Path:
        """A repository as huggingface_hub keeps it: links to blobs."""
        made, folder = checkpoint(), places.hub_cache / "models--someone--tiny-model"
        (folder / "blobs").mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(COMMIT)
        snapshot = folder / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        for number, path in enumerate(made.iterdir()):
            shutil.move(path, folder / "blobs" / str(number))
            (snapshot / path.name).symlink_to(Path("../../blobs") / str(number))
        return snapshot

    def test_a_repository_is_run_in_place(self, store: Store, snapshot: Path) -> None:
        model = store.get("someone/tiny-model")
        assert (model.name, model.folder) == ("tiny-model", snapshot)
        assert store.get("tiny-model") == model and "model.safetensors" not in str(files(store.root))
        copied = imports.carry_out(store, imports.plan(store, "someone/tiny-model", name="copy", copy=True))
        assert not any(path.is_symlink() for path in copied.folder.iterdir())

    def test_the_folder_of_a_repository_is_its_main_snapshot(self, store: Store, snapshot: Path) -> None:
        snapshot.with_name("f" * 40).mkdir()
        model = imports.carry_out(store, imports.plan(store, str(snapshot.parent.parent)))
        assert (model.name, model.folder) == ("tiny-model", snapshot)

    def test_a_newer_snapshot_takes_the_place_of_the_older(self, store: Store, snapshot: Path) -> None:
        store.get("someone/tiny-model")
        newer = snapshot.with_name("f" * 40)
        shutil.copytree(snapshot, newer, symlinks=True)
        (snapshot.parent.parent / "refs" / "main").write_text("f" * 40)
        assert store.get("someone/tiny-model").folder == newer
        assert [model.name for model in store.list()] == ["builtin", "tiny-model"]

    def test_an_incomplete_snapshot_is_refused_by_the_missing_file(self, store: Store, snapshot: Path) -> None:
        (snapshot / "model.safetensors").resolve().unlink()
        with pytest.raises(UnsupportedCheckpoint, match="someone/tiny-model .*model.safetensors is missing"):
            store.get("someone/tiny-model")
        (snapshot / "model.safetensors").unlink()
        with pytest.raises(UnsupportedCheckpoint, match="neither a .safetensors file"):
            store.get("someone/tiny-model")
        shutil.rmtree(snapshot)
        with pytest.raises(UnsupportedCheckpoint, match="someone/tiny-model was deleted"):
            store.get("someone/tiny-model")

    @pytest.mark.parametrize("commit", ["../../../etc", "main", "", "/" + "a" * 39, COMMIT + "\0"])
    def test_a_reference_that_climbs_out_is_refused(self, commit: str, store: Store, snapshot: Path) -> None:
        (snapshot.parent.parent / "refs" / "main").write_text(commit)
        with pytest.raises(UnsupportedCheckpoint, match="contains no commit"):
            store.get("someone/tiny-model")

    def test_a_link_out_of_the_cache_is_refused(self, store: Store, snapshot: Path, tmp_path: Path) -> None:
        (tmp_path / "outside.json").write_text("{}")
        (snapshot / "generation_config.json").symlink_to(tmp_path / "outside.json")
        with pytest.raises(UnsupportedCheckpoint, match="points outside the cache"):
            store.get("someone/tiny-model")

    @pytest.mark.parametrize("name", ["../someone/tiny", "someone/..", "a/b/c", "a--b/c", "someone/tiny-modell"])
    def test_other_names_are_not_looked_for(self, name: str, store: Store, snapshot: Path) -> None:
        with pytest.raises(ModelNotFound):
            store.get(name)

    def test_the_cache_is_listed(self, snapshot: Path, places: Places, chatapp: Run) -> None:
        broken = places.hub_cache / "models--someone--broken"
        broken.mkdir()
        (places.hub_cache / "datasets--someone--data").mkdir()
        listed = chatapp("list", "--cache").stdout
        assert "someone/tiny-model  llama" in listed and "someone/broken" in listed and "data" not in listed
        facts = json.loads(chatapp("list", "--cache", "--json").stdout)
        assert "no snapshot called main" in facts[0]["why_not"] and facts[0]["size"] is None
        assert facts[1]["why_not"] == "" and facts[1]["size"] > facts[1]["parameters"] > 0


class TestOtherApps:
    @pytest.fixture
    def manifest(self, places: Places) -> Path:
        """A model as Ollama keeps it."""
        digest = "ab" * 32
        blob = places.ollama / "blobs" / f"sha256-{digest}"
        blob.parent.mkdir(parents=True)
        shutil.copy(GGUF, blob)
        path = places.ollama / "manifests" / "registry.ollama.ai" / "library" / "qwen" / "0.5b"
        path.parent.mkdir(parents=True)
        layers = [
            {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "cd" * 32},
            {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
        ]
        path.write_text(json.dumps({"layers": layers}))
        return path

    def test_models_of_ollama_run_in_place(self, manifest: Path, store: Store) -> None:
        model = store.get("ollama:qwen:0.5b")
        assert (model.name, model.family) == ("qwen-0.5b", "qwen2")
        shutil.copy(manifest, manifest.with_name("latest"))
        assert store.get("ollama:qwen").name == "qwen-0.5b"  # the same file
        with pytest.raises(ModelNotFound, match="Ollama has no model 'llama3'.*it has qwen"):
            store.get("ollama:llama3")

    @pytest.mark.parametrize("name", ["../x", "a/../../b", "/etc/passwd", "a:../b", "", "a/b/c/d/e", "qwen:0.5b/.."])
    def test_a_name_that_climbs_out_of_ollamas_folder_is_refused(self, name: str, manifest: Path, store: Store) -> None:
        with pytest.raises(ModelNotFound, match="is not an Ollama model name"):
            store.get(f"ollama:{name}")

    @pytest.mark.parametrize("digest", ["sha256:../../../etc/passwd", "sha256:" + "ab" * 31, "../x", None, ["a"]])
    def test_a_digest_that_climbs_out_is_refused(self, digest: object, manifest: Path, store: Store) -> None:
        layer = {"mediaType": "application/vnd.ollama.image.model", "digest": digest}
        manifest.write_text(json.dumps({"layers": [layer]}))
        with pytest.raises(UnsupportedCheckpoint, match="does not name one file with weights"):
            store.get("ollama:qwen:0.5b")

    @pytest.mark.parametrize("content", ["[" * 100_000, "nonsense", "[]", '{"layers": 3}', '{"layers": [3]}'])
    def test_a_manifest_that_is_none_is_refused(self, content: str, manifest: Path, store: Store) -> None:
        manifest.write_text(content)
        with pytest.raises(UnsupportedCheckpoint):
            store.get("ollama:qwen:0.5b")

    def test_a_file_that_ollama_deleted_is_told(self, manifest: Path, places: Places, store: Store) -> None:
        shutil.rmtree(places.ollama / "blobs")
        with pytest.raises(UnsupportedCheckpoint, match="is gone; pull the model again with Ollama"):
            store.get("ollama:qwen:0.5b")

    def test_models_of_lm_studio_run_in_place(self, places: Places, store: Store) -> None:
        folder = places.lm_studio / "someone" / "Qwen-GGUF"
        folder.mkdir(parents=True)
        shutil.copy(GGUF, folder / "Qwen-Q8_0.gguf")
        assert store.get("lmstudio:someone/Qwen-GGUF").family == "qwen2"
        assert store.get("lmstudio:someone/Qwen-GGUF/Qwen-Q8_0.gguf").family == "qwen2"
        for name in ("someone/other", "../someone/Qwen-GGUF", "someone"):
            with pytest.raises(ModelNotFound, match="LM Studio"):
                store.get(f"lmstudio:{name}")


class TestCommand:
    def test_a_gguf_file_runs_by_its_path(self, chatapp: Run) -> None:
        done = chatapp("run", str(GGUF), "hello", "--max-tokens", "3", "--temperature", "0")
        assert done.returncode == 0 and not done.stderr, done.stderr
        shown = chatapp("show", "qwen2-q8_0").stdout
        assert str(GGUF) in shown and "int8-32 (the file has Q8_0, which is kept as it is)" in shown
        assert "qwen2-q8_0  qwen2" in chatapp("list").stdout

    def test_a_dry_run_tells_and_does_nothing(self, chatapp: Run, home: Path) -> None:
        done = chatapp("import", str(GGUF), "--copy", "--name", "mine", "--dry-run")
        assert done.returncode == 0 and "nothing was imported" in done.stdout and "GGUF file" in done.stdout
        assert not (home / "models").exists()
        facts = json.loads(chatapp("import", str(GGUF), "--json").stdout)
        assert facts["imported"] and facts["copied"] == 0 and facts["model"]["name"] == "qwen2-q8_0"
        assert "qwen2-q8_0" in chatapp("list").stdout

    def test_what_cannot_be_imported_is_told_in_a_line(self, chatapp: Run, tmp_path: Path) -> None:
        (tmp_path / "model.gguf").write_bytes(b"GGUF" + os.urandom(100))
        done = chatapp("import", str(tmp_path / "model.gguf"))
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and "model.gguf" in done.stderr
