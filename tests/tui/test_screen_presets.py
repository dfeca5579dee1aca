"""The presets and the system prompts: keys in, what they end with out."""

from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, OptionList, TextArea

from chatapp.generation import Options
from chatapp.settings import presets, system_prompts
from chatapp.tui.sampling.lines_screen import LinesScreen
from chatapp.tui.sampling.preset_picker import PresetPicker
from chatapp.tui.sampling.system_prompt_screen import SystemPromptScreen
from support.sampling_page import DISTRIBUTION, opened
from support.typist import until

# Presets


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "presets.toml"


async def test_a_preset_is_chosen_seeing_what_it_changes(path: Path) -> None:
    screen = PresetPicker(path, Options(), {"top_p": 0.9, "max_tokens": 100}, look=DISTRIBUTION.under)
    async with opened(screen) as picked:
        assert picked.names == ["default", "precise", "balanced", "creative", "code", "greedy"]
        await picked.highlight("creative")
        shown = picked.text_of("#changes")
        for change in "0.80 → 1.10", "40 → off", "0.90 → off", "off → 0.05":
            assert change in shown
        assert "max_tokens" not in shown
        expected: dict[str, Any] = {
            "temperature": 1.1,
            "top_k": 0,
            "top_p": 1.0,
            "min_p": 0.05,
            "repetition_penalty": 1.05,
        }
        await until(lambda: screen.preview == DISTRIBUTION.under(Options(**expected)))
        assert "of 1,000 kept" in picked.text_of("#changes")
        await picked.press("enter")
        assert await picked.ended() == expected | {"max_tokens": 100}


async def test_only_what_differs_from_the_model_s_defaults_comes_back(path: Path) -> None:
    async with opened(PresetPicker(path, Options(temperature=0.0), {"top_k": 3})) as picked:
        await picked.highlight("greedy")
        assert "temperature" not in picked.text_of("#changes")
        await picked.press("enter")
        assert await picked.ended() == {}


async def test_leaving_chooses_nothing(path: Path) -> None:
    async with opened(PresetPicker(path, Options(), {})) as picked:
        assert "these options are in use" in picked.text_of("#changes")
        await picked.press("escape")
        assert await picked.ended() is None


async def test_the_options_are_saved_under_a_name_renamed_and_deleted(path: Path) -> None:
    async with opened(PresetPicker(path, Options(), {"top_k": 7})) as picked:
        await picked.press("s", *"mine", "enter")
        assert presets.read_own(path)["mine"].options == {"top_k": 7}
        assert picked.names[-1].split() == ["mine", "yours"]
        assert "these options are in use" in picked.text_of("#changes")
        await picked.press("r", "end", "2", "enter")
        assert list(presets.read_own(path)) == ["mine2"]
        await picked.press("d")
        assert "press d again to delete 'mine2'" in picked.text_of("#refusal")
        await picked.press("up", "down")
        assert picked.text_of("#refusal") == ""
        await picked.press("d", "d")
        assert presets.read_own(path) == {} and len(picked.names) == 6


@pytest.mark.parametrize("name", ["mine", "code"])
async def test_a_preset_of_the_same_name_is_replaced_only_when_asked_twice(path: Path, name: str) -> None:
    presets.save(path, "mine", {"top_k": 1})
    before = presets.read(path)[name]
    async with opened(PresetPicker(path, Options(), {"top_k": 7})) as picked:
        await picked.press("s", *name, "enter")
        assert f"The preset {name!r} exists: press enter again to replace it" in picked.text_of(".heading")
        assert presets.read(path)[name] == before
        await picked.press("enter")
        assert presets.read_own(path)[name].options == {"top_k": 7}


async def test_a_preset_s_name_is_refused_where_it_is_typed(path: Path) -> None:
    async with opened(PresetPicker(path, Options(), {})) as picked:
        await picked.press("s", "enter", *"x" * 31, "enter")
        assert "A preset needs a name of 1 to 30 characters" in picked.text_of(".heading")
        await picked.press("escape")
        assert picked.results == [] and not path.exists()
        await picked.highlight("code")
        await picked.press("r")
        assert "'code' is built in and cannot be changed" in picked.text_of("#refusal")
        await picked.press("d")
        assert "'code' is built in and cannot be changed" in picked.text_of("#refusal")


