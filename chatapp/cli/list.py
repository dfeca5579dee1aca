"""`chatapp list`: the models in the store, or in the Hub's cache."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json, warn
from chatapp.models.facts import gather_facts
from chatapp.text.printable import printable
from chatapp.text.units import count, size, table
from chatapp.workspace import Workspace
from model_store import Store, StoreError, Variant
from model_store.imports import plan
from model_store.local.other_apps import repositories

CACHE_FIELDS = ("name", "family", "parameters", "size", "why_not")


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("--cache", action="store_true", help="list the models in the Hugging Face cache instead")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> None:
    """Print one line per model."""
    (print_cache if given.cache else print_models)(Workspace().open_store(), as_json=given.json)


def print_models(store: Store, *, as_json: bool) -> None:
    """Print the models in the store; broken ones are warned about on standard error."""
    models, broken = store.survey()
    for name, problem in broken.items():
        warn(f"{name}: {problem}")
    if as_json:
        return print_json([gather_facts(model) for model in models])
    rows = [
        (
            model.name,
            model.family,
            count(model.parameters),
            f"{model.context_length:,}",
            "chat" if model.chats else "base",
            size(model.size + sum(variant.size for variant in model.variants)),
            ", ".join(f"{one.backend}-{one.precision}{describe_check(one)}" for one in model.variants) or "-",
        )
        for model in models
    ]
    print(table(("NAME", "FAMILY", "PARAMETERS", "CONTEXT", "KIND", "SIZE", "LOWERED"), rows))


def print_cache(store: Store, *, as_json: bool) -> None:
    """Print the models in the Hub's cache, and why some of them cannot run."""
    assert store.places
    found: list[tuple[str, str | None, int | None, int | None, str]] = []
    for name in repositories(store.places.hub_cache):
        try:
            model = plan(store, name).model
            found.append((name, model.family, model.parameters, model.size, ""))
        except StoreError as error:
            found.append((name, None, None, None, str(error)))
    if as_json:
        return print_json([dict(zip(CACHE_FIELDS, one, strict=True)) for one in found])
    if not found:
        return print(printable(f"No models in {store.places.hub_cache}."))
    rows = [
        (name, family or "-", count(parameters) if parameters else "-", size(held) if held else "-", why)
        for name, family, parameters, held, why in found
    ]
    print(table(("NAME", "FAMILY", "PARAMETERS", "SIZE", "WHY NOT"), rows))


def describe_check(variant: Variant) -> str:
    """Whether a variant was verified, in a word."""
    if not variant.verdicts:
        return ""
    return " (verified)" if all(verdict["passed"] for verdict in variant.verdicts.values()) else " (failed)"
