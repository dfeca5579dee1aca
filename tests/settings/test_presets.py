"""Presets and system prompts on the disk: what is kept, what is refused, and that nothing of the user's is lost."""

import math
import os
import stat
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from chatapp.generation import Options
from chatapp.generation.options import KNOBS
from chatapp.settings import presets, system_prompts, toml_files
from chatapp.settings.presets import PresetError
from chatapp.settings.system_prompts import SystemPromptError
from chatapp.text.errors import InputError, one_line
from chatapp.text.files import write_whole

needs_permissions = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="who may do everything is refused nothing"
)
EVERYTHING: dict[str, Any] = {
    "temperature": 1e-4,
    "top_k": 0,
    "top_p": 0.5,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "presence_penalty": -0.5,
    "frequency_penalty": 2.0,
    "logit_bias": {17: -math.inf, 4: 1.5},
    "stop": ('"""', "\n\n", "\x7f", "né 🙂 \\"),
    "max_tokens": 100,
    "seed": 2**64 - 1,
    "dry_breakers": ("\n", "\x00", "\x85", "\u2028"),
    "dry_whole_words": True,
    "bad_words": ("'", "\r\n"),
    "sampler_order": ("top_p", "temperature"),
    "num_beams": 4,
    "num_beam_groups": 2,
    "length_penalty": 1e-7,
    "diversity_penalty": 1e2,
    "early_stopping": "never",
    "beam_sampling": False,
    "tools": (),
    "speculate": False,
    "json_schema": '{"type": "object"}',
    "json_object": True,
    "regex": r"\d+\"\t",
    "grammar": 'start: "a"\n\tb: /[^"]/ # end\n',
    "choice": ("yes", "[no]", "#"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "presets.toml"


# Presets


def test_built_in_presets_are_options_and_say_what_they_are_for(path: Path) -> None:
    found = presets.read(path)
    assert list(found) == ["default", "precise", "balanced", "creative", "code", "greedy"]
    for preset in found.values():
        assert preset.built_in and Options(**preset.options)
    assert not path.parent.exists()


def test_every_option_survives_the_file(path: Path) -> None:
    assert {each.name for each in fields(Options)} - presets.NOT_IN_PRESETS - KNOBS.keys() <= EVERYTHING.keys()
    presets.save(path, "  all   of them ", EVERYTHING | {"n": 3, "logprobs": 5})
    preset = presets.find(path, "all of them")
    assert preset.options == EVERYTHING
    assert not preset.built_in


@pytest.mark.parametrize("name", ['with "quotes"', "a.b", "日本", "[x]", "back\\slash", "#"])
def test_any_printable_name_survives_the_file(path: Path, name: str) -> None:
    presets.save(path, name, {"temperature": 0.5})
    assert presets.read_own(path)[name].options == {"temperature": 0.5}


@pytest.mark.parametrize("name", ["", "  ", "x" * 31, "a\x1bb", "a\u202eb"])
def test_names_that_cannot_be_shown_are_refused(path: Path, name: str) -> None:
    with pytest.raises(PresetError, match="a name of 1 to 30 characters"):
        presets.save(path, name, {})
    assert not path.exists()


def test_presets_are_replaced_renamed_and_deleted(path: Path) -> None:
    presets.save(path, "one", {"top_k": 1})
    presets.save(path, "two", {"top_k": 2})
    presets.save(path, "one", {"top_k": 3})
    presets.rename(path, "one", "three")
    assert {name: dict(preset.options) for name, preset in presets.read_own(path).items()} == {
        "three": {"top_k": 3},
        "two": {"top_k": 2},
    }
    presets.delete(path, "two")
    assert list(presets.read_own(path)) == ["three"]


def test_a_name_that_is_taken_is_not_overwritten_by_renaming(path: Path) -> None:
    presets.save(path, "one", {"top_k": 1})
    presets.save(path, "two", {"top_k": 2})
    for taken in "two", "code":
        with pytest.raises(PresetError, match=f"preset '{taken}' already exists"):
            presets.rename(path, "one", taken)
    assert list(presets.read_own(path)) == ["one", "two"]


def test_a_preset_of_the_user_hides_a_built_in_one_until_it_is_deleted(path: Path) -> None:
    presets.save(path, "code", {"temperature": 0.05})
    assert presets.find(path, "code").options == {"temperature": 0.05}
    presets.delete(path, "code")
    assert presets.find(path, "code").built_in
    with pytest.raises(PresetError, match="'code' is built in and cannot be changed"):
        presets.delete(path, "code")
    with pytest.raises(PresetError, match="'code' is built in and cannot be changed"):
        presets.rename(path, "code", "mine")


def test_applying_a_preset_keeps_what_it_does_not_speak_of(path: Path) -> None:
    chosen = {"temperature": 1.5, "top_p": 0.2, "max_tokens": 9, "stop": ("x",), "n": 2}
    assert presets.find(path, "greedy").over(chosen) == {
        "temperature": 0.0,
        "repetition_penalty": 1.0,
        "max_tokens": 9,
        "stop": ("x",),
        "n": 2,
    }
    assert presets.find(path, "default").over(chosen) == {"max_tokens": 9, "stop": ("x",), "n": 2}


def test_an_unknown_preset_is_told_with_the_nearest(path: Path) -> None:
    with pytest.raises(PresetError, match="unknown preset 'creativ'; did you mean creative"):
        presets.find(path, "creativ")
    with pytest.raises(PresetError, match="unknown preset 'xyz'; choose from default, precise"):
        presets.find(path, "xyz")
    with pytest.raises(PresetError, match="unknown preset 'xyz'$"):
        presets.delete(path, "xyz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[a]\ntemperature = hot", "correct or delete the file"),
        ("[a]\ntemprature = 1.0", "unknown option 'temprature' in the preset 'a'; did you mean temperature"),
        ("[a]\nn = 2", "unknown option 'n' in the preset 'a'"),
        ("[a]\ntemperature = -1", "'a' has a wrong value: temperature must be 0 \\(greedy\\) or from"),
        ("[a]\ntop_k = true", "top_k must be a whole number"),
        ('[a]\nstop = "x"', "stop of the preset 'a' must be a list of texts"),
        ("[a]\nstop = [1]", "stop must be a list of non-empty texts"),
        ("[a]\nlogit_bias = { x = 1 }", "logit_bias of the preset 'a' must be like"),
        ("[a]\nlogit_bias = 3", "logit_bias of the preset 'a' must be like"),
        ('[a]\nlogit_bias = { 3 = "x" }', "logit_bias must be numbers below infinity"),
        ("temperature = 1.0", "'temperature' is not a preset; put options below a line such as"),
        ("[' ']", "a preset needs a name"),
        ("[a]\ntemperature = '\udcff'", "cannot read the presets"),
    ],
)
def test_a_bad_file_is_refused_clearly_and_never_overwritten(path: Path, content: str, message: str) -> None:
    path.parent.mkdir()
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    before = path.read_bytes()
    for act in presets.read, lambda path: presets.save(path, "b", {}), lambda path: presets.delete(path, "a"):
        with pytest.raises(PresetError, match=message) as caught:
            act(path)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", [True, False, "never"])
