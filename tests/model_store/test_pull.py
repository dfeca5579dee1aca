"""What a pull fetches, and how it goes on where it stopped."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from model_store import ModelNotFound, Store
from model_store.hub.pull import Plan
from model_store.hub.transfer import Transfer
from model_store.location import Location
from support.checkpoints import write_tokenizer
from support.loopback_hub import LoopbackHub
from support.pulls import ORG, QUICK, Pull, everything, interrupted, sharded
from support.respelled_checkpoints import configure

TESTS = Path(__file__).parents[1]


# The whole way


def test_a_pulled_model_is_found_by_its_names_listed_and_removed(
    store: Store, pulling: Pull, folder: Path, loopback: LoopbackHub
) -> None:
    target = pulling()
    for path in folder.iterdir():
        assert (target / path.name).read_bytes() == path.read_bytes()
    assert loopback.sent == sum(path.stat().st_size for path in folder.iterdir()) + HEADER
    model = store.get(ORG)
    assert model == store.get("org--tiny")
    assert (model.name, model.folder, model.family) == ("org--tiny", target, "llama")
    store.lowered(model, "onnx", "int8")
    assert [one.name for one in store.list()] == ["builtin", "org--tiny"]
    assert store.remove(ORG) > sum(path.stat().st_size for path in folder.iterdir())
    left = [name for name in everything(store.root) if not name.startswith(".locks")]
    assert [name for name in left if name != ".bandwidth.json"] == [
        "blobs",
        "builtin",
        "builtin/model.json",
        "checkpoints",
    ]
    with pytest.raises(ModelNotFound):
        store.get(ORG)


HEADER = 1 << 16
"""Bytes of the weights that planning reads."""


def test_a_checkpoint_that_was_not_registered_is_listed(store: Store, pulling: Pull, folder: Path) -> None:
    pulling()
    assert [one.name for one in store.list()] == ["builtin", "org--tiny"]


def test_a_plan_writes_nothing_and_tells_what_it_takes(
    store: Store, planned: Callable[..., Plan], folder: Path
) -> None:
    plan = planned()
    assert not store.root.exists()
    assert {file.name for file in plan.files} == {path.name for path in folder.iterdir()}
    assert plan.size == sum(path.stat().st_size for path in folder.iterdir())
    assert plan.model.parameters == Store(store.root).get(str(folder)).parameters
    assert (plan.precision, plan.model.context_length, plan.there) == ("int8", 4096, 0)
    assert plan.disk_needed > plan.size and plan.tokens_per_second > 0 and not plan.problems
    assert planned(precision="f32").memory_needed > plan.memory_needed


def test_a_checkpoint_that_is_rounded_is_planned_at_what_it_was_rounded_to(
    planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    plain = planned()
    configure(folder, quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True})
    loopback.publish(ORG, folder)
    plan = planned()
    assert plan.precision == "int4-64" and "int4 in groups of 64" in plan.precision_reason
    assert plan.memory_needed < plain.memory_needed


def test_what_does_not_fit_is_told_with_the_numbers(planned: Callable[..., Plan], folder: Path) -> None:
    plan = replace(planned(), disk_free=1_000_000, memory=10**8, memory_needed=4 * 10**9, lowered=2 * 10**9)
    disk, memory = plan.problems
    assert disk == "2.0 GB of disk space needed, and 1 MB are free, of which 100 MB must stay free"
    assert memory == "4.0 GB of memory needed at int8, and this machine has 100 MB"


def test_only_what_is_needed_is_fetched(
    planned: Callable[..., Plan], pulling: Pull, folder: Path, loopback: LoopbackHub
) -> None:
    wanted = {path.name for path in folder.iterdir()} | {"generation_config.json", "chat_template.jinja", "README.md"}
    wanted.add("additional_chat_templates/tools.jinja")
    for name in (
        "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "model.fp16.safetensors", "consolidated.safetensors",
        "original/consolidated.00.pth", "onnx/model.onnx", "model.gguf", "vocab.json", "merges.txt", "tokenizer.model",
        ".gitattributes", "training_args.bin", "generation_config.json", "chat_template.jinja", "README.md",
        "additional_chat_templates/tools.jinja", "additional_chat_templates/x/y.jinja", "templates/x.jinja",
    ):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("{}")
    loopback.publish(ORG, folder)
    assert {file.name for file in planned().files} == wanted
    target = pulling()
    assert {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()} == wanted | {
        "pull.json"
    }


def test_shards_come_by_their_index(pulling: Pull, folder: Path, loopback: LoopbackHub, store: Store) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    shutil.copy(folder / "model-00001-of-00001.safetensors", folder / "model.safetensors")
    sharded(folder, {"x": "model-00001-of-00001.safetensors"})
    loopback.publish(ORG, folder)
    target = pulling()
    assert {path.name for path in target.glob("*.safetensors")} == {"model-00001-of-00001.safetensors"}
    assert store.get(ORG).parameters > 0


def test_pytorch_weights_come_where_there_are_no_others(
    pulling: Pull, loopback: LoopbackHub, store: Store, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(TESTS / "golden_answers" / "t5-codet5", tmp_path / "codet5"))
    write_tokenizer(folder, 96)
    loopback.publish("Salesforce/codet5-small", folder)
    assert "pytorch_model.bin" in {path.name for path in pulling("codet5-small").iterdir()}
    assert store.get("codet5-small").family == "t5"


def test_two_files_of_one_content_are_fetched_once(pulling: Pull, folder: Path, loopback: LoopbackHub) -> None:
    for name in ("LICENSE", "LICENSE.txt", "README.md"):
        (folder / name).write_text("the same")
    loopback.publish(ORG, folder)
    target = pulling()
    assert [(target / name).read_text() for name in ("LICENSE", "LICENSE.txt", "README.md")] == ["the same"] * 3
    assert len(loopback.asked("LICENSE|README")) == 1


# Going on


def test_an_interrupted_pull_is_absent_and_goes_on(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    plan = planned()
    loopback.fault("safetensors", stall=100_000, delay=1000)
    interrupted(store, plan, plan.size - (folder / "model.safetensors").stat().st_size + 100_000)
    with pytest.raises(ModelNotFound, match="is partly downloaded; to continue: chatapp pull org/tiny$"):
        store.get("org--tiny")
    assert [model.name for model in store.list()] == ["builtin"]
    again = planned()
    assert again.there == plan.size - (folder / "model.safetensors").stat().st_size + 100_000
    asked = len(loopback.requests)
    again.fetch(on_transfer=lambda now: None, patience=QUICK)
    assert [one.range for one in loopback.requests[asked:]] == ["bytes=100000-"]


def test_what_an_interrupted_pull_left_can_be_removed(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    loopback.fault("safetensors", stall=100_000, delay=1000)
    interrupted(store, planned(), 100_000)
    assert store.remove(ORG) >= 100_000
    assert not list((store.root / "checkpoints").iterdir())


def test_a_revision_that_changes_in_mid_pull_changes_nothing(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    plan, before = planned(), (folder / "config.json").read_bytes()
    (folder / "config.json").write_text(json.dumps({**json.loads(before), "rms_norm_eps": 1e-3}))
    loopback.publish(ORG, folder)
    target = plan.fetch(on_transfer=lambda now: None, patience=QUICK)
    assert (target / "config.json").read_bytes() == before


def test_a_new_revision_brings_what_has_changed_and_nothing_else(
    store: Store, pulling: Pull, folder: Path, loopback: LoopbackHub
) -> None:
    pulling()
    store.lowered(store.get(ORG), "onnx", "int8")
    (folder / "config.json").write_text(
        json.dumps({**json.loads((folder / "config.json").read_text()), "rms_norm_eps": 1e-3})
    )
    loopback.publish(ORG, folder)
    sent = loopback.sent
    target = pulling()
    assert loopback.sent - sent == (folder / "config.json").stat().st_size
    assert json.loads((target / "config.json").read_text())["rms_norm_eps"] == 1e-3
    assert store.get(ORG).variants == ()
    assert everything(store.root / "checkpoints").count(".org--tiny.old") == 0


def test_the_same_revision_is_not_fetched_again(pulling: Pull, folder: Path, loopback: LoopbackHub) -> None:
    target = pulling()
    asked = len(loopback.requests)
    assert pulling() == target
    assert [one.path.rpartition("/")[2] for one in loopback.requests[asked:]] == ["tiny?blobs=true"]


def test_what_an_interrupted_pull_has_verified_is_not_fetched_for_the_next_plan(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    plan = planned()
    loopback.fault("tokenizer.json", stall=1000, delay=1000)
    interrupted(store, plan, plan.size - (folder / "tokenizer.json").stat().st_size + 1000)
    asked = len(loopback.requests)
    assert planned().model == plan.model
    assert [one.path.rpartition("/")[2] for one in loopback.requests[asked:]] == ["tiny?blobs=true"]


def test_a_header_that_the_disk_has_changed_is_fetched_again(
    store: Store, pulling: Pull, folder: Path, loopback: LoopbackHub
) -> None:
    target = pulling()
    for name in "config.json", "model.safetensors":
        content = bytearray((target / name).read_bytes())
        content[9] ^= 1
        (target / name).write_bytes(content)
    (target / "tokenizer.json").unlink()  # or all would seem to be there
    pulling()
    for name in "config.json", "model.safetensors":
        assert (target / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("damage", ["delete", "truncate"])
def test_a_damaged_checkpoint_is_mended_by_another_pull(
    pulling: Pull, folder: Path, loopback: LoopbackHub, damage: str
) -> None:
    target = pulling()
    sent = loopback.sent
    if damage == "delete":
        (target / "tokenizer.json").unlink()
    else:
        os.truncate(target / "tokenizer.json", 10)
    assert pulling() == target
    assert (target / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    small = ["tokenizer.json"] if damage == "truncate" else []  # a deleted file is still a blob
    assert loopback.sent - sent == sum((folder / name).stat().st_size for name in small)


@pytest.mark.parametrize("named", [0, 1, 2, 3, 4])
def test_a_pull_that_was_stopped_while_files_got_their_names_goes_on(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub, named: int
) -> None:
    plan = planned()
    plan.fetch(on_transfer=lambda now: None, patience=QUICK)
    target, left = Location(store.root, "org--tiny").checkpoint, Location(store.root, "org--tiny").partial
    target.rename(left)
    for file in plan.files[named:]:
        (left / file.name).rename(left / file.digest)
    sent = loopback.sent
    assert plan.fetch(on_transfer=lambda now: None, patience=QUICK) == target
    assert loopback.sent == sent
    assert {path.name for path in target.iterdir()} == {path.name for path in folder.iterdir()} | {"pull.json"}


def test_of_two_that_pull_at_once_one_fetches_and_the_other_sees_its_progress(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    plan, notes = planned(), list[Transfer]()
    loopback.fault("safetensors", rate=150_000)
    begun, failures = threading.Event(), list[BaseException]()

    def first() -> None:
        try:
            plan.fetch(on_transfer=lambda now: begun.set(), patience=QUICK)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(60)
    with pytest.raises(ModelNotFound, match="is being pulled by process .*; to wait for it: chatapp pull"):
        store.get(ORG)
    target = plan.fetch(on_transfer=notes.append, patience=QUICK)
    thread.join()
    assert not failures and (target / "pull.json").exists()
    assert len(loopback.asked("resolve.*safetensors")) == 2  # one of them for the plan
    waiting = [one.done for one in notes if "waiting for process" in one.note]
    assert waiting and waiting == sorted(waiting) and waiting[-1] > waiting[0]
