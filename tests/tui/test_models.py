"""The models screen: with real rows, real processes, and the hub of this machine."""

import sys
from pathlib import Path
from threading import Event

import pytest
from textual import events

from chatapp.tui.models.asking import pull_question
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.loopback_hub import LoopbackHub
from support.models_page import NOTHING, running
from support.pulls import stalled

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


@pytest.fixture
def smollm(loopback: LoopbackHub, checkpoint: MakeCheckpoint) -> LoopbackHub:
    """The hub with a tiny stand-in for a chat model of the catalogue."""
    loopback.publish("HuggingFaceTB/SmolLM2-135M-Instruct", checkpoint("published", chats=True))
    return loopback


SMOLLM = "smollm2-135m-instruct"


# Pulling


async def test_a_model_is_planned_pulled_with_progress_and_used(home: Path, smollm: LoopbackHub) -> None:
    smollm.fault("safetensors", after=2, rate=400_000, last=(seen := Event()))
    async with running(home) as driver:
        await driver.find(SMOLLM)
        await driver.press("p")
        asked = await driver.asked()
        for words in (f"Pull {SMOLLM}?", "licence    mit", "model.safetensors (", "GB free", "It fits this machine."):
            assert words in asked
        await driver.press("y")
        await driver.until(lambda: " %" in driver.shown(SMOLLM) and "B/s" in driver.shown(SMOLLM), "progress")
        seen.set()
        await driver.until(lambda: (row := driver.models.row) and row.state == "here", "the model to be here")
        assert driver.models.row and driver.models.row.name == SMOLLM
        assert driver.lines[1] == " Here · 2"
        await driver.press("enter")
        await driver.until(lambda: driver.app.chosen == SMOLLM)


async def test_no_is_the_way_out_of_a_question(home: Path, smollm: LoopbackHub) -> None:
    async with running(home) as driver:
        await driver.find(SMOLLM)
        await driver.press("enter")
        await driver.asked()
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen is driver.models)
        assert [job.kind for job in driver.app.jobs.all()] == ["plan"]


@UNIX
async def test_a_pull_is_cancelled_and_resumed_while_another_waits(
    home: Path, smollm: LoopbackHub, checkpoint: MakeCheckpoint
) -> None:
    folder = checkpoint("second", chats=True)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-4:] = bytes(4)  # of the same content, the store would fetch only one
    (folder / "model.safetensors").write_bytes(weights)
    smollm.publish("HuggingFaceTB/SmolLM2-360M-Instruct", folder)
    smollm.fault("135M.*safetensors", after=1, stall=200_000, delay=1000)
    second = "smollm2-360m-instruct"
    async with running(home, size=(80, 24)) as driver:
        driver.app.jobs.add("pull", SMOLLM)
        driver.app.jobs.add("pull", second)
        await driver.find(second)
        await driver.until(lambda: "queued: pull" in driver.shown(second))
        assert "cancel" in driver.keys and "resume" not in driver.keys
        await driver.find(SMOLLM)
        await driver.until(lambda: stalled(home) and "↓" in driver.shown(SMOLLM))
        await driver.press("c")
        await driver.until(lambda: (row := driver.models.row) and row.state == "stopped", "the pull to stop")
        await driver.until(lambda: "stopped at" in driver.shown(SMOLLM) and "resume" in driver.keys)
        assert {"pull", "remove"} <= driver.keys and not {"begin('verify')", "begin('bench')", "cancel"} & driver.keys
        await driver.press("r")
        await driver.until(lambda: all(job.ended for job in driver.app.jobs.all()), "both pulls")
        await driver.until(lambda: {SMOLLM, second} <= {row.name for row in driver.models.rows if row.state == "here"})
        assert smollm.asked("135M.*safetensors")[-1].range == "bytes=200000-"


async def test_a_failure_is_a_line_in_the_list_and_all_of_it_in_the_page(home: Path, loopback: LoopbackHub) -> None:
    async with running(home) as driver:
        await driver.find("gemma-3-1b-it")
        await driver.press("p")
        await driver.until(lambda: "✗" in driver.shown("gemma-3-1b-it"), "the failure")
        (job,) = driver.app.jobs.all()
        assert len(job.result) > 30
        assert f"✗ plan: {job.result}" in driver.page.replace("\n", " ").replace("  ", " ")
        assert "resume" in driver.keys
        await driver.press("r")
        await driver.until(lambda: len(driver.app.jobs.all()) == 2)


async def test_what_does_not_fit_is_pulled_only_when_that_is_said(
    home: Path, loopback: LoopbackHub, checkpoint: MakeCheckpoint
) -> None:
    huge = dict(num_hidden_layers=4_000, num_attention_heads=1024, num_key_value_heads=1024, head_dim=64)
    loopback.publish("HuggingFaceTB/SmolLM2-135M-Instruct", checkpoint("huge", **huge))
    async with running(home) as driver:
        await driver.find(SMOLLM)
        await driver.press("p")
        asked = await driver.asked()
        assert "It does not fit: " in asked and "GB of memory needed" in asked
        await driver.press("y")
        await driver.until(lambda: len(driver.app.jobs.all()) == 2)
        assert driver.app.jobs.all()[-1].options == ("--force",)


@pytest.mark.parametrize("key", ["p", "enter"])
async def test_offline_no_process_is_started(home: Path, loopback: LoopbackHub, key: str) -> None:
    async with running(home, offline="--offline or CHATAPP_OFFLINE") as driver:
        await driver.find(SMOLLM)
        await driver.press(key)
        await driver.until(lambda: driver.toasts)
        assert driver.toasts == ["pull needs the network, and --offline or CHATAPP_OFFLINE forbids it."]
        await driver.press("s")
        assert not driver.models.entry.typing and len(driver.toasts) == 2
        assert not driver.app.jobs.all()


