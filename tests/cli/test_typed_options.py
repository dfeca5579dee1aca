"""Options as they are typed: nothing of what was written is lost, guessed or done unasked."""

from pathlib import Path

import pytest

from chatapp.cli.arguments import Parser, add_generation, read_options
from chatapp.commands import parameters
from chatapp.generation import OptionError, Options
from chatapp.settings import presets
from chatapp.tui.sampling.fields import bias_from_lines, bias_to_lines
from chatapp.tui.sampling.preset_picker import PresetPicker
from chatapp.tui.sampling.system_prompt_screen import SystemPromptScreen
from support.checkpoints import Run
from support.screen_driver import running
from support.scripted_engine import ScriptedEngine


def test_a_tab_in_a_stop_text_is_written_as_in_the_drawer() -> None:
    assert parameters.read_parameter("stop", r'"a\tb\n" "\"\\t"') == ("stop", ("a\tb\n", '"\\t'))


def test_the_order_and_the_texts_of_sampling_are_read() -> None:
    parser = Parser(prog="run")
    add_generation(parser, temperature="0.8", max_tokens="256")
    parser.set_defaults(think=None)
    words = ["--sampler-order", "min-p,temperature", "--dry-breaker", "", "--dry-whole-words", "--bad-word", "very"]
    found = read_options(parser.parse_args(words))
    assert found == {
        "sampler_order": ("min_p", "temperature"),
        "dry_breakers": (),
        "dry_whole_words": True,
        "bad_words": ["very"],
    }
    parser.set_defaults(tools=["calc"])  # names of servers, and not what a model may call
    assert "tools" not in read_options(parser.parse_args(["-n", "2"]))
    with pytest.raises(OptionError, match="sampler_order must be made of temperature"):
        read_options(parser.parse_args(["--sampler-order", "top_q"]))
    for typed, value in [
        ("dry_whole_words true", True),
        ('dry_breakers ":"', (":",)),
        ("bad_words none", ()),
        ("sampler_order min_p, xtc", ("min_p", "xtc")),
    ]:
        name, _, given = typed.partition(" ")
        assert parameters.read_parameter(name, given) == (name, value)


def test_no_name_is_broken_on_the_help_page(chatapp: Run) -> None:
    said = " ".join(chatapp("run", "--help").stdout.split())
    assert "(default: temperature, top_k, top_p, min_p, typical_p, top_n_sigma, xtc)" in said


@pytest.mark.parametrize("bias", [0.123456789, -1e-7, 3.0, 12345678.25])
def test_an_editor_keeps_every_digit_of_a_bias(bias: float) -> None:
    assert bias_from_lines(bias_to_lines({5: bias})) == {5: bias}


def test_a_token_has_one_bias() -> None:
    with pytest.raises(OptionError, match="line 3 repeats token 11"):
        bias_from_lines("11=1\n12=1\n11=2")


def test_a_preset_is_known_by_the_name_that_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "presets.toml"
    path.write_text('["my  own"]\ntop_k = 3\n')
    assert list(presets.read_own(path)) == ["my own"]
    presets.delete(path, "my own")
    assert presets.read_own(path) == {}


async def test_ctrl_s_takes_the_name_that_it_asked_for(tmp_path: Path) -> None:
    async with running(ScriptedEngine()) as driver:
        screen = SystemPromptScreen(tmp_path, "Be kind.")
        await driver.app.push_screen(screen)
        await driver.press("ctrl+s", *"mine", "ctrl+s")
        await driver.until(lambda: (tmp_path / "mine.md").exists(), "the file")


async def test_a_delete_that_was_not_confirmed_confirms_no_replacement(tmp_path: Path) -> None:
    path = tmp_path / "presets.toml"
    presets.save(path, "mine", {"top_k": 1})
    async with running(ScriptedEngine()) as driver:
        picker = PresetPicker(path, Options(), {"top_k": 7})
        await driver.app.push_screen(picker)
        await driver.press("end", "d", "s", *"mine", "enter")
        assert presets.read_own(path)["mine"].options == {"top_k": 1}
        assert "press enter again to replace it" in driver.picture
