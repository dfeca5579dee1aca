"""One prompt for several models: what happens in which order, and what is said about it."""

import gc
import weakref
from collections.abc import Callable, Generator, Sequence

import pytest

from chatapp.evaluation import compare
from chatapp.evaluation.compare import (
    Ended,
    Failed,
    Opened,
    Question,
    Result,
    Runner,
    Wrote,
    answer_in_turn,
    answer_one_by_one,
)
from chatapp.generation import Delta, Options, Reply, Token
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from chatapp.workspace import Workspace
from model_store import StoreError
from support.checkpoints import HERE
from support.scripted_engine import FIBONACCI, Placement, ScriptedEngine, pieces, summary

Draw = Callable[[Sequence[Runner], Question], Generator[compare.Event, None, None]]
QUESTION = Question("def f():", max_tokens=8)


def runner(engine: ScriptedEngine, name: str = "scripted", model: str = "scripted") -> Runner:
    return Runner(name, model, lambda: engine)


def kinds(events: list[compare.Event]) -> list[str]:
    """What happened to which of them, without the text."""
    return [f"{type(event).__name__} {event.index}" for event in events if not isinstance(event, Wrote)]


def written(events: list[compare.Event], index: int) -> str:
    return "".join(event.delta.text for event in events if isinstance(event, Wrote) and event.index == index)


def result(
    name: str = "a", *, model: str = "m", text: str = "abc", seconds: float = 0.01, tokens: int = 3, first: int = 0
) -> Result:
    said = [Token(first + place, "", None, (), seconds) for place in range(tokens)]
    usage = summary(4, [seconds] * (tokens - 1))
    return Result(name, model, Reply(text, tokens=said, finish_reason="stop", usage=usage))


def test_one_begins_when_the_one_before_has_ended() -> None:
    first, second = ScriptedEngine("a b c"), ScriptedEngine("d e f", placement=Placement("openvino"))
    events = list(answer_one_by_one([runner(first), runner(second)], QUESTION))
    assert kinds(events) == ["Opened 0", "Ended 0", "Opened 1", "Ended 1"]
    assert [event.placement for event in events if isinstance(event, Opened)] == [
        "onnx · cpu · int8",
        "openvino · cpu · int8",
    ]
    assert (written(events, 0), written(events, 1)) == ("a b c", "d e f")
    assert [event.result.text for event in events if isinstance(event, Ended)] == ["a b c", "d e f"]


def test_an_engine_is_let_go_before_the_next_is_opened() -> None:
    opened: list[weakref.ref[ScriptedEngine]] = []
    alive: list[int] = []

    def open_next() -> ScriptedEngine:
        alive.append(sum(engine() is not None for engine in opened))
        engine = ScriptedEngine()
        opened.append(weakref.ref(engine))
        return engine

    gc.disable()  # it must not take a collection to free them
    try:
        for _ in answer_one_by_one([Runner("a", "a", open_next)] * 3, QUESTION):
            pass
    finally:
        gc.enable()
    assert alive == [0, 0, 0]


def test_in_turn_they_write_a_token_each() -> None:
    engines = [ScriptedEngine("a b c"), ScriptedEngine("d e f g")]
    events = list(answer_in_turn([runner(engine) for engine in engines], QUESTION))
    assert [event.index for event in events if isinstance(event, Wrote)] == [0, 1, 0, 1, 0, 1, 1]
    assert kinds(events) == ["Opened 0", "Opened 1", "Ended 0", "Ended 1"]


@pytest.mark.parametrize("draw", [answer_one_by_one, answer_in_turn])
def test_one_that_fails_does_not_end_the_others(draw: Draw) -> None:
    def missing() -> ScriptedEngine:
        raise StoreError("there is no model 'x'")

    runners = [Runner("x", "x", missing), runner(ScriptedEngine(fail_after=2)), runner(ScriptedEngine("a b"))]
    events = list(draw(runners, QUESTION))
    failed = {event.index: event.error for event in events if isinstance(event, Failed)}
    assert failed == {0: "there is no model 'x'", 1: "RuntimeError: the runtime broke"}
    assert written(events, 1) == "".join(pieces(FIBONACCI)[:2])
    assert [event.result.text for event in events if isinstance(event, Ended)] == ["a b"]


@pytest.mark.parametrize("draw", [answer_one_by_one, answer_in_turn])
def test_closing_leaves_every_engine_free_and_opens_no_more(
    draw: Draw,
) -> None:
    engines = [ScriptedEngine(), ScriptedEngine()]
    events = draw([runner(engine) for engine in engines], QUESTION)
    for event in events:
        if isinstance(event, Wrote):
            break
    assert engines[0].busy
    events.close()
    assert not any(engine.busy for engine in engines)
    assert [len(engine.asked) for engine in engines] == [2, 0]


