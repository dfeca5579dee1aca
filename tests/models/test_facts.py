"""The facts of models as every front lays them out."""

from typing import Any

import pytest

from chatapp.models.facts import Fact, describe_kind, describe_model, describe_plan, lay_out
from model_store import Store

FILES = [{"name": name, "size": size} for name, size in (("c", 1_000), ("a", 3_000), ("b", 2_000))]
PLAN: dict[str, Any] = {  # Any: JSON
    "commit": "0123456789abcdef",
    "licence": "mit",
    "size": 6_000,
    "there": 0,
    "family": "llama",
    "export": None,
    "parameters": 1_500_000_000,
    "precision": "int8",
    "precision_reason": "it is small",
    "disk_needed": 1,
    "disk_free": 2,
    "memory_needed": 3,
    "memory": 4,
    "tokens_per_second": 123.4,
    "files": FILES,
}


def test_values_stand_below_each_other_with_their_reasons() -> None:
    assert (
        lay_out([Fact("a", "1"), Fact("long", "2", "so it is"), Fact("", "3")])
        == "a     1\nlong  2 (so it is)\n      3"
    )


def test_what_a_model_is_says_the_same_wherever_it_is_asked(store: Store) -> None:
    model = store.get("builtin")
    every = list(describe_model(model))
    assert [fact.label for fact in describe_kind(model)] == ["family", "parameters", "context", "kind"]
    assert all(fact in every for fact in describe_kind(model))
    assert {fact.label for fact in every} >= {"name", "sampling", "precision", "checkpoint"}
    (sampling,) = (fact.value for fact in every if fact.label == "sampling")
    assert sampling.endswith(r'dry_breakers [], dry_whole_words true, stop ["\n\n\n"]')


@pytest.mark.parametrize(("files", "listed"), [(None, "a (3 kB), b (2 kB), c (1 kB)"), (1, "a (3 kB) and 2 smaller")])
def test_a_plan_names_its_largest_files_first(files: int | None, listed: str) -> None:
    facts = {fact.label: fact for fact in describe_plan(PLAN, "org/x", files)}
    assert facts["files"].value == f"6 kB: {listed}"
    assert facts["from"].value == "org/x at 0123456789ab" and str(facts["precision"]) == "int8 (it is small)"
    assert facts["speed"].value.startswith("about 120 tokens/s") and facts["model"].value == "llama, 1.5B parameters"
