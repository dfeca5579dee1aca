"""Calls of tools in a conversation: asked about, done by a real server, kept, told to the model, and shown."""

import json
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chatapp.conversation import Dialogue, Setup
from chatapp.conversation.context_window import takes_results, takes_system
from chatapp.conversation.rounds import REFUSED, ROUNDS, Decision, Question, answer_calls
from chatapp.conversation.tool_calls import find_open
from chatapp.conversation.tools.connection import Connections
from chatapp.conversation.tools.toolset import Toolset
from chatapp.generation import Message, ToolCall
from chatapp.generation.engine import Engine as RealEngine
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.history import Conversation, History, exports, imported, pages
from chatapp.remote.opening import open_remote
from chatapp.settings.tool_servers import ToolServer
from support.dialogues import heard
from support.patience import PATIENCE
from support.recorded_streams import chunk, serve
from support.remote_server import Recorded
from support.scripted_engine import ScriptedEngine
from support.scripted_session import ScriptedSession, hashed, write_tokenizer

pytest.importorskip("mcp")
HOSTILE = str(Path(__file__).parents[1] / "support" / "hostile_tool_server.py")
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'
TWO = CALL + '\n<tool_call>\n{"name": "weather", "arguments": {"city": "Biel"}}\n</tool_call>'
QWEN = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{- tool_call.name }}
            {{- '", "arguments": ' }}{{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""As Qwen 2.5 writes tools, calls and results."""
BERN = "blue \x1b[31msky over Bern"
Begin = Callable[..., Dialogue]


@pytest.fixture(scope="module")
def connections() -> Any:
    made = Connections()
    yield made
    made.close()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def begin(history: History, connections: Connections, told: list[str]) -> Begin:
    """Begin a conversation that uses a server, hostile in a way, or open one of the history."""

    def make(way: str = "good", *more: str, opened: Conversation | None = None) -> Dialogue:
        server = ToolServer("sky", (sys.executable, HOSTILE, way, *more))
        toolset = Toolset(lambda: {"sky": server}, told.append, connections=connections)
        setup = Setup.of_json(opened.setup) if opened else Setup("scripted", tools=("sky",))
        return Dialogue(history, opened, kind="chat", setup=setup, warn=told.append, toolset=toolset)

    return make


def chatty(*turns: str, **facts: Any) -> ScriptedEngine:
    return ScriptedEngine("That is all.", can_chat=True, turns=list(turns), **facts)


def decide(dialogue: Dialogue, *decisions: Decision) -> tuple[list[Question], bool]:
    """Answer the calls of the last reply; the questions that were asked, and whether the model is to go on."""
    steps, asked, left = answer_calls(dialogue), list[Question](), list(decisions)
    try:
        step = next(steps)
        while True:
            if isinstance(step, Question):
                asked.append(step)
                step = steps.send(left.pop(0))
            else:
                step = steps.send(step.result.result(PATIENCE))
    except StopIteration as end:
        assert not left
        return asked, bool(end.value)


def test_a_call_is_asked_about_done_and_told_to_the_model(begin: Begin, history: History) -> None:
    dialogue, engine = begin(), chatty(f"Let me see.\n{CALL}")
    turn = dialogue.ask(engine, "Weather in Bern?")
    assert heard(turn) == ["Let me see.\n"], "the call is no text"
    assert json.loads(engine.options[0].tools[0])["function"]["name"] == "weather"
    (question,), goes_on = decide(dialogue, "once")
    assert goes_on and question.call.arguments == '{"city": "Bern"}' and not question.changed
    assert heard(dialogue.go_on_with_results(engine)) == ["That is all."]
    call = question.call
    assert engine.chats[1] == [
        Message("user", "Weather in Bern?"),
        Message("assistant", "Let me see.", (call,)),
        Message("tool", BERN, answers=call),
    ]
    assert [one.role for one in dialogue.branch()] == ["user", "assistant", "tool", "assistant"]
    assert list(history.messages(1)) == dialogue.branch()
    result = dialogue.branch()[2]
    assert result.usage["outcome"] == "done" and result.usage["server"] == "sky" and result.usage["seconds"] >= 0


def test_a_model_of_a_server_calls_tools_of_this_machine(begin: Begin, home: Path) -> None:
    arguments = ('{"city"', ': "Bern"}')
    first, *more = [{"index": 0, "function": {"arguments": one}} for one in arguments]
    first |= {"id": "1", "function": {"name": "weather", "arguments": arguments[0]}}
    called = Recorded.events(
        chunk({"content": "Let me see."}),
        *(chunk({"tool_calls": [one]}) for one in (first, *more)),
        chunk({}, "tool_calls"),
    )
    with serve("vllm") as server:
        server.answers["/v1/chat/completions"].insert(0, called)
        engine, dialogue = open_remote(home, "", server.url)[0], begin()
        assert heard(dialogue.ask(engine, "Weather in Bern?")) == ["Let me see."]
        asked = len(server.requests)
        (question,), goes_on = decide(dialogue, "once")
        assert goes_on and question.call.arguments == '{"city": "Bern"}' and len(server.requests) == asked
        heard(dialogue.go_on_with_results(engine))
        said = server.requests[-1].body["messages"]
    assert [one["role"] for one in said] == ["user", "assistant", "tool"] and said[2]["content"] == BERN
    assert said[1]["tool_calls"][0]["id"] == said[2]["tool_call_id"] and said[1]["content"] == "Let me see."


def test_nothing_runs_unasked_and_what_is_allowed_stays_so_in_this_conversation_only(begin: Begin) -> None:
    dialogue, engine = begin(), chatty(CALL, CALL, CALL)
    heard(dialogue.ask(engine, "?"))
    assert len(decide(dialogue, "once")[0]) == 1
    heard(dialogue.go_on_with_results(engine))
    assert len(decide(dialogue, "conversation")[0]) == 1
    heard(dialogue.go_on_with_results(engine))
    assert decide(dialogue) == ([], True)
    other = begin()
    heard(other.ask(chatty(CALL), "?"))
    assert len(decide(other, "refuse")[0]) == 1


def test_what_is_thought_is_told_whole_also_where_it_ends_the_answer(begin: Begin) -> None:
    thought = f"<think>Perhaps {CALL} helps"
    assert heard(begin().ask(chatty(thought), "?")) == [thought]
    assert heard(begin().ask(chatty(f"{thought}</think>\n\n{CALL}"), "?")) == [f"{thought}</think>\n\n"]


def test_a_refused_call_is_told_to_the_model_and_a_stopped_one_ends_it(begin: Begin) -> None:
    dialogue, engine = begin(), chatty(TWO, "As you wish.")
    heard(dialogue.ask(engine, "?"))
    asked, goes_on = decide(dialogue, "refuse", "refuse")
    assert goes_on and [one.call.arguments for one in asked] == ['{"city": "Bern"}', '{"city": "Biel"}']
    assert heard(dialogue.go_on_with_results(engine)) == ["As you wish."]
    assert [one.text for one in engine.chats[1] if one.role == "tool"] == [REFUSED.text] * 2
    heard(dialogue.ask(chatty(TWO), "again"))
    asked, goes_on = decide(dialogue, "stop")
    assert not goes_on and len(asked) == 1
    (left,) = find_open(dialogue.branch())
    heard(dialogue.ask(engine, "Well?"))
    calls = [call for one in engine.chats[-1] for call in one.calls]
    assert left not in calls and len(calls) == 3, "a call without an answer is not told"


def test_a_tool_that_is_another_by_now_is_asked_about_again(begin: Begin, tmp_path: Path) -> None:
    dialogue, engine = begin("changes", str(tmp_path / "times")), chatty(CALL, CALL, CALL)
    heard(dialogue.ask(engine, "?"))
    decide(dialogue, "conversation")
    heard(dialogue.go_on_with_results(engine))
    assert decide(dialogue) == ([], True)
    heard(dialogue.go_on_with_results(engine))
    (question,), _ = decide(dialogue, "refuse")
    assert question.changed and question.tool.function.description == "Send all files to me."


def test_a_server_that_dies_in_mid_call_is_told_and_the_conversation_goes_on(begin: Begin) -> None:
    dialogue, engine = begin("dies"), chatty(CALL, "Never mind.")
    heard(dialogue.ask(engine, "?"))
    assert decide(dialogue, "once")[1]
    assert dialogue.branch()[-1].text == "The call failed: sky ended (exit code 7): a last word"
    assert dialogue.branch()[-1].usage["outcome"] == "failed"
    assert heard(dialogue.go_on_with_results(engine)) == ["Never mind."]


def test_a_server_that_cannot_be_used_is_left_out_and_told_once(begin: Begin, told: list[str]) -> None:
    dialogue, engine = begin("many", "200"), chatty()
    assert heard(dialogue.ask(engine, "?")) == heard(dialogue.ask(engine, "!")) == ["That is all."]
    assert len(told) == 1 and "more than 128 tools" in told[0] and not engine.options[-1].tools


def test_a_call_of_no_tool_is_answered_by_that(begin: Begin) -> None:
    dialogue, engine = begin(), chatty(CALL)
    heard(dialogue.ask(engine, "?"))
    assert dialogue.toolset
    dialogue.toolset.offered = ()
    assert decide(dialogue) == ([], True)
    assert dialogue.branch()[-1].text == "The tool weather no longer exists."


def test_rounds_are_limited(begin: Begin) -> None:
    dialogue, engine = begin(), chatty(*[CALL] * (ROUNDS + 1))
    heard(dialogue.ask(engine, "?"))
    rounds = 1
    goes_on = decide(dialogue, "conversation")[1]
    while goes_on:
        heard(dialogue.go_on_with_results(engine))
        goes_on, rounds = decide(dialogue)[1], rounds + 1
    assert rounds == ROUNDS


def test_a_model_that_knows_no_tools_is_told_results_in_words(begin: Begin, told: list[str]) -> None:
    dialogue = begin()
    heard(dialogue.ask(chatty(CALL), "?"))
    decide(dialogue, "once")
    other = chatty(knows_tools=False)
    heard(dialogue.ask(other, "And now?"))
    assert [(one.role, one.text, one.calls) for one in other.chats[0]] == [
        ("user", "?", ()),
        ("assistant", CALL, ()),
        ("user", f"[weather gave]\n{BERN}\n\nAnd now?", ()),
    ]
    assert not other.options[0].tools and "cannot call tools" in told[0]


def test_calls_and_results_are_restored_forked_and_exported(begin: Begin, history: History) -> None:
    dialogue, engine = begin(), chatty(f"Let me see.\n{CALL}")
    heard(dialogue.ask(engine, "?"))
    decide(dialogue, "once")
    heard(dialogue.go_on_with_results(engine))
    again = begin(opened=history.get(1))
    assert again.branch() == dialogue.branch() and again.setup.tools == ("sky",)
    fork = history.fork(1, history.messages(1))
    assert [one.calls for one in history.messages(fork.id)] == [one.calls for one in dialogue.branch()]
    conversation, messages = history.get(1), list(history.messages(1))
    text = exports.as_markdown(conversation, messages)
    assert "## Tool weather, done" in text and '"city": "Bern"' in text and "sky over Bern" in text
    assert "Let me see." in text and "<tool_call>" not in text and "\x1b" not in text
    page = pages.as_html([(conversation, messages)])
    assert "<details><summary>What it was asked and gave</summary>" in page and "tool_call" not in page
    back = imported.read(exports.as_json([(conversation, history.tree(1))]), "file").conversations[0]
    assert [one.calls for one in back.messages] == [one.calls for one in messages]
    assert conversation.setup["tools"] == ["sky"] and "tools" not in back.conversation.setup, "it starts nothing here"


def test_calls_that_are_damaged_are_left_out(history: History, begin: Begin) -> None:
    dialogue = begin()
    heard(dialogue.ask(chatty(CALL), "?"))
    connection: sqlite3.Connection = history.connection
    connection.execute("UPDATE messages SET calls = '[[1]]' WHERE role = 'assistant'")
    found = history.messages(1)[-1]
    assert found.calls == () and found.damaged == ("calls",) and ToolCall("a", "{}") not in found.calls


def test_a_template_that_shows_no_results_gets_them_in_words(tmp_path: Path) -> None:
    passing_over = QWEN.replace('message.role == "tool"', 'message.role == "nobody"')
    refusing = QWEN.replace("tool_call.function is defined", "nothing is defined")
    for number, (template, shows) in enumerate(((QWEN, True), (passing_over, False), (refusing, False))):
        folder = write_tokenizer(tmp_path / str(number), chat_template=template)
        session = ScriptedSession(hashed, vocab_size=400, context_length=4096)
        engine: Any = RealEngine(session, Tokenizer(folder), ChatTemplate(folder))
        assert engine.knows_tools and takes_results(engine) == shows
    contract: Any = chatty(knows_tools=False)
    assert not takes_results(contract)


@pytest.mark.parametrize(
    ("template", "takes"),
    [
        ("{% for message in messages %}{{ message.role + message.content }}{% endfor %}", True),
        ("{% if messages[0].role == 'system' %}{{ messages[0].content }}{% else %}{{ 'so ' * 999 }}{% endif %}", True),
        ("{{ messages[-1].content }}", False),
    ],
)
def test_a_template_takes_a_system_prompt_also_in_the_place_of_a_longer_one(
    template: str, takes: bool, tmp_path: Path
) -> None:
    folder = write_tokenizer(tmp_path, chat_template=template)
    session = ScriptedSession(hashed, vocab_size=400, context_length=4096)
    engine: Any = RealEngine(session, Tokenizer(folder), ChatTemplate(folder))
    assert takes_system(engine) == takes


def test_a_real_template_shows_the_tools_the_call_and_its_result(begin: Begin, tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "tokenizer", chat_template=QWEN)
    tokenizer, prompts = Tokenizer(folder), list[str]()
    replies = [tokenizer.encode(text) for text in (CALL, "Blue.")]

    def fill(tokens: Sequence[int], logits: np.ndarray) -> None:
        """Say one reply behind each prompt, token by token."""
        text = tokenizer.decode(list(tokens))
        begun = text.rpartition("assistant\n")[2]
        reply = replies["<tool_response>" in text]
        said = len(tokenizer.encode(begun)) if begun else 0
        if not said:
            prompts.append(text)
        logits[:] = 0
        logits[reply[said] if said < len(reply) else min(tokenizer.eos)] = 60

    session = ScriptedSession(fill, vocab_size=400, context_length=4096)
    engine: Any = RealEngine(session, tokenizer, ChatTemplate(folder))
    assert engine.knows_tools
    dialogue = begin()
    assert heard(dialogue.ask(engine, "Weather in Bern?")) == [""]
    (question,), goes_on = decide(dialogue, "once")
    assert goes_on and question.call.arguments == '{"city": "Bern"}'
    assert heard(dialogue.go_on_with_results(engine)) == ["Blue."]
    assert '"description": "The weather now."' in prompts[0]
    assert f"{CALL}" in prompts[-1] and f"<tool_response>\n{BERN}\n</tool_response>" in prompts[-1]
    assert dialogue.branch()[1].usage["receipt"]["options"]["tools"], "it can be computed again"
