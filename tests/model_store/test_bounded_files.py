"""Files of a checkpoint that have no end, are bombs or lead elsewhere: one line, and memory in proportion."""

import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from chatapp.generation.memory import peak_memory
from chatapp.settings import settings
from chatapp.workspace import Workspace
from model_store import UnsupportedCheckpoint
from model_store import files as small_files
from model_store.checkpoint import torch_file
from model_store.checkpoint.card import introduction, licence
from support.checkpoints import MakeCheckpoint, Run
from support.torch_files import VALUES, tensor, write

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links and devices of Unix")
NESTED = b"(K\x01K\x02t" + b"2\x86" * 60
"""A pair of pairs of pairs, with more ends than could ever be counted: DUP and TUPLE2, sixty times."""
NAME = b"X\x01\0\0\0x"
PICKLES = {
    "a nested name in a dictionary": b"\x80\x02}" + NESTED + b"K\x01s.",
    "nested names in a dictionary": b"\x80\x02}(" + NESTED + b"K\x01" + NESTED + b"K\x02u.",
    "a nested name in an OrderedDict": b"\x80\x02ccollections\nOrderedDict\n(]" + NESTED + b"K\x01\x86at\x85R.",
    "a nested name put in an OrderedDict": b"\x80\x02ccollections\nOrderedDict\n)R" + NESTED + b"K\x01s.",
    "a dictionary made at once": b"\x80\x02(" + NESTED + b"K\x01d.",
    "a nested entry of a set": b"\x80\x04\x8f(" + NESTED + b"\x90.",
    "a frozen set": b"\x80\x04(" + NESTED + b"\x91.",
    "a nested key of a storage": b"\x80\x02(" + NAME + b"X\x0c\0\0\0FloatStorage" + NESTED + NAME + b"K\x01tQ.",
    "a nested kind of a storage": b"\x80\x02(" + NAME + NESTED + NAME + NAME + b"K\x01tQ.",
    "a nested shape": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(NK\0" + NESTED + b"K\x01\x85tR.",
    "nothing but lists": b"\x80\x02" + b"]" * 300_000,
}


STATE = b"\x80\x02ccollections\nOrderedDict\n)R" + NESTED + b"b."
"""Attributes, which are left out."""


def archive(path: Path, members: dict[str, tuple[bytes, int]]) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, (content, compression) in members.items():
            made.writestr(f"archive/{name}", content, compression)
    return path


def test_a_nested_state_is_left_out_at_once(tmp_path: Path) -> None:
    assert torch_file.tensors(archive(tmp_path / "a.bin", {"data.pkl": (STATE, zipfile.ZIP_STORED)})) == {}


@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES.keys())
def test_a_pickle_that_would_take_for_ever_is_refused(content: bytes, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.bin", {"data.pkl": (content, zipfile.ZIP_STORED)})
    with pytest.raises(UnsupportedCheckpoint, match=r"a\.bin") as caught:
        torch_file.tensors(path)
    assert len(str(caught.value)) < 300 + len(str(path))


@pytest.mark.parametrize(
    "members",
    [
        {"data.pkl": (b"]" * 99_000_000, zipfile.ZIP_DEFLATED)},
        {"data.pkl": (b"]" * 99_000_000, zipfile.ZIP_BZIP2)},
        {"data.pkl": (b"]" * 9_000_000, zipfile.ZIP_STORED)},
        {"data.pkl": (b"}.", zipfile.ZIP_STORED), "byteorder": (b"l" * 100_000_000, zipfile.ZIP_DEFLATED)},
        {"data.pkl": (b"}.", zipfile.ZIP_STORED), "byteorder": (b"little   ", zipfile.ZIP_STORED)},
    ],
    ids=["deflated", "bzip2", "large", "byteorder deflated", "byteorder large"],
)
def test_a_member_that_pytorch_would_not_have_written_is_refused_before_it_is_read(
    members: dict[str, tuple[bytes, int]], tmp_path: Path
) -> None:
    path = archive(tmp_path / "a.bin", members)
    before = peak_memory()
    with pytest.raises(UnsupportedCheckpoint, match=r"a\.bin .*is compressed or larger than"):
        torch_file.tensors(path)
    assert peak_memory() - before < 30_000_000


def test_what_pytorch_writes_is_read_as_ever(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bin", {"x": tensor("0", VALUES), "step": 3}, {"0": VALUES})
    assert list(torch_file.tensors(path)) == ["x"]


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder_of_that_name(path: Path) -> None:
    path.mkdir()


def too_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(300 << 20)  # without a byte on the disk


@needs_links
@pytest.mark.parametrize("make", [device, pipe, folder_of_that_name, too_large])
@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "additional_chat_templates/default.jinja",
        "README.md",
        "LICENSE",
    ],
)
def test_a_file_without_an_end_costs_one_line_or_is_left_out(
    name: str, make: Callable[[Path], None], checkpoint: MakeCheckpoint, chatapp: Run
) -> None:
    folder = checkpoint(chats=True)
    (folder / name).unlink(missing_ok=True)
    (folder / name).parent.mkdir(exist_ok=True)
    make(folder / name)
    before = peak_memory()
    for command in (["import", str(folder), "--name", "odd"], ["show", str(folder)]):
        done = chatapp(*command)
        assert "Traceback" not in done.stderr and done.stderr.count("\n") <= 1
        assert (done.returncode == 1) == done.stderr.startswith("Error: ")
        if name == "config.json":
            assert done.returncode == 1
    assert peak_memory() - before < 400_000_000