def test_they_are_asked_greedily_with_what_else_their_publishers_recommend() -> None:
    engine = ScriptedEngine(defaults=Options(temperature=0.6, repetition_penalty=1.1))
    list(answer_one_by_one([runner(engine)], QUESTION))
    assert engine.options[-1] == Options(temperature=0, repetition_penalty=1.1, max_tokens=8, seed=0, logprobs=0)


def test_each_reads_the_prompt_once_before_it_is_timed() -> None:
    engine = ScriptedEngine("a b c")
    events = list(answer_one_by_one([runner(engine)], QUESTION))
    assert engine.asked == ["def f():", "def f():"]
    assert written(events, 0) == "a b c"


def test_a_model_with_a_chat_template_answers_and_another_continues() -> None:
    chatty, base = ScriptedEngine(can_chat=True), ScriptedEngine()
    list(answer_one_by_one([runner(chatty), runner(base)], Question("Why?", system="Be brief.")))
    assert chatty.asked[-1] == "Be brief.\nWhy?"
    assert base.asked[-1] == "Why?"


def test_the_verdict_names_the_fastest_and_the_second() -> None:
    results = [result("a", seconds=0.02), result("b", seconds=0.01), result("c", seconds=0.04)]
    assert compare.describe_outcome(results) == [
        "b writes 2.00 times as fast as a.",
        "The texts of all 3 are equal: 3 tokens.",
    ]


def test_nearly_equal_speeds_name_no_winner() -> None:
    results = [result("a", seconds=0.0100), result("b", seconds=0.0102)]
    assert compare.describe_pace(results) == ["a and b write equally fast, within 3 %."]


def test_a_single_token_says_nothing_about_speed() -> None:
    assert compare.describe_pace([result("a", tokens=1), result("b")]) == []
    assert " –  " in compare.format_figures([result("a", tokens=1)])


def test_one_that_is_left_is_not_compared() -> None:
    assert compare.describe_outcome([result()]) == []


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (result(tokens=3), result(tokens=3), "The texts of both are equal: 3 tokens."),
        (result(text="abc"), result(text="abcd", tokens=4), "The texts of both are equal for 3 of 4 tokens."),
        (
            result(text="abc"),
            result(text="xyz", first=9),
            "The texts differ from the first token on.",
        ),
        (result(model="m"), result(model="n", tokens=9), "The texts of both are equal: 3 characters."),
        (
            result(model="m", text="abX"),
            result(model="n", text="abcd"),
            "The texts of both are equal for 2 of 4 characters.",
        ),
        (result(model="m"), result(model="n", text="xyz"), "The texts differ from the first character on."),
        (result(model="m", text=""), result(model="n", text=""), "The texts of both are equal: 0 characters."),
    ],
)
def test_the_verdict_tells_how_far_texts_are_equal(one: Result, other: Result, said: str) -> None:
    assert compare.describe_likeness([one, other]) == said


def test_the_figures_are_a_table() -> None:
    assert compare.format_figures([result("builtin on onnx", seconds=0.0125), result("b")]).splitlines() == [
        "                 first token  tok/s  p95      tokens  loaded in  runs on",
        "builtin on onnx  33.7 ms      80.0   12.5 ms  3       310 ms     onnx · cpu · int8",
        "b                33.7 ms      100    10.0 ms  3       310 ms     onnx · cpu · int8",
    ]


@pytest.mark.skipif("openvino" not in HERE, reason="OpenVINO is not for this machine")
def test_the_builtin_model_writes_the_same_on_two_backends() -> None:
    store = Workspace().open_store()

    def on(backend: str) -> Runner:
        return Runner(
            f"builtin on {backend}",
            "builtin",
            lambda: open_engine(store, "builtin", PlacementOptions(backend, precision="f32")),
        )

    question = Question("def fibonacci(n):", max_tokens=24)
    events = list(answer_one_by_one([on("onnx"), on("openvino")], question))
    results = [event.result for event in events if isinstance(event, Ended)]
    assert [one.placement for one in results] == ["onnx · cpu · f32", "openvino · cpu · f32"]
    first, second = (one.usage.completion_tokens for one in results)
    assert first == second > 8
    assert compare.describe_likeness(results) == f"The texts of both are equal: {first} tokens."
    deltas: list[Delta] = [event.delta for event in events if isinstance(event, Wrote)]
    tokens = [token for delta in deltas for token in delta.tokens]
    assert all(token.logprob is not None and token.logprob <= 0 for token in tokens)
    assert not any(token.alternatives for token in tokens)  # these would slow greedy steps