def test_options_that_are_switched_survive_the_file(path: Path, value: bool | str) -> None:
    presets.save(path, "mine", {"early_stopping": value})
    assert presets.find(path, "mine").options == {"early_stopping": value}


def test_what_could_not_be_read_again_is_not_saved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    presets.save(path, "mine", {"top_k": 1})
    with pytest.raises(PresetError, match="they would exceed 1 MB; delete some"):
        presets.save(path, "large", {"grammar": "x" * 2**20})
    monkeypatch.setattr(toml_files, "write_value", repr)
    with pytest.raises(PresetError, match="they could not be read again"):
        presets.save(path, "other", {"json_object": True})
    assert list(presets.read_own(path)) == ["mine"]


def test_wrong_options_are_not_saved(path: Path) -> None:
    with pytest.raises(PresetError, match="top_p must be above 0"):
        presets.save(path, "a", {"top_p": 0.0})
    assert not path.exists()


def test_a_home_that_is_no_folder_is_told(path: Path) -> None:
    path.parent.touch()
    assert presets.read_own(path) == {}
    with pytest.raises(PresetError, match=f"cannot write the presets to {path}: "):
        presets.save(path, "b", {})


@needs_permissions
def test_a_folder_that_cannot_be_written_to_is_told(path: Path) -> None:
    presets.save(path, "a", {"top_k": 1})
    path.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(PresetError, match=f"cannot write the presets to {path}: Permission denied"):
            presets.save(path, "b", {})
    finally:
        path.parent.chmod(stat.S_IRWXU)
    assert list(presets.read_own(path)) == ["a"]


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "after" * 10_000 + "\ud800")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are the Unix way")
def test_presets_behind_a_link_stay_there_and_as_private_as_they_were(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.touch(0o600)
    path.parent.mkdir()
    path.symlink_to(real)
    presets.save(path, "mine", {"top_k": 1})
    assert path.is_symlink() and list(presets.read_own(path)) == ["mine"]
    assert real.stat().st_mode & 0o777 == 0o600


def test_the_errors_are_for_the_user() -> None:
    assert one_line(PresetError("a\nb")) == "a b"
    assert issubclass(SystemPromptError, InputError)


# System prompts


def test_the_library_begins_with_built_in_prompts(tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    found = system_prompts.entries(folder)
    assert [entry.name for entry in found] == ["concise", "programmer", "reviewer", "teacher", "translator"]
    assert all(entry.built_in and system_prompts.read(folder, entry.name) for entry in found)
    assert not folder.exists()


def test_a_prompt_is_a_text_file_that_people_may_edit(tmp_path: Path) -> None:
    assert system_prompts.save(tmp_path, " my  own ", "\nBe kind.\n\n") == "my own"
    file = tmp_path / "my own.md"
    assert file.read_text(encoding="utf-8") == "Be kind.\n"
    file.write_bytes("\ufeffSei freundlich.\r\nSei kürzer.\r\n".encode())
    assert system_prompts.read(tmp_path, "my own") == "Sei freundlich.\nSei kürzer."
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden.md").touch()
    assert [entry.name for entry in system_prompts.entries(tmp_path) if not entry.built_in] == ["my own"]


def test_a_file_hides_the_built_in_prompt_of_its_name_until_it_is_deleted(tmp_path: Path) -> None:
    system_prompts.save(tmp_path, "teacher", "Be brief.")
    assert system_prompts.read(tmp_path, "teacher") == "Be brief."
    assert not next(entry for entry in system_prompts.entries(tmp_path) if entry.name == "teacher").built_in
    system_prompts.delete(tmp_path, "teacher")
    assert system_prompts.read(tmp_path, "teacher") == system_prompts.BUILT_IN["teacher"]
    with pytest.raises(SystemPromptError, match="'teacher' is built in and cannot be changed"):
        system_prompts.delete(tmp_path, "teacher")


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "..\\x", "/etc/x", "a/b", "a\\b", "C:x", "a:b", ".x", "-x", "x.", "x ", "NUL", "com1.x",
     "a\x00b", "a\nb", "x" * 51, "a\u202eb", "~", "$HOME", "*"],
)  # fmt: skip
def test_names_that_could_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "prompts"
    for act in system_prompts.read, system_prompts.delete:
        with pytest.raises(SystemPromptError, match="is not a name for a system prompt"):
            act(folder, name)
    if " ".join(name.split()) == name:
        with pytest.raises(SystemPromptError, match="is not a name for a system prompt"):
            system_prompts.save(folder, name, "text")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "7", "v1.2", "C++", "größer", "日本語", "a b-c_d", "x" * 50, "comrade"])
