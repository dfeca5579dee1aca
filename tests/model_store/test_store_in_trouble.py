"""The store on disks that are full or can only be read, with broken manifests, and with names that cannot be."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backends import Placement
from chatapp.cli.main import main
from chatapp.placement import measuring
from chatapp.placement.calibration import check
from chatapp.placement.record import Measurement
from chatapp.placement.selection import PlacementOptions
from chatapp.text.files import write_whole
from chatapp.workspace import Workspace
from model_store import ModelNotFound, Progress, Store, StoreError
from model_store.disk import writing
from model_store.files import write_json
from model_store.hub import pulled
from model_store.hub.partial import Wanted
from model_store.location import Location
from model_store.locks import alone
from model_store.store import BUILTIN_FOLDER
from model_store.upkeep import copies, garbage
from support.checkpoints import MakeCheckpoint

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the limits and mounts of Unix")
Printed = pytest.CaptureFixture[str]
DIGEST = "a" * 64


@contextmanager
def no_room() -> Iterator[None]:
    """No file can take a byte, as on a full disk; the error is EFBIG, which is told like ENOSPC."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def stopped_pull(root: Path, size: int) -> Path:
    """A pull that was stopped with so many bytes; no lock was ever taken in this store."""
    folder = pulled.begin(
        Location(root, "org--tiny"), {"repository": "org/tiny"}, [Wanted("model.safetensors", 10**9, DIGEST)]
    )
    (folder / f"{DIGEST}.part").write_bytes(bytes(size))
    return folder


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mount a small disk of its own, where that is allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted: list[bool] = []

    def tmpfs(*options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
        if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("only root can mount a disk, and not in every container")
        mounted.append(True)
        return folder

    yield tmpfs
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_model_that_is_refused_takes_no_stopped_pull_of_its_name_along(
    store: Store, checkpoint: MakeCheckpoint
) -> None:
    part = stopped_pull(store.root, 1000)
    with pytest.raises(StoreError, match="refused"), store.adopting():
        assert store.get(str(checkpoint("org--tiny"))).name == "org--tiny"
        raise StoreError("refused")
    assert part.is_dir()


def test_removing_works_where_no_byte_can_be_written_and_no_lock_was_taken_before(store: Store) -> None:
    part = stopped_pull(store.root, 1_000_000)
    with no_room():
        assert store.remove("org--tiny") > 1_000_000
    assert not part.exists() and store.root.joinpath(".locks").is_dir()


@pytest.mark.parametrize("options", [("size=1200k",), ("size=8m", "nr_inodes=9")])
def test_removing_works_on_a_disk_without_room_or_without_inodes(
    mount: Callable[..., Path], options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    disk = mount(*options)
    monkeypatch.setenv("CHATAPP_HOME", str(disk))
    root = Workspace().open_store().root
    part = stopped_pull(root, 1_000_000)
    with pytest.raises(OSError, match="No space left"):
        for number in range(1000):
            (disk / f"more{number}").write_bytes(bytes(100_000))
    assert main(["gc"]) == 0 and main(["rm", "org--tiny"]) == 0
    assert "freed" in capsys.readouterr().out and not part.exists()


@pytest.mark.parametrize(
    "write", [lambda path: write_json(path, {"family": "llama"}), lambda path: write_whole(path, "a")]
)
def test_what_cannot_be_written_is_named_and_leaves_nothing_behind(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    with pytest.raises(OSError) as error, no_room():
        write(path)
    assert error.value.filename == str(path) and not list(tmp_path.iterdir())


def test_a_full_disk_is_told_with_the_path_and_what_to_do(store: Store) -> None:
    store.root.mkdir()
    with pytest.raises(StoreError) as error, no_room():
        store.lowered(store.get("builtin"), "onnx")
    assert "free some space" in str(error.value) and str(store.root) in str(error.value)
    assert not [path for path in store.root.rglob("*") if path.name.startswith(".model.json")]
    assert copies.copy(store, "builtin", "two").name == "two"  # of a model that has nothing in its folder


def test_of_a_copy_the_disk_is_named_that_it_goes_to(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the disk with /to is full"), writing(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device", "/from", None, "/to")


def test_what_an_attempt_on_a_full_disk_left_is_garbage(store: Store) -> None:
    left = store.root / "builtin" / ".model.json.4711"
    left.parent.mkdir(parents=True)
    left.touch()
    assert left in [one.path for one in garbage.collect(store)] and not left.exists()


@pytest.fixture
def read_only(mount: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """A home on a disk of its own; makes it one that can only be read."""
    disk = mount("size=64m")
    monkeypatch.setenv("CHATAPP_HOME", str(disk))
    return lambda: subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def test_garbage_in_a_store_that_can_only_be_read_stays_and_that_elsewhere_goes(
    mount: Callable[..., Path], tmp_path: Path
) -> None:
    disk, told = mount("size=1m"), list[str]()
    left = [root / "mine" / ".model.json.4711" for root in (tmp_path / "own", disk)]
    for path in left:
        path.parent.mkdir(parents=True)
        path.touch()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    store = Store(tmp_path / "own", more=[disk])
    assert [one.path for one in garbage.collect(store, warn=told.append)] == [left[0].parent]
    assert [path.exists() for path in left] == [False, True]
    assert told == [f"{disk} cannot be written to, and is left as it is"]


def test_an_import_into_a_store_that_can_only_be_read_says_so(
    read_only: Callable[[], object], checkpoint: MakeCheckpoint, capsys: Printed
) -> None:
    folder = checkpoint("tiny")
    read_only()
    assert main(["import", str(folder), "--name", "z"]) == 1
    printed = capsys.readouterr()
    assert "Imported" not in printed.out and "Error: cannot write to the model store" in printed.err


def test_who_cannot_write_to_a_shared_store_is_sent_to_its_owner(
    mount: Callable[..., Path], checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    disk = mount("size=64m")
    store = Store(disk)
    store.lowered(store.register("shared", checkpoint("tiny")), "onnx", "f32")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    monkeypatch.setenv("CHATAPP_STORES", str(disk))
    for command in (["rm", "shared"], ["run", "shared", "x", "--backend", "onnx", "--precision", "int4"]):
        assert main(command) == 1
        said = f"cannot write to the model store {disk} (Read-only file system); if it is shared, ask its owner"
        assert f"Error: {said}" in capsys.readouterr().err
    assert main(["verify", "shared", "--precision", "f32"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_measuring_and_verifying_work_in_a_store_that_can_only_be_read(
    read_only: Callable[[], object], checkpoint: MakeCheckpoint, capsys: Printed
) -> None:
    store = Workspace().open_store()
    model = store.get(str(checkpoint("tiny")))
    variant = store.lowered(model, "onnx", "f32")
    read_only()

    def measure(
        store: Store, name: str, way: Placement, *, reference: Path, on_progress: Progress | None = None
    ) -> Measurement:
        passed = check(store, model, variant, way.device, reference, lambda step, share: None)
        return Measurement(way, verdict="passed" if passed else "failed")

    found = measuring.measure_all(store, model, PlacementOptions(precision="f32"), calibrate=measure)
    assert [one.verdict for one in found] == ["passed"] * len(found) and found
    assert main(["verify", "tiny", "--precision", "f32"]) == 0
    assert "cannot save this result: cannot write to the model store" in " ".join(capsys.readouterr().out.split())


def broken_store(checkpoint: MakeCheckpoint, file: str, content: str) -> Path:
    """Two models that can be read, and one with a broken manifest."""
    store = Workspace().open_store()
    folder = checkpoint("tiny")
    for name in ("one", "two", "bad"):
        store.register(name, folder)
    (Location(store.root, "bad").checkpoint).mkdir(parents=True)
    (store.root / "blobs").mkdir()
    for part in ("config.json", "tokenizer.json", "model.safetensors"):
        shutil.copy(folder / part, Location(store.root, "bad").checkpoint)
    path = {"model.json": store.root / "bad", "pull.json": Location(store.root, "bad").checkpoint}[file] / file
    path.write_text(content)
    return path


@pytest.mark.parametrize("content", ["{", "[]", "{}", "[" * 5000, '{"files": 5}', "\x00", '{"files": {"a": 5}}'])
@pytest.mark.parametrize("file", ["model.json", "pull.json"])
def test_a_broken_manifest_costs_only_its_model(
    checkpoint: MakeCheckpoint, capsys: Printed, file: str, content: str
) -> None:
    path = broken_store(checkpoint, file, content)
    capsys.readouterr()
    for command in (["list"], ["list", "--json"], ["gc"], ["gc", "--json"], ["du"], ["du", "--json"]):
        assert main(command) == 0, command
        printed = capsys.readouterr()
        if command[0] != "du":
            assert command[0] == "gc" and file == "model.json" or str(path) in printed.err
        assert all(line.startswith("Warning: ") for line in printed.err.splitlines())
        if command[0] == "list":
            assert "one" in printed.out and "two" in printed.out
        if "--json" in command:
            json.loads(printed.out)
    assert main(["show", "one"]) == 0
    assert main(["rm", "bad"]) == 0 and not path.exists()
    assert main(["list"]) == 0 and "Warning" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["-rf", "--help", "-", "con", "NUL", "com1.txt", "x.", "x ", " x", "", "."])
def test_a_name_that_cannot_be_everywhere_is_refused(checkpoint: MakeCheckpoint, name: str, capsys: Printed) -> None:
    assert main(["import", str(checkpoint("tiny")), f"--name={name}"]) == 1
    assert f"Error: {name!r} cannot be the name of a model: " in capsys.readouterr().err
    assert main(["cp", "--", "builtin", name]) == 1
    assert f"Error: {name!r} cannot be the name of a model: " in capsys.readouterr().err


def test_a_folder_that_is_called_as_no_model_can_be_gets_another_name(store: Store, checkpoint: MakeCheckpoint) -> None:
    assert store.get(str(checkpoint("con"))).name == "con-2"


def test_a_copy_where_the_disk_knows_no_links_says_what_it_takes(
    checkpoint: MakeCheckpoint, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["import", str(checkpoint("tiny")), "--name", "one", "--copy"])
    assert main(["cp", "one", "two"]) == 0
    assert "two is one, and shares its files" in capsys.readouterr().out

    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", no_links)
    assert main(["cp", "one", "three"]) == 0
    assert "three is one, and takes another" in capsys.readouterr().out


def test_a_model_that_is_being_removed_is_said_to_be(store: Store) -> None:
    folder = Location(store.root, "org--tiny").checkpoint
    folder.mkdir(parents=True)
    shutil.copy(BUILTIN_FOLDER / "config.json", folder)
    (folder / "pull.json").write_text("{}")
    with (
        alone(Location(store.root, "org--tiny"), "removing"),
        pytest.raises(ModelNotFound, match="is being removed by process"),
    ):
        store.get("org--tiny")


def test_a_model_that_is_removed_while_it_is_looked_up_does_not_come_back(
    store: Store, checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = store.get(str(checkpoint())).name

    def read_by(folder: Path) -> str:
        store.remove(name)
        return DIGEST

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("model_store.checkpoint.links.fingerprint", read_by)
        with pytest.raises(ModelNotFound, match="was removed"):
            store.get(name)
    assert name not in [model.name for model in store.list()]
