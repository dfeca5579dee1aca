"""What a pull refuses: what the hub denies, what names or sizes cannot be, and what cannot be run."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from model_store import Store, StoreError, UnsupportedCheckpoint
from model_store.hub import file_selection, pull
from model_store.hub.partial import Wanted
from model_store.hub.pull import Plan
from model_store.hub.web import Site
from support.hub_facts import Listing
from support.loopback_hub import LoopbackHub
from support.pulls import ORG, QUICK, Pull, everything, sharded


def test_a_gated_model_names_the_page(planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub) -> None:
    loopback.gated.add(ORG)
    with pytest.raises(StoreError, match=rf"gated: accept its terms at {loopback.url}/org/tiny, then: chatapp login"):
        planned()
    with pytest.raises(StoreError, match=rf"your account has no access yet; request it at {loopback.url}/org/tiny"):
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
        ("org/none", {}, "no public repository org/none"),
        ("org/tiny@v9", {}, "no revision 'v9'"),
        (ORG, {"status": 401, "headers": {"X-Error-Message": "Invalid credentials in Authorization header"}}, "token"),
        (ORG, {"status": 403}, "denies access to org/tiny; see .*/org/tiny"),
        (ORG, {"status": 503}, "answers 503 .*, 3 times in a row"),
        (ORG, {"status": 429, "headers": {"Retry-After": "4000"}}, "asks to wait 67 minutes"),
        (ORG, {"status": 200, "body": b"<html>Please log in</html>"}, "does not answer as the Hub would"),
        (ORG, {"status": 200, "body": b"[" * 100_000}, "does not answer as the Hub would"),
        (ORG, {"status": 200, "body": b'{"id": "org/tiny"}'}, "does not answer as the Hub would"),
        (ORG, {"status": 200, "body": b'"' + b"x" * (1 << 26) + b'"'}, "larger than 33,554,432 bytes"),
        (ORG, {"status": 200, "headers": {"Content-Encoding": "gzip"}, "body": b"x"}, "compressed"),
        (ORG, {"reset": True}, "cannot be reached"),
        (ORG, {"status": 418}, "refused a request for"),
    ],
)  # fmt: skip
def test_what_the_hub_says_is_said_to_the_user(
    planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub, name: str, fault: dict[str, object], message: str
) -> None:
    if fault:
        loopback.fault("/api/models", times=9, **fault)
    with pytest.raises(StoreError, match=message):
        planned(name)


@pytest.mark.parametrize("file", ["config.json", "safetensors"])
def test_a_file_that_trickles_while_a_pull_is_planned_is_given_up(
    store: Store, folder: Path, loopback: LoopbackHub, file: str
) -> None:
    loopback.fault(file, rate=100, times=9)
    with pytest.raises(StoreError, match=r"only \d+ bytes arrived in \d seconds, 3 times in a row"):
        pull.plan(store.roots, ORG, site=Site(loopback.url), patience=replace(QUICK, stall=0.5))


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
    with pytest.raises(StoreError, match="a file that org/tiny lists is missing"):
        plan.fetch(on_transfer=lambda now: None, patience=QUICK)


HOSTILE_NAMES = [
    "../evil", "a/../../evil", "/etc/passwd", "..", ".", "a//b", "a/./b", "C:\\evil", "C:evil", "..\\evil",
    "\\\\host\\x", "a\0b", "a\nb", "\u2025/evil", "\uff0e\uff0e/evil", "..\uff0fevil", "..\u2215evil", "..\uff3cevil",
    "a\u202egpj.x",
    "con", "NUL.json", "x/aux.txt", ".. /evil", "a" * 2000, 7, None, ["x"],
]  # fmt: skip


ODD_NAMES = ["runs/10:00/x", "what?.md", "a|b.txt", 'docs/"q".md', "con.py", "assets/aux/x.png"]


def test_names_that_lead_out_of_the_folder_or_are_odd_cost_nothing_where_nobody_needs_them(
    store: Store, pulling: Pull, folder: Path, loopback: LoopbackHub, tmp_path: Path
) -> None:
    before = everything(tmp_path)
    loopback.edit_listing = lambda listing: [
        *({**listing[0], "rfilename": name} for name in (*HOSTILE_NAMES, *ODD_NAMES)),
        *listing,
        {**listing[0], "rfilename": "picture.png", "size": -1, "blobId": None},
    ]
    kept = {path.name for path in pulling().iterdir()}
    assert kept - {"pull.json"} == {path.name for path in folder.iterdir()}
    inside = store.root.relative_to(tmp_path).as_posix()
    assert [name for name in everything(tmp_path) if not name.startswith(inside)] == before


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_a_name_that_leads_out_of_the_folder_is_refused_where_it_would_be_fetched(name: object) -> None:
    index = Wanted("model.safetensors.index.json", 7, "0" * 40)
    listing = file_selection.Listing([(name, 7, "0" * 40), (index.name, 7, "0" * 40)])
    with pytest.raises(StoreError, match="nothing was downloaded"):
        file_selection.shards(index, {"weight_map": {"x": name}}, listing)
    if isinstance(name, str):
        with pytest.raises(StoreError, match="nothing was downloaded"):
            listing[name]


@pytest.mark.parametrize("size", [-1, 1 << 60, 10**30, 1.5, "7", None, True])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_size_that_cannot_be_is_refused(
    planned: Callable[..., Plan], folder: Path, loopback: LoopbackHub, size: object, place: int
) -> None:
    def edit(listing: Listing) -> Listing:
        listing[place]["size"] = size
        return listing

    loopback.edit_listing = edit
    with pytest.raises(StoreError, match=r"nothing was downloaded"):
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
        ("config.json", "[]", "not a JSON object"),
        ("config.json", "{" + " " * (1 << 22) + "}", "too many for such a file"),
        ("config.json", '{"model_type": "rwkv"}', "org/tiny cannot be run: .*rwkv"),
        ("config.json", '{"model_type": "llama"}', "lacks a field"),
        ("config.json", '{"model_type": "llama", "quantization_config": {"quant_method": "awq"}}', "already.*awq"),
        ("config.json", '{"model_type": "llama", "num_hidden_layers": 100000000}', "num_hidden_layers in config"),
        ("config.json", None, "has no config.json, but GGUF files; to pull one: chatapp pull .*:QUANTISATION"),
        ("tokenizer.json", None, "has none of tokenizer.json, vocab.json"),
        ("model.safetensors", None, "model.gguf of org/tiny is damaged or not a GGUF file: it is 0 bytes long"),
        ("model.safetensors", b"", "its header would have"),
        ("model.safetensors", (1 << 40).to_bytes(8, "little") + bytes(100), "its header would have 1,099,511,627,776"),
        ("model.safetensors", b"\x02\0\0\0\0\0\0\0{}" + bytes(90), "its header describes others"),
        ("model.safetensors", b"\x02\0\0\0\0\0\0\0[]", "cannot be read"),
        ("model.safetensors.index.json", '{"weight_map": {"x": "../../evil.safetensors"}}', "unsafe name"),
        ("model.safetensors.index.json", '{"weight_map": {"x": "other.safetensors"}}', "not a weights file"),
        ("model.safetensors.index.json", '{"weight_map": {"x": "config.json"}}', "not a weights file"),
        ("model.safetensors.index.json", '{"weight_map": {"x": 7}}', "name 7"),
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
    with pytest.raises(StoreError, match="differ only in case"):
        planned()
