"""The command line: one function per command, everything heavy imported inside."""

import io
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatapp.cli import arguments
from chatapp.settings import offline
from chatapp.text.errors import one_line
from chatapp.text.printable import printable

if TYPE_CHECKING:
    from backends import Placement
    from chatapp.cli.printing import Form
    from chatapp.generation import Engine
    from chatapp.placement.selection import PlacementOptions
    from model_store import Progress, Store

ENOUGH = 256
"""Tokens by which a model without a chat template continues a prompt: few such models end by themselves."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows another
    try:
        given = arguments.parse(sys.argv[1:] if argv is None else argv)
        if given.offline or offline.wanted():
            offline.enforce()
        code = COMMANDS[given.command](given)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever reads has seen enough; what is buffered must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from chatapp.generation import OptionError

        if not (message := one_line(error)):
            raise
        print(f"Error: {printable(message)}", file=sys.stderr)
        return 2 if isinstance(error, OptionError) else 1


def chat(given: Namespace) -> int:
    """Open the screen, or talk in plain lines."""
    from chatapp.cli import chat as chatting
    from chatapp.conversation import manner

    model = given.model if given.command else given.screen_model
    return chatting.chat(model, manner.read(given.preset, given.system, given.think), plain=given.plain)


def run(given: Namespace) -> int:
    """Answer one prompt, or talk line by line."""
    from chatapp.cli import inputs
    from chatapp.cli import run as running
    from chatapp.conversation import manner

    wanted = manner.read(given.preset, given.system)
    chosen = {**wanted.options, **chosen_options(given)}
    prompt = given.prompt
    if prompt == "-" or (prompt is None and not sys.stdin.isatty()):
        prompt = inputs.read_text("-").removesuffix("\n")
    if prompt is not None:
        inputs.check_prompt(prompt)
    past = running.past(given.session, last=given.resume)
    model = given.model or (past.conversation.model if past else "")
    engine = open_model(given, model)

    from dataclasses import replace
    from functools import partial

    from chatapp.conversation import Setup
    from chatapp.conversation.talk import Talk

    manner.check_thinking(engine, model, chosen)
    options = replace(engine.defaults, **chosen)
    if options.max_tokens is None and not engine.can_chat:
        chosen["max_tokens"] = ENOUGH
    system = wanted.system or (Setup.of_json(past.conversation.setup).system if past else "")
    talk = Talk(engine, Setup(store().get(model).name, chosen, running.fitting(engine, model, system)), n=options.n)
    return running.run(
        talk,
        partial(open_model, given),
        prompt,
        wish=wish_of(given),
        past=past,
        keeping=not given.no_history,
        form=form_of(given),
    )


def complete(given: Namespace) -> int:
    """Fill in code at a place in a file."""
    from chatapp.cli import complete as completing
    from chatapp.cli import inputs
    from chatapp.completion.offers import Request
    from chatapp.settings import settings

    chosen = chosen_options(given)
    name = "standard input" if given.file == "-" else given.file
    prefix, suffix = completing.split_at(inputs.read_text(given.file), given.at, name)
    request = Request(
        prefix,
        suffix,
        chosen,
        lines=given.lines,
        recalling=not given.no_recall,
        pick_temperature=given.temperature is None,
    )
    model = given.model or settings.read().model
    return completing.complete(request, lambda: open_model(given, model), form_of(given))


def pull(given: Namespace) -> int:
    """Fetch a model."""
    from chatapp.cli import pull as pulling

    manner = pulling.Manner(force=given.force, dry_run=given.dry_run, as_json=given.json)
    pulling.pull_model(store(), given.name, wish_of(given), manner, progress)
    return 0


def search(given: Namespace) -> int:
    """Find models to pull."""
    from chatapp.cli import search as searching

    searching.print_search(given.text, as_json=given.json)
    return 0


def login(given: Namespace) -> int:
    """Keep a token of the Hub."""
    from chatapp.cli import pull as pulling

    pulling.login()
    return 0


def show_list(given: Namespace) -> int:
    """List the models that are here."""
    from chatapp.cli import list

    if given.cache:
        list.print_cache(store(), as_json=given.json)
    else:
        models = store()
        list.print_models(models.list(), models.broken(), as_json=given.json)
    return 0


def import_model(given: Namespace) -> int:
    """Bring a model that is on this machine into the store."""
    from chatapp.cli import list
    from model_store.local import imports

    models = store()
    planned = imports.plan(models, given.source, name=given.name, copy=given.copy)
    if not given.dry_run:
        with progress(planned.model.name) as on_progress:
            imports.carry_out(models, planned, on_progress)
    list.print_import(planned, done=not given.dry_run, as_json=given.json)
    return 0


def show(given: Namespace) -> int:
    """Tell about a model."""
    from chatapp.cli import list

    list.print_model(store().get(given.model), as_json=given.json)
    return 0


def keep(given: Namespace) -> int:
    """Do one of the commands about what the store keeps."""
    from chatapp.cli import storage

    storage.COMMANDS[given.command](store(), given)
    return 0


def devices(given: Namespace) -> int:
    """List the backends and devices that are usable here."""
    from chatapp.cli import list

    list.print_devices(as_json=given.json)
    return 0


def bench(given: Namespace) -> int:
    """Time a model."""
    from chatapp.cli import progress as steps
    from chatapp.evaluation import bench
    from chatapp.placement import selection
    from chatapp.placement.opening import open_engine

    tokens = 0 if given.load else given.tokens
    if given.all_backends:
        rest = ["--load"] if given.load else ["--tokens", str(tokens)]
        rest += ["--precision", given.precision] if given.precision else []
        figures = bench.measure_each(given.model, selection.list_devices(), rest)
    else:
        models = store()

        def folder_of(place: "Placement") -> Path:
            return models.lowered(models.get(given.model), place.backend, place.precision).folder

        with steps.json_steps() if given.steps else progress(given.model) as on_progress:
            open_one = partial(open_engine, models, given.model, wish_of(given), on_fallback=warn)
            figures = [bench.measure(partial(open_one, on_progress=on_progress), folder_of, tokens, on_progress)]
    bench.print_figures(figures, "json" if given.json else "csv" if given.csv else "text")
    return 0


def why(given: Namespace) -> int:
    """Tell why a model runs where it does."""
    from chatapp.cli import list
    from chatapp.placement import measuring, selection

    models, wish = store(), wish_of(given)
    model = models.get(given.model)
    with progress(model.name) as on_progress:
        found, _ = measuring.measure_all(models, model, wish, anew=given.again, on_progress=on_progress)
    list.print_choice(model, selection.rank(found, wish.objective), found, wish.objective, as_json=given.json)
    return 0


def verify(given: Namespace) -> int:
    """Compare a model's logits with a reference."""
    import json
    from dataclasses import asdict

    from chatapp.cli.progress import json_steps
    from chatapp.evaluation.verify import reference_file, report, sources, verdict
    from chatapp.placement import selection

    models, wish = store(), wish_of(given)
    model = models.get(given.model)
    destination = reference_file.destination(given.write) if given.write else None
    with json_steps() if given.steps else progress(model.name) as on_progress:
        way = selection.expect(models, model, wish)
        reference = sources.reference(model, way.precision, given.against, on_progress=on_progress)
        if destination:
            reference_file.write(reference, model, destination)
        variant = models.lowered(model, way.backend, way.precision, on_progress)
        found = verdict.verify(models, model, variant, device=way.device, reference=reference, on_progress=on_progress)
    print(json.dumps(asdict(found), indent=2) if given.json else printable(report.describe(found)))
    return 0 if found.passed else 1