def test_ordinary_names_are_taken(tmp_path: Path, name: str) -> None:
    system_prompts.save(tmp_path, name, "text")
    assert system_prompts.read(tmp_path, name) == "text"


def test_what_cannot_be_a_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemPromptError, match="is empty; write one"):
        system_prompts.save(tmp_path, "a", " \n")
    with pytest.raises(SystemPromptError, match="larger than 256 kB"):
        system_prompts.save(tmp_path, "a", "x" * (system_prompts.LIMIT + 1))
    with pytest.raises(SystemPromptError, match="cannot write the system prompt"):
        system_prompts.save(tmp_path, "a", "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_prompts_are_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "large.md").write_bytes(b"x" * (system_prompts.LIMIT + 1))
    (tmp_path / "latin.md").write_bytes(b"gr\xf6\xdfer")
    (tmp_path / "folder.md").mkdir()
    for name, message in {"large": "larger than 256 kB", "latin": "not UTF-8", "folder": "cannot read"}.items():
        with pytest.raises(SystemPromptError, match=message):
            system_prompts.read(tmp_path, name)
    with pytest.raises(SystemPromptError, match="cannot delete"):
        system_prompts.delete(tmp_path, "folder")
    with pytest.raises(SystemPromptError, match="unknown system prompt 'x'$"):
        system_prompts.delete(tmp_path, "x")
    (tmp_path / "file").touch()
    assert system_prompts.entries(tmp_path / "file") == system_prompts.entries(tmp_path / "nowhere")


@needs_permissions
def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    try:
        with pytest.raises(SystemPromptError, match="cannot read the system prompts in .*: Permission denied"):
            system_prompts.entries(tmp_path)
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_name_behind_an_at_sign_is_looked_up(tmp_path: Path) -> None:
    assert system_prompts.resolve(tmp_path, "Be kind.") == "Be kind."
    assert system_prompts.resolve(tmp_path, "@concise") == system_prompts.BUILT_IN["concise"]
    with pytest.raises(SystemPromptError, match="did you mean teacher"):
        system_prompts.resolve(tmp_path, "@techer")