@needs_links
@pytest.mark.parametrize("make", [device, pipe, folder_of_that_name, too_large])
def test_settings_without_an_end_are_one_line(home: Path, make: Callable[[Path], None], chatapp: Run) -> None:
    home.mkdir()
    make(home / "settings.toml")
    done = chatapp("list")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: cannot read the settings in ") and done.stderr.count("\n") == 1
    assert "[Errno" not in done.stderr
    with pytest.raises(settings.SettingsError, match="cannot save the theme"):
        Workspace().choose_theme("dusk")


@needs_links
def test_a_card_that_leads_out_of_its_folder_is_neither_shown_nor_copied(
    home: Path, checkpoint: MakeCheckpoint, tmp_path: Path, chatapp: Run
) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("# Secret\n\nlicense: a secret word\n")
    folder = checkpoint()
    for name in ("README.md", "LICENSE"):
        (folder / name).symlink_to(secret)
    assert introduction(folder) == licence(folder) == ""
    done = chatapp("import", str(folder), "--copy", "--name", "copied")
    assert done.returncode == 0, done.stderr
    assert "secret" not in chatapp("show", "copied").stdout
    assert not any("secret" in path.read_text("utf-8", "replace") for path in home.rglob("*.md"))


@needs_links
def test_what_a_model_needs_is_not_copied_from_outside_of_its_folder(
    checkpoint: MakeCheckpoint, tmp_path: Path, chatapp: Run
) -> None:
    folder, outside = checkpoint(), tmp_path / "generation_config.json"
    outside.write_text("{}")
    (folder / "generation_config.json").symlink_to(outside)
    done = chatapp("import", str(folder), "--copy", "--name", "copied")
    assert done.returncode == 1
    assert f"generation_config.json is a link to {outside}, outside the model" in done.stderr
    assert chatapp("import", str(folder), "--name", "linked").returncode == 0


@needs_links
def test_links_within_the_folder_and_those_of_the_hub_s_cache_are_followed(
    checkpoint: MakeCheckpoint, tmp_path: Path, chatapp: Run
) -> None:
    repository = tmp_path / "hub" / "models--org--name"
    blobs, snapshot = repository / "blobs", repository / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    folder = checkpoint()
    (folder / "README.md").write_text("# Name\n\nA card.\n")
    for number, path in enumerate(sorted(folder.iterdir())):
        shutil.move(path, blobs / str(number))
        (snapshot / path.name).symlink_to(Path("../../blobs") / str(number))
    (snapshot / "LICENSE").symlink_to("README.md")
    assert introduction(snapshot) == "A card."
    assert licence(snapshot).endswith("A card.")
    done = chatapp("import", str(snapshot), "--copy", "--name", "copied")
    assert done.returncode == 0, done.stderr
    assert "A card." in chatapp("show", "copied").stdout


def test_a_file_is_read_up_to_what_its_kind_can_need(tmp_path: Path) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_bytes(b"x" * small_files.KINDS[".jinja"])
    assert len(small_files.read_text(path)) == small_files.KINDS[".jinja"]
    path.write_bytes(b"x" * (small_files.KINDS[".jinja"] + 1))
    with pytest.raises(OSError, match="it is larger than 4 MB"):
        small_files.read_text(path)


def test_two_threads_that_write_one_file_leave_it_whole(tmp_path: Path) -> None:
    path, faults = tmp_path / "manifest.json", list[Exception]()

    def write(number: int) -> None:
        try:
            for _ in range(50):
                small_files.write_json(path, {"number": number, "text": "x" * 5000})
                assert small_files.read_manifest(path)["text"]
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not faults and os.listdir(tmp_path) == [path.name]