def sessions(given: Namespace) -> int:
    """Look after the conversations."""
    from chatapp.cli import sessions

    return sessions.run(given)


def version(given: Namespace) -> int:
    """Tell the versions of chatapp and of what it runs on."""
    from chatapp.cli import list

    list.print_versions()
    return 0


COMMANDS = {
    None: chat,
    "chat": chat,
    "run": run,
    "complete": complete,
    "pull": pull,
    "search": search,
    "login": login,
    "list": show_list,
    "ls": show_list,
    "import": import_model,
    "show": show,
    "rm": keep,
    "cp": keep,
    "du": keep,
    "gc": keep,
    "cache": keep,
    "devices": devices,
    "bench": bench,
    "why": why,
    "verify": verify,
    "sessions": sessions,
    "version": version,
}


def store() -> "Store":
    """The model store of this user."""
    from chatapp.workspace import open_store

    return open_store()


def open_model(given: Namespace, name: str) -> "Engine":
    """Load a model where and how the arguments say, telling how far it is if that takes long."""
    from chatapp.placement.opening import open_engine

    with progress(name) as on_progress:
        return open_engine(store(), name, wish_of(given), on_progress=on_progress, on_fallback=warn)


def wish_of(given: Namespace) -> "PlacementOptions":
    """What the arguments and the settings say about where a model runs."""
    from chatapp.placement.selection import PlacementOptions
    from chatapp.settings import settings

    chosen = settings.read()
    objective = given.objective or ("completion" if given.command == "complete" else chosen.objective)
    return PlacementOptions(given.backend or chosen.backend or None, given.device, given.precision, objective)


@contextmanager
def progress(name: str) -> "Iterator[Progress | None]":
    """What tells, in one line of a terminal, how far a step is; nothing elsewhere."""

    def show(step: str, share: float) -> None:
        sys.stderr.write(f"\r{printable(name)}: {step} {share:.0%}\x1b[K")
        sys.stderr.flush()

    watched = sys.stderr.isatty()
    try:
        yield show if watched else None
    finally:
        if watched:
            sys.stderr.write("\r\x1b[K")


def warn(reason: str) -> None:
    """Say that something did not go as it should, and goes on in another way."""
    sys.stdout.flush()
    print(f"Warning: {printable(reason)}; trying the next best", file=sys.stderr, flush=True)


def chosen_options(given: Namespace) -> dict[str, Any]:  # Any: each option has its own type, which Options checks
    """The options that were given, checked before a model is opened; those not given are the model's to choose."""
    from dataclasses import fields

    from chatapp.generation import Options

    chosen = {field.name: value for field in fields(Options) if (value := getattr(given, field.name)) is not None}
    if "logit_bias" in chosen:
        chosen["logit_bias"] = dict(chosen["logit_bias"])
    Options(**chosen)
    return chosen


def form_of(given: Namespace) -> "Form":
    """How the answer is to be printed."""
    from chatapp.cli.printing import Form

    return Form(
        json=given.json,
        raw=given.raw,
        logprobs=given.logprobs is not None,
        thinking=bool(given.think),
        stats=given.stats,
    )
