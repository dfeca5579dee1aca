"""The parts of chatapp, as the name card and the bill of materials tell them."""

import json
from pathlib import Path

from chatapp.desktop.door import PAGE as FOLDER
from chatapp.text.about import PAGE, bill, list_parts, tell


def test_every_library_that_is_needed_is_a_part_and_no_tool_of_developers() -> None:
    names = {part.name.lower().replace("_", "-") for part in list_parts()}
    assert {"numpy", "onnxruntime", "textual", "tokenizers", "huggingface-hub", "httpcore2", "python"} <= names
    assert not names & {"chatapp", "pytest", "ruff", "mypy", "torch", "transformers", "pywebview"}


def test_what_only_packages_have_is_told_with_what_it_needs() -> None:
    more = {part.name for part in list_parts(["pytest"])} - {part.name for part in list_parts()}
    assert {"pytest", "pluggy"} <= more


def test_every_part_has_a_licence() -> None:
    assert not [part.name for part in list_parts() if not part.licence or part.licence == "see its files"]


def test_the_name_card_has_a_line_for_each() -> None:
    text = tell("1.2.3")
    assert text.startswith("chatapp 1.2.3, Apache-2.0\n")
    assert all(f"\n{part.name} " in text for part in list_parts())


def test_the_bill_names_each_once_by_a_package_url() -> None:
    told = json.loads(json.dumps(bill("1.2.3")))
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    references = [one["bom-ref"] for one in told["components"]]
    assert len(references) == len(set(references)) == len(list_parts())
    assert all(one.startswith("pkg:") for one in references)


def test_the_licences_of_the_page_are_in_the_package() -> None:
    text = (Path(FOLDER) / "LICENSES.txt").read_text("utf-8")
    for part in PAGE:
        assert part.version in text, part.name