# Finding


async def test_the_hub_is_asked_only_when_the_user_says_so(
    home: Path, loopback: LoopbackHub, checkpoint: MakeCheckpoint
) -> None:
    loopback.publish("org/tiny", checkpoint("published", chats=True))
    async with running(home) as driver:
        await driver.press("slash", *"tiny", "enter", "escape")
        assert not loopback.requests
        await driver.press("s", *"tiny", "enter")
        await driver.until(lambda: driver.shown("org--tiny"), "the search")
        assert any("On the Hub, 'tiny' · 1" in text for text in driver.lines)
        await driver.press("home", "tab")
        await driver.until(lambda: (row := driver.models.row) and row.source == "org/tiny")
        await driver.press("p")
        assert "Pull org--tiny?" in await driver.asked()


async def test_the_filter_narrows_as_it_is_typed_and_escape_takes_it_back(home: Path) -> None:
    async with running(home) as driver:
        every = len(driver.models.listing.rows)
        await driver.press("slash", *"thinks q")
        await driver.until(lambda: driver.models.wanted == "thinks q")
        assert {row.name for row in driver.models.listing.rows if not isinstance(row, str)} == {
            "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b"
        }  # fmt: skip
        await driver.press("down")
        assert driver.models.row and driver.models.row.name == "qwen3-1.7b" and driver.models.entry.typing
        await driver.press("escape")
        await driver.until(lambda: len(driver.models.listing.rows) == every)
        assert driver.models.row.name == "qwen3-1.7b" and driver.app.chosen == NOTHING
        await driver.press("slash", *"zzz", "enter")
        assert driver.models.row is None and driver.page == ""
        await driver.press("p", "x", "v", "enter", "escape", "escape")
        await driver.until(lambda: driver.app.chosen is None)
        assert not driver.app.jobs.all()


async def test_keys_that_come_in_a_burst_go_where_they_belong(home: Path) -> None:
    async with running(home) as driver:
        for key in ("slash", *"smollm2", "enter"):
            driver.app.post_message(events.Key(key, "/" if key == "slash" else key if len(key) == 1 else None))
        await driver.until(lambda: driver.models.wanted == "smollm2" and not driver.models.entry.typing)
        assert driver.models.row and driver.models.row.name == SMOLLM
        assert driver.app.chosen == NOTHING and not driver.app.jobs.all()


# What is done with a model that is here


async def test_a_model_is_verified_timed_and_removed(home: Path, checkpoint: MakeCheckpoint) -> None:
    name = Store(home / "models").get(str(checkpoint(chats=True))).name
    async with running(home, size=(80, 24)) as driver:
        await driver.find(name)
        await driver.press("v")
        await driver.until(lambda: driver.shown(name).startswith(" ✓ "), "the badge")
        assert "its logits agree with those of" in driver.page
        await driver.press("b")
        await driver.until(lambda: "tokens/s" in driver.page and "first token of 1024" in driver.page, "the figures")
        await driver.press("x")
        asked = await driver.asked()
        assert f"Remove {name}?" in asked and "This frees " in asked
        await driver.press("y")
        await driver.until(lambda: not driver.shown(name), "the model to go")
        assert driver.models.row is not None


async def test_the_built_in_model_and_the_one_in_use_stay(home: Path, checkpoint: MakeCheckpoint) -> None:
    name = Store(home / "models").get(str(checkpoint())).name
    async with running(home, current=name) as driver:
        assert "in use" in driver.shown(name)
        await driver.press("home", "x")
        assert driver.toasts == ["The built-in model is part of chatapp and cannot be removed."]
        await driver.find(name)
        await driver.press("x")
        assert driver.toasts[-1] == f"{name} is in use; use another model first."
        assert not driver.app.jobs.all()


async def test_the_page_tells_all_and_can_have_the_whole_screen(home: Path) -> None:
    async with running(home, size=(80, 24)) as driver:
        await driver.until(lambda: "runs here" in driver.page or "checkpoint" in driver.page, "the details")
        assert "int8 with a scale for each row" in " ".join(driver.page.split())
        await driver.press("i")
        assert driver.models.detail.size.height > 18 and driver.models.detail.has_focus
        await driver.press("escape")
        assert driver.models.listing.has_focus and driver.app.chosen == NOTHING


async def test_ctrl_c_copies_what_is_selected_of_the_page_and_else_goes_back(home: Path) -> None:
    async with running(home) as driver:
        await driver.until(lambda: "this machine" in driver.page)
        page = driver.models.detail.page
        page.text_select_all()
        await driver.press("ctrl+c")
        assert "this machine" in driver.app.clipboard and driver.app.chosen == NOTHING
        await driver.press("ctrl+c")
        assert driver.app.chosen is None


async def test_a_store_that_cannot_be_read_is_told(home: Path) -> None:
    (home / "models").mkdir(parents=True)
    async with running(home) as driver:
        (home / "models").rename(home / "elsewhere")
        (home / "models").symlink_to(home / "models")
        driver.models.look()
        await driver.until(lambda: driver.toasts, "the error")
        assert "models" in driver.toasts[0] and driver.shown("builtin")


def test_the_plan_of_an_export_says_what_it_was_exported_for() -> None:
    plan = {"files": [], "there": 0, "repository": "org/tiny", "commit": "0" * 40, "licence": "mit", "size": 5}
    plan |= {"family": "llama", "parameters": None, "export": "onnx", "precision": "f32", "precision_reason": "its own"}
    plan |= {"disk_needed": 5, "disk_free": 9, "memory_needed": 5, "memory": 9, "tokens_per_second": 1.0}
    plan |= {"model": "tiny", "problems": []}
    assert "llama, exported for onnx" in " ".join(pull_question(plan, 80).plain.split())
