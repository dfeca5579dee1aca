"""What a reasoning model thinks: told apart from its answer, folded, switched, left out of what comes later."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatapp.cli import main
from chatapp.cli.printing import Form, Printout
from chatapp.conversation import Setup
from chatapp.conversation.setup import NO_SWITCH, tell_thinking
from chatapp.generation import Delta, GenerationError, Message, Options
from chatapp.generation.engine import Engine
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.thinking import EFFORTS, Channels, Parts, find_opening, find_switch, split
from chatapp.history import History, exports, imported, pages
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from chatapp.text.errors import InputError
from chatapp.tui.chat.message import Answer
from model_store import Store
from support.checkpoints import ROOT, MakeCheckpoint
from support.dialogues import Begin, chatty, heard
from support.line_view import Desk
from support.screen_driver import running
from support.scripted_engine import ScriptedEngine

REPLY = "<think>\nThey greet me.\nI greet back.\n</think>\n\nGood day to you"
QWEN = (ROOT / "tests" / "chat_templates" / "qwen3.jinja").read_text("utf-8")
EFFORT = "|{{ reasoning_effort if reasoning_effort is defined else 'none said' }}"
ALWAYS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}<|assistant|>{{ '<think>\\n' }}"
"""As DeepSeek R1 and Qwen3 Thinking: the prompt opens the thinking, and nothing switches it."""


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        (REPLY, Parts("They greet me.\nI greet back.", "Good day to you")),
        ("\n[THINK]a[/THINK]b", Parts("a", "b")),
        ("<think>cut off in the mid", Parts("cut off in the mid", "")),
        ("<think>\n\n</think>\n\nat once", Parts("", "at once")),
        ("<thin", Parts("", "<thin")),
        ("<b>bold</b>", Parts("", "<b>bold</b>")),
        ("Later <think>a</think>", Parts("", "Later <think>a</think>")),
        ("<think>a</think>b <think>c</think>", Parts("a", "b <think>c</think>")),
        ("<think>\na\n</think>\n<answer>\nb\n\n<c>\n</answer>", Parts("a", "b\n\n<c>")),
        ("<think>\n\n</think>\n<answer>\ncut off\n</ans", Parts("", "cut off\n</ans")),
        ("<think>a</think><ans", Parts("a", "<ans")),
        ("<think>a</think>\n<answers> b", Parts("a", "<answers> b")),
    ],
)
def test_thinking_and_answer_are_told_apart_however_the_reply_is_cut_up(reply: str, parts: Parts) -> None:
    assert split(reply) == parts
    for size in (1, 2, 3, 7, 100):
        channels = Channels()
        told = [part for at in range(0, len(reply), size) for part in channels.add(reply[at : at + size])]
        told += channels.flush()
        if "<answer>" not in reply:
            assert "".join(text for _, text in told) == reply
        assert "".join(text for channel, text in told if channel == "text") == parts.answer


def test_the_switch_is_found_in_the_code_of_a_template() -> None:
    assert find_switch(QWEN) == "enable_thinking"
    assert find_switch("{% if thinking is defined and thinking %}<think>{% endif %}") == "thinking"
    assert find_switch("{{ raise_exception('tags in the thinking field') }}") is None
    assert find_switch("{{ messages[0].content }} enable_thinking is a word {{ 'thinking' }} {{ m.thinking }}") is None


def test_the_mark_that_a_prompt_ends_with_is_found() -> None:
    assert find_opening("<|assistant|><think>\n") == "<think>\n"
    assert find_opening("<think>\n\n</think>\n\n") == find_opening("<|assistant|>") == ""


# The template


def template(folder: Path, source: str) -> ChatTemplate:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": source}))
    return ChatTemplate(folder)


def test_a_template_is_told_whether_to_think(tmp_path: Path) -> None:
    qwen = template(tmp_path / "qwen", QWEN)
    asked = [Message("user", "hi")]
    assert qwen.render(asked, think=False)[0].endswith("<think>\n\n</think>\n\n")
    assert qwen.render(asked, think=True) == qwen.render(asked)
    seed = template(tmp_path / "seed", "{% if not thinking_budget is defined %}any{% endif %}|{{ thinking_budget }}")
    assert [seed.render(asked, think=think)[0] for think in (None, True, False)] == ["any|", "|-1", "|0"]
    always = template(tmp_path / "always", ALWAYS)
    assert (always.switch, always.find_opening(), qwen.find_opening()) == (None, "<think>\n", "")
    with pytest.raises(GenerationError, match="always cannot turn thinking on or off"):
        always.render(asked, think=False)


def test_a_template_is_told_how_much_to_think(tmp_path: Path) -> None:
    asked = [Message("user", "hi")]
    qwen, both = template(tmp_path / "qwen", QWEN), template(tmp_path / "both", QWEN + EFFORT)
    assert qwen.thinking_choices == (False, True) and both.thinking_choices == (False, True, *EFFORTS)
    assert qwen.render(asked, think="low") == qwen.render(asked, think=True)  # it knows no more
    assert both.render(asked, think="low")[0].endswith("|low") and both.render(asked)[0].endswith("|none said")
    measured = template(tmp_path / "measured", "<|channel|>analysis" + EFFORT)
    assert measured.thinking_choices == EFFORTS
    assert measured.render(asked, think="high") == ["<|channel|>analysis|high"]
    for switched in True, False:
        with pytest.raises(GenerationError, match=r"measured .* has a choice of low, medium, high \(reasoning effort"):
            measured.render(asked, think=switched)
    assert template(tmp_path / "word", "{{ 'reasoning_effort' }} reasoning_effort").thinking_choices == ()


@pytest.fixture
def thinker(checkpoint: MakeCheckpoint, tmp_path: Path) -> Iterator[Engine]:
    """A tiny model whose template opens the thinking."""
    folder = checkpoint(chats=True)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": ALWAYS}))
    yield open_engine(Store(tmp_path / "store"), str(folder), PlacementOptions("onnx"))


def test_a_reply_whose_prompt_opens_the_thinking_says_so_itself(thinker: Engine) -> None:
    asked = [Message("user", "hello")]
    deltas = list(thinker.chat(asked, Options(seed=1, max_tokens=6)))
    assert "".join(delta.text for delta in deltas).startswith("<think>\n")
    assert {delta.channel for delta in deltas} == {"thinking"}
    tokens = [token.id for delta in deltas for token in delta.tokens]
    text = thinker.text_of(tokens)  # without a character that is cut in two
    assert "".join(delta.text for delta in deltas).startswith(text)
    more = list(thinker.chat(asked, Options(seed=1, max_tokens=3), begun=tokens[:3]))
    assert not "".join(delta.text for delta in more).startswith("<think>")
    assert {delta.channel for delta in more} == {"thinking"}
    assert "".join(token.text for token in thinker.tokens_of(text)) == text.removeprefix("<think>\n")


def test_later_turns_have_no_thinking_unless_the_template_sees_to_it(thinker: Engine) -> None:
    assert thinker.chat_template
    talk = [Message("user", "hello"), Message("assistant", REPLY), Message("user", "and?")]
    plain = [talk[0], Message("assistant", "Good day to you"), talk[2]]
    without = thinker.chat_template
    assert without.encode(talk, thinker.tokenizer) == without.encode(plain, thinker.tokenizer)


# Kept, exported, printed


def test_what_was_thought_is_kept_with_its_length_and_time_and_exported_apart(history: History, begin: Begin) -> None:
    dialogue = begin()
    heard(dialogue.ask(chatty(REPLY), "hello"))
    said = dialogue.branch()[-1]
    assert said.text == REPLY
    assert said.usage["thinking_tokens"] > 5 and said.usage["thinking_seconds"] > 0
    assert said.usage["thinking_tokens"] < said.usage["completion_tokens"]
    conversation, messages = history.get(1), history.messages(1)
    written = exports.as_json([(conversation, messages)])
    (facts,) = json.loads(written)["conversations"]
    assert facts["messages"][1]["text"] == "Good day to you"
    assert facts["messages"][1]["thinking"] == "They greet me.\nI greet back."
    (back,) = imported.read(written, "there.json").conversations
    assert [message.text for message in back.messages] == ["hello", REPLY]
    markdown = exports.as_markdown(conversation, messages)
    assert "> *Thinking*\n>\n> They greet me.\n> I greet back.\n\nGood day to you" in markdown
    page = pages.as_html([(conversation, messages)])
    assert "<details><summary>Thinking</summary>" in page and "think&gt;" not in page


def test_the_answer_goes_to_standard_output_and_the_thinking_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(form: Form) -> tuple[str, str]:
        engine = chatty(REPLY)
        with Printout(1, form) as printout:
            for delta in engine.chat([Message("user", "hi")], Options()):
                printout.add(delta)
        printout.finish(engine.last_usage)
        return tuple(capsys.readouterr())  # type: ignore[return-value]

    assert printed(Form()) == ("Good day to you\n", "")
    out, err = printed(Form(thinking=True))
    assert out == "Good day to you\n" and "I greet back." in err and "\x1b" not in err
    out, err = printed(Form(json=True))
    facts = json.loads(out)
    assert (facts["text"], facts["thinking"], err) == ("Good day to you", "They greet me.\nI greet back.", "")


# Switched


def test_thinking_is_switched_where_the_template_can_and_refused_where_not(begin: Begin) -> None:
    engine = chatty(REPLY, thinking_choices=(False, True))
    desk = Desk(engine, begin().setup)
    for line, on in (("/set nothink", False), ("/set think", True)):
        assert desk.do(line) == tell_thinking(on)
        desk.do("hello")
        assert engine.options[-1].think is on
    with pytest.raises(InputError, match="supports no thinking, think"):
        desk.do("/set think low")
    engine.thinking_choices = EFFORTS
    assert desk.do("/set think high") == "The model thinks with high effort."
    desk.do("hello")
    assert engine.options[-1].think == "high"
    with pytest.raises(InputError, match="supports low effort, medium effort, high effort"):
        desk.do("/set nothink")
    engine.thinking_choices = ()
    with pytest.raises(InputError, match=re.escape(NO_SWITCH.format("scripted"))):
        desk.do("/set nothink")
    with pytest.raises(InputError, match="unknown effort 'hard'; use /set think alone, or with low, medium, high"):
        desk.do("/set think hard")


@pytest.mark.parametrize("option", ["--think", "--no-think", "--reasoning-effort=low"])
def test_run_refuses_to_switch_what_has_no_switch(
    option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHATAPP_BACKEND", "onnx")
    assert main.main(["run", "builtin", "x = ", option]) == 1
    assert "builtin cannot turn thinking on or off: its chat template has no switch for it" in capsys.readouterr().err


def test_a_saved_setup_keeps_the_switch() -> None:
    for think in False, "low":
        setup = Setup("m", {"think": think})
        assert Setup.of_json(json.loads(json.dumps(setup.as_json()))).options == {"think": think}
    assert Setup.of_json({"options": {"think": 7}}).options == Setup.of_json({"options": {"think": "x"}}).options == {}


# On the screen


async def test_thinking_is_folded_live_opened_on_demand_and_not_copied() -> None:
    engine = ScriptedEngine(REPLY, can_chat=True, pause_after=6)
    async with running(engine, size=(100, 30)) as driver:
        await driver.type("hello\n")
        await driver.wrote(6)
        await driver.until(lambda: re.search(r"thinking for [\d.]+ m?s, \d tokens ▸", driver.picture))
        assert "They greet me" not in driver.picture and driver.state == "● thinking"
        engine.go.set()
        await driver.until(lambda: not driver.writing and "Good day to you" in driver.picture)
        await driver.until(lambda: re.search(r"thought for [\d.]+ m?s, \d+ tokens ▸", driver.picture))
        assert "<think>" not in driver.picture
        driver.pane.query(Answer).last().focus()
        await driver.press("enter")
        await driver.until(lambda: "I greet back." in driver.picture and "▾" in driver.picture)
        await driver.press("c")
        await driver.until(lambda: driver.app.clipboard)
        assert driver.app.clipboard == "Good day to you"


async def test_thinking_that_is_cut_off_stays_folded_and_goes_on(begin: Begin) -> None:
    engine = ScriptedEngine(REPLY, can_chat=True, pause_after=5)
    async with running(engine) as driver:
        await driver.type("hello\n")
        await driver.wrote(5)
        await driver.press("escape")
        engine.go.set()
        await driver.until(lambda: "F5 continues" in driver.picture and "thought for" in driver.picture)
        await driver.press("f5")
        await driver.until(lambda: not driver.writing and driver.said[-1] == ("assistant", REPLY))
        await driver.until(lambda: "Good day to you" in driver.picture)


def deltas_of(engine: ScriptedEngine) -> list[Delta]:
    return list(engine.chat([Message("user", "hi")], Options()))


def test_a_delta_has_one_channel() -> None:
    deltas = deltas_of(chatty(REPLY))
    assert split(REPLY).answer == "".join(delta.text for delta in deltas if delta.channel == "text")


async def test_columns_of_several_answers_show_no_thinking() -> None:
    async with running(ScriptedEngine(REPLY, can_chat=True), size=(120, 30)) as driver:
        await driver.type("hello")
        await driver.pane.several(2)
        await driver.until(lambda: not driver.writing and driver.picture.count("Good day to you") == 2)
        assert "greet" not in driver.picture and "think>" not in driver.picture
