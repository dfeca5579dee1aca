"""Scenes: what is done on each screen before its picture is taken."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from chatapp.commands.commands import PRESETS
from chatapp.history import Conversation, History, Message
from chatapp.models import catalogue
from chatapp.models import facts as model_facts
from chatapp.models.catalogue import ListedModel, Machine
from chatapp.models.facts import Details
from chatapp.models.jobs import Jobs
from chatapp.models.suggestion import Offer
from chatapp.tui.answers.comparison import ComparisonScreen
from chatapp.tui.chat.message import Answer, Said
from chatapp.tui.engines import Choice
from chatapp.tui.models.asking import Asking, pull_question, removal_question
from chatapp.tui.models.screen import ModelsScreen
from chatapp.tui.models.sections import Catalogue
from chatapp.tui.widgets.windows import NoteScreen
from chatapp.workspace import Opened
from support.screen_driver import Driver
from support.scripted_engine import ANSWER, ScriptedEngine

GB = 1_000_000_000
THIS = Machine(16 * GB, 200 * GB, 20.0 * GB, backends=2, versions={})
QUESTION = "why is decoding slower?"
PLAN = {
    "model": "smollm2-360m-instruct",
    "repository": "HuggingFaceTB/SmolLM2-360M-Instruct",
    "commit": "a10cc1512eabd3dde888204e902eca88bddb4951",
    "licence": "apache-2.0",
    "files": [{"name": "model.safetensors", "size": 723_674_912}, {"name": "tokenizer.json", "size": 2_104_556}],
    "size": 725_779_468,
    "there": 0,
    "family": "llama",
    "parameters": 361_821_120,
    "export": None,
    "precision": "int8",
    "precision_reason": "small enough for this machine, and close to the published weights",
    "disk_needed": 1_130_000_000,
    "disk_free": 200_000_000_000,
    "memory_needed": 690_000_000,
    "memory": 16_000_000_000,
    "tokens_per_second": 41.0,
    "problems": [],
}


# Completion


async def first(driver: Driver) -> None:
    await driver.until(lambda: driver.pane.heading.about)


async def begun(driver: Driver) -> None:
    await driver.press("tab")
    await driver.until(lambda: driver.pane.heading.used, "the text to be measured")
    await driver.press("ctrl+j")


async def streaming(driver: Driver) -> None:
    await begun(driver)
    await driver.wrote(40)


async def stopped(driver: Driver) -> None:
    await streaming(driver)
    await driver.press("escape")
    await driver.until(lambda: not driver.writing)


async def finished(driver: Driver) -> None:
    await begun(driver)
    await driver.answered()


async def refused(driver: Driver) -> None:
    await begun(driver)
    await driver.until(lambda: "too long by" in driver.picture)


async def offered(driver: Driver) -> None:
    driver.screen.offer_line.offer = Offer(
        "chat", ("smollm2-360m-instruct",), "Want to chat?", "downloads smollm2-360m-instruct (724 MB)"
    )


# Chat


async def asked(driver: Driver, text: str = QUESTION, answers: int = 1) -> None:
    await driver.type(f"{text}\n")
    await driver.until(lambda: len(driver.said) >= 2 * answers and not driver.writing)


async def versions(driver: Driver) -> None:
    await asked(driver)
    await driver.press("ctrl+r")
    await driver.until(lambda: "‹ 2 / 2 ›" in driver.picture and not driver.writing)
    driver.pane.query(Answer).last().focus()


async def columns(driver: Driver) -> None:
    await driver.type(QUESTION)
    await driver.pane.several(3)
    await driver.until(lambda: driver.state == "● done")


async def waiting(driver: Driver) -> None:
    await driver.type(QUESTION)
    await driver.until(lambda: driver.pane.heading.used, "its tokens, counted a moment after typing")
    await driver.press("enter")
    await driver.wrote(20)
    await driver.type("and prefill?\n")
    await driver.until(lambda: "Waiting" in driver.picture)


async def editing(driver: Driver) -> None:
    await asked(driver)
    driver.pane.query(Said).first().focus()
    await driver.press("e")


async def left_out(driver: Driver) -> None:
    assert driver.pane.dialogue
    driver.pane.dialogue.change(replace(driver.pane.dialogue.setup, when_full="slide"))
    for n in range(1, 5):
        await asked(driver, f"question {n}", n)
    await driver.until(lambda: driver.pane.heading.left_out)


async def sidebar(driver: Driver) -> None:
    await driver.until(lambda: driver.said)
    await driver.press("ctrl+b")
    await driver.until(lambda: "Yesterday" in driver.picture)


async def search(driver: Driver) -> None:
    await driver.until(lambda: driver.said)
    await driver.press("f3", *"memory")
    await driver.until(lambda: "matches" in driver.picture or "1 match" in driver.picture)


async def heat(driver: Driver) -> None:
    await asked(driver)
    await driver.press("ctrl+t")
    await driver.until(lambda: len(driver.app.screen_stack) > 1)


async def latencies(driver: Driver) -> None:
    await asked(driver)
    await driver.press("ctrl+l")
    await driver.until(lambda: len(driver.app.screen_stack) > 1)


async def sampling(driver: Driver) -> None:
    await asked(driver)
    await driver.type("and now?")
    await driver.press("ctrl+s")
    await driver.until(lambda: "word" in driver.picture, "the preview")


async def presets(driver: Driver) -> None:
    await asked(driver)
    await driver.type("and now?")
    driver.screen.action_over(PRESETS)
    await driver.until(lambda: len(driver.app.screen_stack) > 1)


async def system(driver: Driver) -> None:
    driver.screen.action_over("sampling.system_prompt_screen:SystemPromptScreen")
    await driver.until(lambda: len(driver.app.screen_stack) > 1)


async def slash(driver: Driver) -> None:
    await driver.type("/s")
    await driver.until(lambda: "/set" in driver.picture)


async def attachments(driver: Driver) -> None:
    folder = driver.screen.workspace.home / "project"
    for name in ("server.py", "client.py", "notes/plan.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("def serve():\n    return 1\n" * 20)
    driver.pane.prompt.root = folder
    await driver.type("compare @")
    await driver.until(lambda: "client.py" in driver.picture)


async def note(driver: Driver) -> None:
    await driver.type("/?\n")
    await driver.until(lambda: isinstance(driver.app.screen, NoteScreen))


async def jump(driver: Driver) -> None:
    await asked(driver)
    await driver.press("f6")


# Elsewhere


async def models(driver: Driver) -> None:
    store = driver.screen.workspace.open_store()
    rows = catalogue.list_models(store, THIS)

    def details(row: ListedModel) -> Details:
        found = model_facts.read_details(store, row, THIS)
        return replace(found, facts=tuple(fact for fact in found.facts if fact.label != "checkpoint"))  # a path here

    shown = Catalogue(
        machine=lambda: THIS,
        rows=lambda: rows,
        details=details,
        freed=lambda row: 0,
    )
    jobs = Jobs(lambda job: None, path=driver.screen.workspace.home / "jobs.json")
    screen = ModelsScreen(shown, jobs, current="builtin")
    await driver.app.push_screen(screen)
    await driver.until(lambda: screen.row)


async def plan(driver: Driver) -> None:
    await driver.app.push_screen(Asking(pull_question(PLAN, driver.app.size.width), "pull"))


async def removal(driver: Driver) -> None:
    await driver.app.push_screen(Asking(removal_question("smollm2-360m-instruct", 385_000_000), "remove"))


async def keys(driver: Driver) -> None:
    await driver.press("f1")
    await driver.until(lambda: len(driver.app.screen_stack) > 1)


async def palette(driver: Driver) -> None:
    await driver.press("ctrl+p", *"conv")
    await driver.until(lambda: "New conversation" in driver.picture)


async def colours(driver: Driver) -> None:
    await driver.press("f2")
    await driver.until(lambda: len(driver.app.screen_stack) > 1)


def comparison() -> ComparisonScreen:
    def open_model(choice: Choice, *tell: object) -> Opened:
        return Opened(ScriptedEngine(), choice.model, 25_300_000, 0.3)

    chosen = (Choice("builtin", "onnx"), Choice("builtin", "openvino"))
    return ComparisonScreen(["builtin", "other"], ["onnx", "openvino"], open_model, prompt="def f():", chosen=chosen)


async def compare_form(driver: Driver) -> None:
    await driver.app.push_screen(comparison())


async def compared(driver: Driver) -> None:
    screen = comparison()
    await driver.app.push_screen(screen)
    await driver.press("f5")
    await driver.until(lambda: screen.columns and "equal" in driver.picture)


@dataclass
class Scene:
    """What is pictured."""

    play: Callable[[Driver], Awaitable[None]]
    engine: Callable[[], ScriptedEngine] = ScriptedEngine
    stored: bool = False


def chatty(**how: object) -> Callable[[], ScriptedEngine]:
    return lambda: ScriptedEngine(ANSWER, can_chat=True, **how)  # type: ignore[arg-type]


SCENES = {
    "first": Scene(first),
    "streaming": Scene(streaming, lambda: ScriptedEngine(pause_after=40)),
    "stopped": Scene(stopped, lambda: ScriptedEngine(pause_after=40)),
    "finished": Scene(finished),
    "refused": Scene(refused, lambda: ScriptedEngine(context_length=3)),
    "context-full": Scene(finished, lambda: ScriptedEngine(context_length=60)),
    "offer": Scene(offered),
    "chat": Scene(asked, chatty()),
    "versions": Scene(versions, chatty()),
    "waiting": Scene(waiting, chatty(pause_after=20)),
    "editing": Scene(editing, chatty()),
    "left-out": Scene(left_out, lambda: ScriptedEngine("An answer of some length.", can_chat=True, context_length=30)),
    "sidebar": Scene(sidebar, chatty(), stored=True),
    "search": Scene(search, chatty(), stored=True),
    "columns": Scene(
        columns, chatty(texts=("One of the answers.", ANSWER, "Another one, and it is the last of them."))
    ),
    "heat": Scene(heat, chatty()),
    "latencies": Scene(latencies, chatty()),
    "sampling": Scene(sampling, chatty()),
    "presets": Scene(presets, chatty()),
    "system": Scene(system, chatty()),
    "slash": Scene(slash, chatty()),
    "attachments": Scene(attachments, chatty()),
    "note": Scene(note, chatty()),
    "jump": Scene(jump, chatty()),
    "models": Scene(models),
    "plan": Scene(plan),
    "removal": Scene(removal),
    "help": Scene(keys),
    "palette": Scene(palette),
    "theme": Scene(colours),
    "comparison": Scene(compare_form),
    "compared": Scene(compared),
}


def remember(path: Path) -> None:
    """Conversations of several days."""
    today = datetime.now().replace(hour=14, minute=3)
    stored = {"Why is decoding slow?": today.timestamp(), "KV cache maths": (today - timedelta(1)).timestamp()}
    stored |= {"Rust and C++": 1_710_000_000.0, "A haiku on fans": 1_709_035_200.0}
    with History(path) as history:
        for title, when in stored.items():
            messages = [
                Message(1, 0, None, "user", title, when),
                Message(2, 0, 1, "assistant", "The memory is what **limits** it.", when, finish_reason="stop"),
            ]
            history.restore(Conversation(0, title, "chat", "chatty", when, when, 2, 2), messages)
