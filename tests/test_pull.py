"""What a pull fetches, refuses and leaves behind, with a hub that misbehaves."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import MakeCheckpoint, write_tokenizer
from loopback_hub import Listing, LoopbackHub

from model_store import ModelNotFound, Store, StoreError, UnsupportedCheckpoint, fit, pull, pulled
from model_store.catalog import catalog, refer
from model_store.families import find, names
from model_store.progress import Transfer
from model_store.pull import Plan
from model_store.web import Patience, Site

QUICK = Patience(stall=0.5, tries=3, pause=0.01)
ORG = "org/tiny"
GOLDEN = Path(__file__).parent

Pull = Callable[..., Path]


@pytest.fixture
def folder(checkpoint: MakeCheckpoint, loopback: LoopbackHub) -> Path:
    """The files of a repository that is published."""
    made = checkpoint("tiny")
    loopback.publish(ORG, made)
    return made


@pytest.fixture
def planned(store: Store, loopback: LoopbackHub) -> Callable[..., Plan]:
    def plan(name: str = ORG, token: str | None = None, precision: str | None = None) -> Plan:
        return pull.plan(store.root, name, site=Site(loopback.url, token), precision=precision, patience=QUICK)

    return plan


@pytest.fixture
def pulling(store: Store, planned: Callable[..., Plan]) -> Pull:
    def run(name: str = ORG, **options: object) -> Path:
        return pull.fetch(store.root, planned(name, **options), on_transfer=lambda now: None, patience=QUICK)

    return run


def everything(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


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
    assert left == ["blobs", "builtin", "builtin/model.json", "checkpoints"]
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


def test_what_does_not_fit_is_told_with_the_numbers(planned: Callable[..., Plan], folder: Path) -> None:
    plan = replace(planned(), disk_free=1_000_000, memory=10**8, memory_needed=4 * 10**9, lowered=2 * 10**9)
    disk, memory = plan.problems
    assert disk == "2.0 GB of disk are needed and 0.0 GB are free"
    assert memory == "4.0 GB of memory are needed at int8 and this machine has 0.1 GB"


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


def sharded(folder: Path, weight_map: dict[str, str]) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


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
    folder = Path(shutil.copytree(GOLDEN / "golden_answers" / "t5-codet5", tmp_path / "codet5"))
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


def interrupted(store: Store, plan: Plan, at: int) -> None:
    def interrupt(now: Transfer) -> None:
        if now.done >= at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull.fetch(store.root, plan, on_transfer=interrupt, patience=Patience(stall=30))


def test_an_interrupted_pull_is_absent_and_goes_on(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    plan = planned()
    loopback.fault("safetensors", stall=100_000, delay=20)
    interrupted(store, plan, plan.size - (folder / "model.safetensors").stat().st_size + 100_000)
    with pytest.raises(ModelNotFound):
        store.get(ORG)
    assert [model.name for model in store.list()] == ["builtin"]
    again = planned()
    assert again.there == plan.size - (folder / "model.safetensors").stat().st_size + 100_000
    asked = len(loopback.requests)
    pull.fetch(store.root, again, on_transfer=lambda now: None, patience=QUICK)
    assert [one.range for one in loopback.requests[asked:]] == ["bytes=100000-"]


def test_what_an_interrupted_pull_left_can_be_removed(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    loopback.fault("safetensors", stall=100_000, delay=20)
    interrupted(store, planned(), 100_000)
    assert store.remove(ORG) >= 100_000
    assert not list((store.root / "checkpoints").iterdir())


def test_a_revision_that_changes_in_mid_pull_changes_nothing(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    plan, before = planned(), (folder / "config.json").read_bytes()
    (folder / "config.json").write_text(json.dumps({**json.loads(before), "rms_norm_eps": 1e-3}))
    loopback.publish(ORG, folder)
    target = pull.fetch(store.root, plan, on_transfer=lambda now: None, patience=QUICK)
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
    loopback.fault("tokenizer.json", stall=1000, delay=20)
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
    pull.fetch(store.root, plan, on_transfer=lambda now: None, patience=QUICK)
    target, left = pulled.checkpoint(store.root, "org--tiny"), pulled.unfinished(store.root, "org--tiny")
    target.rename(left)
    for file in plan.files[named:]:
        (left / file.name).rename(left / file.digest)
    sent = loopback.sent
    assert pull.fetch(store.root, plan, on_transfer=lambda now: None, patience=QUICK) == target
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
            pull.fetch(store.root, plan, on_transfer=lambda now: begun.set(), patience=QUICK)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(60)
    target = pull.fetch(store.root, plan, on_transfer=notes.append, patience=QUICK)
    thread.join()
    assert not failures and (target / "pull.json").exists()
    assert len(loopback.asked("resolve.*safetensors")) == 2  # one of them for the plan
    waiting = [one.done for one in notes if "waiting for process" in one.note]
    assert waiting and waiting == sorted(waiting) and waiting[-1] > waiting[0]


# Refusals


def test_a_gated_model_names_the_page(planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub) -> None:
    loopback.gated.add(ORG)
    with pytest.raises(StoreError, match=rf"gated: accept its terms at {loopback.url}/org/tiny, then: chatapp login"):
        planned()
    with pytest.raises(
        StoreError, match=rf"your account has no access to it yet; ask for it at {loopback.url}/org/tiny"
    ):
        planned(token="secret")
    loopback.members.add(ORG)
    assert planned(token="secret").files


def test_a_private_model_needs_the_token(planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub) -> None:
    loopback.private.add(ORG)
    with pytest.raises(StoreError, match=r"no public repository org/tiny.*chatapp login"):
        planned()
    assert planned(token="secret").files


@pytest.mark.parametrize(
    ("name", "fault", "message"),
    [
        ("org/none", {}, "there is no public repository org/none"),
        ("org/tiny@v9", {}, "no revision 'v9'"),
        (ORG, {"status": 401, "headers": {"X-Error-Message": "Invalid credentials in Authorization header"}}, "token"),
        (ORG, {"status": 403}, "does not let you read org/tiny; see .*/org/tiny"),
        (ORG, {"status": 503}, "answers 503, 3 times in a row"),
        (ORG, {"status": 429, "headers": {"Retry-After": "4000"}}, "asks to wait 67 minutes"),
        (ORG, {"status": 200, "body": b"<html>Please log in</html>"}, "does not answer as the Hub would"),
        (ORG, {"status": 200, "body": b"[" * 100_000}, "does not answer as the Hub would"),
        (ORG, {"status": 200, "body": b'{"id": "org/tiny"}'}, "does not answer as the Hub would"),
        (ORG, {"status": 200, "body": b'"' + b"x" * (1 << 26) + b'"'}, "more than 33,554,432 bytes"),
        (ORG, {"status": 200, "headers": {"Content-Encoding": "gzip"}, "body": b"x"}, "compressed"),
        (ORG, {"reset": True}, "cannot be reached"),
        (ORG, {"status": 418}, "refuses what was asked"),
    ],
)  # fmt: skip
def test_what_the_hub_says_is_said_to_the_user(
    planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub, name: str, fault: dict[str, object], message: str
) -> None:
    if fault:
        loopback.fault("/api/models", times=9, **fault)
    with pytest.raises(StoreError, match=message):
        planned(name)


@pytest.mark.parametrize("status", [429, 503, 500])
def test_a_busy_hub_is_asked_again(
    planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub, status: int
) -> None:
    loopback.fault("/api/models", status=status, times=2)
    loopback.fault("config.json", status=status, times=2)
    assert planned().files


def test_a_file_that_vanishes_is_told(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    plan = planned()
    loopback.fault("tokenizer.json", status=404, headers={"X-Error-Code": "EntryNotFound"}, times=9)
    with pytest.raises(StoreError, match="a file that org/tiny lists is not there"):
        pull.fetch(store.root, plan, on_transfer=lambda now: None, patience=QUICK)


HOSTILE_NAMES = [
    "../evil", "a/../../evil", "/etc/passwd", "..", ".", "a//b", "a/./b", "C:\\evil", "C:evil", "..\\evil",
    "\\\\host\\x", "a\0b", "a\nb", "\u2025/evil", "\uff0e\uff0e/evil", "..\uff0fevil", "..\u2215evil", "..\uff3cevil",
    "a\u202egpj.x",
    "con", "NUL.json", "x/aux.txt", ".. /evil", "a" * 2000, 7, None, ["x"],
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_a_name_that_leads_out_of_the_folder_is_refused(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub, tmp_path: Path, name: object
) -> None:
    before = everything(tmp_path)

    def edit(listing: Listing) -> Listing:
        return [*listing, {**listing[0], "rfilename": name}]

    loopback.edit_listing = edit
    with pytest.raises(StoreError, match=r"nothing was fetched|does not answer as the Hub"):
        planned()
    assert everything(tmp_path) == before


@pytest.mark.parametrize("size", [-1, 1 << 60, 10**30, 1.5, "7", None, True])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_size_that_cannot_be_is_refused(
    planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub, size: object, place: int
) -> None:
    def edit(listing: Listing) -> Listing:
        listing[place]["size"] = size
        return listing

    loopback.edit_listing = edit
    with pytest.raises(StoreError, match=r"nothing was fetched"):
        planned()


@pytest.mark.parametrize("digest", ["", "../../../evil", "x" * 40, "A" * 40, None, 5])
def test_a_digest_that_is_none_is_refused(
    planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub, digest: object
) -> None:
    def edit(listing: Listing) -> Listing:
        return [{**one, "blobId": digest, "lfs": None} for one in listing]

    loopback.edit_listing = edit
    with pytest.raises(StoreError, match=r"no usable digest|does not answer as the Hub"):
        planned()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", "[" * 100_000, "not valid JSON"),
        ("config.json", "[]", "no JSON object"),
        ("config.json", "{" + " " * (1 << 22) + "}", "too many for such a file"),
        ("config.json", '{"model_type": "mamba"}', "org/tiny cannot be run: .*mamba"),
        ("config.json", '{"model_type": "llama"}', "lacks a field"),
        ("config.json", '{"model_type": "llama", "quantization_config": {"quant_method": "awq"}}', "already.*awq"),
        ("config.json", '{"model_type": "llama", "num_hidden_layers": 100000000}', "num_hidden_layers in config"),
        ("config.json", None, "has no config.json, but GGUF files; it cannot be run"),
        ("tokenizer.json", None, "has none of tokenizer.json, vocab.json"),
        ("model.safetensors", None, "neither model.safetensors nor pytorch_model.bin, but GGUF files"),
        ("model.safetensors", b"", "its header would have"),
        ("model.safetensors", (1 << 40).to_bytes(8, "little") + bytes(100), "its header would have 1,099,511,627,776"),
        ("model.safetensors", b"\x02\0\0\0\0\0\0\0{}" + bytes(90), "its header describes others"),
        ("model.safetensors", b"\x02\0\0\0\0\0\0\0[]", "cannot be read"),
        ("model.safetensors.index.json", '{"weight_map": {"x": "../../evil.safetensors"}}', "no safe name"),
        ("model.safetensors.index.json", '{"weight_map": {"x": "other.safetensors"}}', "no weights file"),
        ("model.safetensors.index.json", '{"weight_map": {"x": "config.json"}}', "no weights file"),
        ("model.safetensors.index.json", '{"weight_map": {"x": 7}}', "called 7"),
        ("model.safetensors.index.json", "{}", "has no weight_map"),
    ],
    ids=range(19),
)  # fmt: skip
def test_what_cannot_be_run_is_refused_before_anything_is_written(
    store: Store, planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub,
    file: str, content: str | bytes | None, message: str,
) -> None:  # fmt: skip
    (folder / "model.gguf").write_text("")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    loopback.publish(ORG, folder)
    with pytest.raises(StoreError, match=message):
        planned()
    assert not store.root.exists()


def test_tensors_that_overlap_or_leave_the_file_are_refused(
    planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    for begin, stop, shape in ((0, 400, [10]), (0, 4 << 40, [1 << 40]), (-4, 36, [10])):
        header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [begin, stop]}}).encode()
        (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(40))
        loopback.publish(ORG, folder)
        with pytest.raises(UnsupportedCheckpoint, match="header"):
            planned()


def test_names_that_differ_only_in_case_are_refused(
    planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub
) -> None:
    shutil.copy(folder / "model.safetensors", folder / "Model.safetensors")
    sharded(folder, {"x": "Model.safetensors", "y": "model.safetensors"})
    loopback.publish(ORG, folder)
    with pytest.raises(StoreError, match="differ only in their case"):
        planned()


# The store


def test_the_catalogue_says_how_much_memory_a_conversation_takes() -> None:
    configs = json.loads((GOLDEN / "published.json").read_text())
    known = {entry.repository.rpartition("/")[2].lower(): entry for entry in catalog().values()}
    alike = {name.lower(): known.get(name.lower()) or known.get(f"{name}-instruct".lower()) for name in configs}
    assert sum(entry is not None for entry in alike.values()) > 15
    for name, config in configs.items():
        if entry := alike[name.lower()]:
            assert round(fit.cache_size(find(config).decoder(config)) / 1e6) == entry.cache, name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "/etc", "a/b/c", "org/..", "../org", "org/.", "org/na--me", "org/name@../x", "org\\name",
     "org/name@", "org/\u202ename", "org/na me", "~/x", "org/name.git", "org/" + "x" * 200, "a\0b", "https://x/y"],
)  # fmt: skip
def test_a_name_that_could_leave_the_store_is_refused(name: str) -> None:
    with pytest.raises(ModelNotFound):
        refer(name)


def test_a_repository_of_the_catalogue_has_the_catalogue_s_name() -> None:
    assert refer("GPT2-Medium").name == refer("openai-community/gpt2-medium").name == "gpt2-medium"
    assert refer("openai-community/gpt2@main").name == "openai-community--gpt2@main"
    assert refer("org/name@refs/pr/1").name == "org--name@refs--pr--1"
    with pytest.raises(ModelNotFound, match="did you mean 'gpt2-medium'"):
        refer("gpt2-medum")


def test_the_catalogue_holds_only_what_can_be_run_and_stored() -> None:
    assert {entry.family for entry in catalog().values()} <= set(names())
    for name, entry in catalog().items():
        assert refer(name) == refer(entry.repository)
        assert name == name.lower() and 10 < entry.parameters < 10_000 and entry.licence and entry.good_for


@pytest.mark.parametrize(
    "edit",
    [
        "{",
        '{"files": {"../evil": {"size": 1, "digest": "%s"}}}' % ("a" * 40),
        '{"files": {"sub/file": {"size": 1, "digest": "%s"}}}' % ("a" * 40),
        '{"files": {"x": {"size": 1, "digest": "../../evil"}}}',
        '{"files": {"x": 1}}',
        '{"files": []}',
        "{}",
    ],
)
def test_a_manifest_edited_by_hand_is_refused_by_its_path(
    store: Store, planned: Callable[..., Plan], folder: Path, edit: str, tmp_path: Path
) -> None:
    left = pulled.unfinished(store.root, "org--tiny")
    left.mkdir(parents=True)
    (left / "pull.json").write_text(edit)
    before = everything(tmp_path)
    with pytest.raises(StoreError):
        pull.fetch(store.root, planned(), on_transfer=lambda now: None, patience=QUICK)
    assert set(everything(tmp_path)) - set(before) <= {"models/.locks", "models/.locks/org--tiny"}


def test_a_folder_of_the_user_is_not_taken_for_a_pulled_model(
    store: Store, pulling: Pull, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulling()
    own = Path(shutil.copytree(folder, tmp_path / "org" / "tiny"))
    monkeypatch.chdir(tmp_path)
    assert store.get(ORG).folder == own
    store.remove(str(own))
    assert (own / "config.json").exists()
    assert store.get("org--tiny").folder != own


def test_what_is_pulled_takes_the_name_of_a_folder_of_the_user(
    store: Store, pulling: Pull, folder: Path, tmp_path: Path
) -> None:
    own = Path(shutil.copytree(folder, tmp_path / "org--tiny"))
    assert store.get(str(own)).name == "org--tiny"
    target = pulling()
    assert store.get("org--tiny").folder == target == store.get(str(target)).folder
    assert (store.get(str(own)).name, store.get(str(own)).folder) == ("org--tiny-2", own)
    store.remove("org--tiny")
    assert (own / "config.json").exists() and store.get("org--tiny-2").folder == own


def test_a_folder_called_checkpoints_gets_another_name(store: Store, folder: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(folder, tmp_path / "checkpoints"))
    assert store.get(str(own)).name == "checkpoints-2"


@pytest.mark.skipif(os.name == "nt", reason="a file in the way of a folder is another error there")
def test_a_store_that_cannot_be_written_is_named(planned: Callable[..., Plan], folder: Path, tmp_path: Path) -> None:
    plan = planned()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write to the model store .*file"):
        pull.fetch(tmp_path / "file", plan, on_transfer=lambda now: None, patience=QUICK)


def test_a_link_in_the_store_does_not_lead_out_of_it(
    store: Store, planned: Callable[..., Plan], folder: Path, tmp_path: Path
) -> None:
    """What somebody puts where a part will be is not followed."""
    plan, victim = planned(), tmp_path / "victim"
    victim.write_text("kept")
    left = pulled.unfinished(store.root, "org--tiny")
    left.mkdir(parents=True)
    for file in plan.files:
        (left / f"{file.digest}.part").symlink_to(victim)
    target = pull.fetch(store.root, plan, on_transfer=lambda now: None, patience=QUICK)
    assert victim.read_text() == "kept"
    assert not any(path.is_symlink() for path in target.iterdir())