async def test_a_bad_file_of_presets_is_told_and_the_built_in_ones_are_there(path: Path) -> None:
    path.write_text("[mine]\ntop_k = many")
    async with opened(PresetPicker(path, Options(), {})) as picked:
        assert "cannot read the presets in" in picked.text_of("#refusal")
        assert len(picked.names) == 6
        await picked.press("s", "x", "enter")
        assert "correct or delete the file" in picked.text_of(".heading")
    assert path.read_text() == "[mine]\ntop_k = many"


# System prompts


async def test_a_system_prompt_is_chosen_by_name(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path)) as picked:
        assert picked.names == ["none", "concise", "programmer", "reviewer", "teacher", "translator"]
        await picked.press("down", "enter")
        assert await picked.ended() == system_prompts.BUILT_IN["concise"]


async def test_none_is_an_empty_text_and_leaving_is_no_choice(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path, system_prompts.BUILT_IN["teacher"])) as picked:
        assert picked.app.screen.query_one(OptionList).highlighted == picked.names.index("teacher")
        await picked.highlight("none")
        await picked.press("enter")
        assert await picked.ended() == ""
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        await picked.press("tab", "x", "escape")
        assert await picked.ended() is None


async def test_a_text_is_written_and_used_without_a_name(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path)) as picked:
        await picked.press("tab", *"Be kind", "enter", *"d.", "ctrl+j")
        assert await picked.ended() == "Be kind\nd."
    assert list(tmp_path.iterdir()) == []


async def test_undo_brings_back_what_choosing_a_name_replaced(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        area = picked.app.screen.query_one(TextArea)
        await picked.highlight("concise")
        assert area.text == system_prompts.BUILT_IN["concise"]
        area.focus()
        await picked.press("ctrl+z")
        assert area.text == "Be kind."


async def test_a_system_prompt_is_saved_replaced_and_deleted(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        await picked.press("ctrl+s", *"my own", "enter")
        assert (tmp_path / "my own.md").read_text() == "Be kind.\n"
        assert "my own" in picked.names[2] and picked.names[2].endswith("yours")
        await picked.highlight("teacher")
        await picked.press("ctrl+s", "enter")
        assert "The prompt 'teacher' exists: press enter again to replace it" in picked.text_of(".heading")
        await picked.press(*["backspace"] * 7, *"my own", "enter")
        assert "press enter again to replace it" in picked.text_of(".heading")
        assert (tmp_path / "my own.md").read_text() == "Be kind.\n"
        await picked.press("enter")
        assert (tmp_path / "my own.md").read_text().startswith("You are a patient teacher")
        await picked.highlight("my own")
        await picked.press("d")
        assert "press d again to delete 'my own'" in picked.text_of("#refusal")
        await picked.press("up", "down")
        assert (tmp_path / "my own.md").exists() and picked.text_of("#refusal") == ""
        await picked.press("d", "d")
        assert not (tmp_path / "my own.md").exists()
        assert "my own" not in picked.names


async def test_what_cannot_be_saved_or_deleted_is_told(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        await picked.press("ctrl+s", *"../x", "enter")
        assert "'../x' is not a name for a system prompt" in picked.text_of(".heading")
        assert picked.app.screen.query_one(Input).has_focus
        await picked.press("escape")
        await picked.highlight("concise")
        await picked.press("d")
        assert "'concise' is built in and cannot be changed" in picked.text_of("#refusal")
        await picked.highlight("none")
        await picked.press("d")
        assert picked.results == []
    assert list(tmp_path.iterdir()) == []


async def test_a_prompt_that_cannot_be_read_leaves_the_text_alone(tmp_path: Path) -> None:
    (tmp_path / "latin.md").write_bytes(b"gr\xf6\xdfer")
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        await picked.highlight("latin")
        assert "is not UTF-8 text" in picked.text_of("#refusal")
        assert picked.app.screen.query_one(TextArea).text == "Be kind."


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (200, 60)])
async def test_the_screens_fit_any_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    for screen in (
        PresetPicker(tmp_path / "p", Options(), {}),
        SystemPromptScreen(tmp_path),
        LinesScreen("", "", "", str),
    ):
        async with opened(screen, size) as picked:
            box = picked.app.screen.query_one("#box").region
            assert picked.app.screen.region.contains_region(box)
