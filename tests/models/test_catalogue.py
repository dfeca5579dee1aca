"""What the models screen lists, and what the first start offers."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backends import Placement
from backends.decoder import Decoder
from chatapp.models import catalogue, facts, suggestion
from chatapp.models.catalogue import ListedModel, Machine
from chatapp.models.facts import Fact
from chatapp.placement import record
from chatapp.placement.record import Measurement
from chatapp.tui.models.sections import KINDS, group_models
from model_store import Store, bandwidth, families, fit
from model_store.hub.catalog import catalog
from model_store.location import Location
from model_store.locks import alone
from model_store.models import LARGE
from model_store.upkeep.copies import copy
from support.checkpoints import ROOT, MakeCheckpoint, Run
from support.loopback_hub import LoopbackHub

GB = 1_000_000_000


@pytest.fixture
def store(home: Path) -> Store:
    (home / "models").mkdir(parents=True)
    return Store(home / "models")


def machine(memory: int = 16 * GB, disk_free: int = 200 * GB, bandwidth: float = 20 * GB) -> Machine:
    return Machine(memory, disk_free, bandwidth, backends=2, versions=record.conditions())


def row_of(store: Store, name: str, this: Machine | None = None) -> ListedModel:
    return next(row for row in catalogue.list_models(store, this or machine()) if row.name == name)


def measured(p50: float, device: str = "cpu") -> Measurement:
    return Measurement(
        Placement("onnx", device, "int8"),
        verdict="passed",
        first_token=((32, 0.1),),
        p50=p50,
        p95=p50,
        peak_memory=2 * GB,
    )


def keep_measured(store: Store, name: str, *found: Measurement) -> None:
    record.add(store, store.get(name), list(found))


# What is here


def test_the_built_in_model_is_first_and_the_catalogue_follows(store: Store) -> None:
    rows = catalogue.list_models(store, machine())
    assert (rows[0].name, rows[0].state, rows[0].kind) == ("builtin", "here", "base")
    assert [row.name for row in rows[1:]] == list(catalog())
    assert {row.state for row in rows[1:]} == {"absent"}


def test_a_model_that_was_timed_shows_what_was_measured(store: Store, checkpoint: MakeCheckpoint) -> None:
    name = store.get(str(checkpoint(chats=True))).name
    expected = row_of(store, name)
    assert (expected.measured, expected.place, expected.badge, expected.kind) == (False, "", "unverified", "chat")
    keep_measured(store, name, measured(0.02), replace(measured(0.01), failure="it crashed"))
    row = row_of(store, name)
    assert (row.tokens_per_second, row.measured, row.memory, row.place) == (50, True, 2 * GB, "onnx · cpu")


def test_measurements_of_another_machine_do_not_count(store: Store, checkpoint: MakeCheckpoint) -> None:
    name = store.get(str(checkpoint())).name
    keep_measured(store, name, measured(0.02))
    assert not row_of(store, name, replace(machine(), versions={"processor": "another"})).measured


def test_the_badge_tells_what_a_model_was_verified_against(store: Store, checkpoint: MakeCheckpoint) -> None:
    model = store.get(str(checkpoint()))
    variant = store.lowered(model, "onnx")
    store.keep_verdict(variant, "cpu", {"passed": True, "reference": "PyTorch 2.9", "date": "2026-01-02T03:04:05"})
    row = row_of(store, model.name)
    assert (row.badge, row.against, row.place, row.precision) == ("verified", "PyTorch 2.9", "onnx · cpu", "int8")
    assert (
        Fact(
            "check",
            "verified on onnx int8 cpu, 2026-01-02, against PyTorch 2.9: the rounding, the runtime and our reading"
            " of config.json",
        )
        in facts.read_details(store, row, machine()).facts
    )


def test_what_failed_verification_is_told_and_not_taken_for_the_way_it_runs(
    store: Store, checkpoint: MakeCheckpoint
) -> None:
    model = store.get(str(checkpoint()))
    variant = store.lowered(model, "onnx")
    keep_measured(store, model.name, measured(0.02))
    verdict = {"passed": False, "reference": "PyTorch", "date": "2026-01-02", "failures": ["logits differ"]}
    store.keep_verdict(variant, "cpu", verdict)
    row = row_of(store, model.name)
    assert (row.badge, row.measured) == ("failed", False)
    told = facts.read_details(store, row, machine()).facts
    assert (
        Fact(
            "check",
            "FAILED on onnx int8 cpu, 2026-01-02, against PyTorch: the rounding, the runtime and our reading"
            " of config.json; logits differ",
        )
        in told
    )


def test_a_model_that_cannot_be_read_is_listed_with_the_reason(store: Store, checkpoint: MakeCheckpoint) -> None:
    name = store.get(str(checkpoint())).name
    (store.folder(name) / "model.json").write_text("{")
    row = row_of(store, name)
    assert row.state == "broken" and "cannot be read" in row.note
    assert facts.read_details(store, row, machine()) == facts.Details(())


def test_details_tell_why_a_model_runs_where_it_does(store: Store, checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Tiny\n\nA model for tests.\n\n## More\n\nNo.\n")
    name = store.get(str(folder)).name
    keep_measured(store, name, replace(measured(0.01), failure="it crashed"), measured(0.02))
    found = facts.read_details(store, row_of(store, name), machine())
    assert [one.failure for one in found.placements] == [None, "it crashed"]
    assert found.card == "A model for tests."
    told = {fact.label: fact for fact in found.facts}
    assert told["precision"].value == "int8" and told["precision"].why.startswith("below a billion")
    assert told["checkpoint"].value == str(folder)


def test_a_thousand_models_are_listed_at_once(store: Store, checkpoint: MakeCheckpoint) -> None:
    model = store.get(str(checkpoint()))
    store.lowered(model, "onnx")
    keep_measured(store, model.name, measured(0.02))
    for place in range(1, 1000):
        shutil.copytree(store.folder(model.name), store.root / f"model-{place}", copy_function=linked)
    this = machine()
    before = time.process_time()
    rows = catalogue.list_models(store, this)
    assert time.process_time() - before < 2  # 0.1 where nothing else runs
    assert sum(row.measured for row in rows) == 1000


def linked(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


# What a part of is here


@pytest.fixture
def stopped(tmp_path: Path, checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The store of a pull of org/tiny that was killed after 200,000 bytes of weights."""
    with LoopbackHub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
        hub.publish("org/tiny", checkpoint("published", chats=True))
        hub.fault("safetensors", after=1, stall=200_000, delay=1000)
        command = [sys.executable, "-m", "chatapp", "pull", "org/tiny", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout
            for line in process.stdout:
                if json.loads(line).get("done", 0) >= 200_000:
                    break
            process.kill()
        yield tmp_path / "home" / "models"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_a_pull_that_was_stopped_is_listed_with_its_share(stopped: Path) -> None:
    store = Store(stopped)
    row = row_of(store, "org--tiny")
    assert (row.state, row.source, row.licence) == ("stopped", "org/tiny", "mit")
    assert row.share and 0 < row.share < 1 and row.size > 200_000
    with alone(Location(stopped, "org--tiny"), "pulling") as held:
        held.tell("fetching", 0.4)
        time.sleep(0.21)
        held.tell("fetching", 0.4)
        told = row_of(store, "org--tiny")
        assert told.state == "elsewhere" and "is pulling, fetching 40%" in told.note
        assert suggestion.suggest_unfinished(store, ["org/tiny"]) is None
    offered = suggestion.suggest_unfinished(store, ["org/tiny", "../no"])
    assert offered and offered.names == ("org/tiny",) and offered.text == "The pull of org/tiny was not finished."
    several = suggestion.suggest_unfinished(store, ["org/tiny", "gpt2"])
    assert several and several.text == "2 pulls were not finished."


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_what_removing_frees_is_known_before(stopped: Path) -> None:
    store = Store(stopped)
    row = row_of(store, "org--tiny")
    assert facts.count_freed(store, row) == store.remove("org--tiny") > 200_000


@pytest.mark.process
def test_removing_frees_only_what_no_other_model_has(
    home: Path, tmp_path: Path, checkpoint: MakeCheckpoint, chatapp: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackHub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
        hub.publish("org/tiny", checkpoint("published", chats=True))
        assert chatapp("pull", "org/tiny").returncode == 0
    store = Store(home / "models")
    alone = facts.count_freed(store, row_of(store, "org--tiny"))
    copy(store, "org--tiny", "other")
    for name in ("org--tiny", "other"):
        foretold = facts.count_freed(store, row_of(store, name))
        assert abs(foretold - store.remove(name)) < 5_000  # small files of the store's own
        assert foretold < alone / 4 if name == "org--tiny" else foretold > alone / 2


# What fits


@pytest.mark.parametrize(
    ("this", "fits", "problem"),
    [
        (machine(), "well", ""),
        (machine(memory=8 * GB), "tight", "it needs 5.1 GB of this machine's 8.0 GB of memory"),
        (machine(memory=4 * GB), "no", "it needs 5.1 GB of memory, and this machine has 4.0 GB"),
        (
            machine(disk_free=10 * GB),
            "no",
            "it needs 22.2 GB of disk space, and 10.0 GB are free, of which 100 MB must stay free",
        ),
    ],
)
def test_a_model_that_does_not_fit_says_why_with_numbers(store: Store, this: Machine, fits: str, problem: str) -> None:
    row = row_of(store, "mistral-7b-instruct", this)
    assert (row.fits, row.problem) == (fits, problem)
    assert Fact("fits", fits, problem) in facts.read_details(store, row, this).facts or fits == "well"


PUBLISHED = json.loads((ROOT / "tests" / "published.json").read_text())


WEIGHTS = {
    "gpt2": 124, "pythia-1.4b": 1415, "TinyLlama-1.1B-Chat": 1100, "Qwen2.5-0.5B": 494, "Llama-3.2-1B": 1236,
    "Mistral-7B-v0.3": 7248, "Phi-3-mini-4k": 3821, "SmolLM2-135M": 135, "Qwen3-0.6B": 596, "gemma-3-1b": 1000,
}  # fmt: skip
"""In millions."""


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_memory_that_is_reckoned_from_the_size_alone_is_about_right(name: str) -> None:
    config, weights = PUBLISHED[name], WEIGHTS[name] * 1_000_000
    decoder: Decoder = families.find(config).decoder(config)
    precision = "int4" if weights >= LARGE else "int8"
    reckoned = catalogue.estimate_memory(config["model_type"], weights, precision)
    exactly = fit.memory_needed(fit.lowered_size(weights, precision), fit.cache_size(decoder))
    assert 0.7 < reckoned / exactly < 1.4


def test_a_search_leaves_out_what_the_catalogue_has() -> None:
    found = [
        {"id": name, "family": "llama", "downloads": 1234, "licence": "mit", "gated": False}
        for name in ("org/tiny", "Qwen/Qwen3-0.6B")
    ]
    (row,) = catalogue.describe_found({"hub": found})
    assert (row.name, row.source, row.kind, row.good_for) == ("org--tiny", "org/tiny", "hub", "llama, 1,234 downloads")
    (row,) = catalogue.describe_found({"hub": [{**found[0], "quantizations": ["Q8_0"]}]})
    assert (row.name, row.source) == ("org--tiny--Q8_0", "org/tiny:Q8_0") and row.good_for.endswith(", Q8_0")


# What is offered


def test_what_can_be_offered_is_in_the_catalogue_for_anybody_to_chat_with() -> None:
    for name in (*suggestion.SMALLEST_FIRST, suggestion.LAST):
        entry = catalog()[name]
        assert entry.kind == "chat" and not entry.gated and not entry.licence.startswith("other")
    sizes = [catalog()[name].parameters for name in suggestion.SMALLEST_FIRST]
    assert sizes == sorted(sizes) and catalog()[suggestion.LAST].parameters < sizes[0]


@pytest.mark.parametrize(
    ("this", "name"),
    [
        (machine(bandwidth=100 * GB), "smollm2-360m-instruct"),
        (machine(bandwidth=GB), "smollm2-360m-instruct"),  # as a loaded machine seems
        (machine(disk_free=2 * GB), "smollm2-135m-instruct"),
        (machine(memory=GB), "smollm2-135m-instruct"),
        (machine(disk_free=GB // 10), None),
    ],
)
def test_the_smallest_good_model_that_fits_is_offered_whatever_the_load(
    store: Store, this: Machine, name: str | None
) -> None:
    found = suggestion.choose_chat_model(catalogue.list_models(store, this), this.disk_free)
    assert (found.names[0] if found else None) == name
    if found:
        assert found.text == "Want to chat?"
        assert re.fullmatch(rf"downloads {name} \(\d+ MB\)", found.does)


def test_nothing_is_offered_where_a_model_chats_already(
    store: Store, checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    store.get(str(checkpoint(chats=True)))
    this = machine()
    assert suggestion.choose_chat_model(catalogue.list_models(store, this), this.disk_free) is None


def test_an_offer_is_not_made_twice_nor_offline(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "home" / "offer.json"
    monkeypatch.setattr(bandwidth, "measure", lambda: 20.0 * GB)
    monkeypatch.setattr(fit, "memory", lambda: 16 * GB)
    assert suggestion.suggest_chat_model(store, path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert suggestion.suggest_chat_model(store, path) is None
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("CHATAPP_OFFLINE", "1")
    assert suggestion.suggest_chat_model(store, path) is None
    monkeypatch.setenv("CHATAPP_OFFLINE", "0")
    suggestion.remember_answer(path)
    assert suggestion.suggest_chat_model(store, path) is None
    path.write_text("{")
    assert suggestion.suggest_chat_model(store, path)


# What is recommended


@pytest.mark.parametrize(
    ("this", "names"),
    [
        (machine(bandwidth=100 * GB), {"qwen2.5-1.5b-instruct", "qwen2.5-coder-1.5b"}),
        (machine(bandwidth=8 * GB), {"qwen2.5-0.5b-instruct", "qwen2.5-coder-0.5b"}),
        (machine(bandwidth=GB // 10), set()),
    ],
)
def test_of_each_kind_the_best_that_runs_well_is_recommended(store: Store, this: Machine, names: set[str]) -> None:
    assert {row.name for row in catalogue.list_models(store, this) if row.recommended} == names


def test_models_that_people_look_for_come_first_and_the_recommended_before_all(store: Store) -> None:
    rows = catalogue.list_models(store, machine())
    found = list(group_models(rows, (), "", ""))
    titles = [title.rpartition(" · ")[0] for title, _ in found]
    assert titles[0] == "Here" and titles[2:4] == ["Catalogue, chat", "Catalogue, code"]
    assert titles[-1].startswith("Catalogue, English text")
    assert [found[place][1][0].recommended for place in (2, 3)] == [True, True]
    assert {row.kind for row in rows if row.state == "absent"} == KINDS.keys()  # or some would not be listed
    (left,) = [row.name for _, models in group_models(rows, (), "recommended code", "") for row in models]
    assert left == "qwen2.5-coder-1.5b"
