"""chatapp.conversation: the tree of a conversation, how it is answered, and a text that the model continues."""

import math
from typing import Any

import pytest

from chatapp.conversation import Setup
from chatapp.generation import GenerationError, Message, OptionError, Options, PromptTooLong
from chatapp.history import History, HistoryError
from support.dialogues import Begin, chatty, heard, talk, texts
from support.scripted_engine import ScriptedEngine

# The tree


def test_what_is_asked_and_answered_is_shown_and_saved_with_all_that_is_known_of_it(
    history: History, begin: Begin
) -> None:
    dialogue, engine = begin(options={"temperature": 0.5}), chatty()
    turn = dialogue.ask(engine, "hello")
    assert turn.question and turn.question.text == "hello"
    assert [message.text for message in history.messages(1)] == ["hello", ""]
    assert heard(turn) == ["Good day to you"]
    assert list(history.messages(1)) == dialogue.branch()
    reply = dialogue.branch()[-1]
    assert (reply.finished, reply.finish_reason, reply.model, reply.usage["completion_tokens"]) == (
        True, "stop", "scripted", 4,
    )  # fmt: skip
    assert reply.options["temperature"] == 0.5
    assert len(history.latencies(reply.id)) == 3 and dialogue.latencies(reply.id) == history.latencies(reply.id)
    tokens = dialogue.tokens(reply.id)
    assert [token.text for token in tokens] == ["Good", " day", " to", " you"]
    assert [len(token.alternatives) for token in tokens] == [5] * 4
    assert tokens == history.tokens(reply.id)
    assert history.get(1).setup == dialogue.setup.as_json()


def test_a_conversation_that_is_opened_again_goes_on(begin: Begin) -> None:
    heard(begin().ask(chatty(), "hello"))
    dialogue, engine = begin(1), chatty("Fine")
    heard(dialogue.ask(engine, "and you?"))
    assert engine.asked == ["hello\nGood day to you\nand you?"]
    assert texts(begin(1)) == ["hello", "Good day to you", "and you?", "Fine"]


def test_an_edited_question_begins_a_branch_and_both_can_be_shown(history: History, begin: Begin) -> None:
    dialogue = begin()
    talk(dialogue, chatty("One"), "1")
    first = dialogue.branch()[0]
    heard(dialogue.ask(chatty("Two"), "2"))
    edited = dialogue.edit(chatty("Three"), first.id, "3")
    heard(edited)
    assert texts(dialogue) == ["3", "Three"]
    assert edited.question and edited.question.versions == (first.id, edited.question.id)
    dialogue.select(first.id)
    assert texts(dialogue) == ["1", "One", "2", "Two"] == [one.text for one in history.messages(1)]
    dialogue.select(edited.question.id)
    assert texts(begin(1)) == ["3", "Three"]
    with pytest.raises(HistoryError, match="message 99 no longer exists"):
        dialogue.select(99)


def test_several_answers_come_from_one_batch_and_the_first_is_shown(history: History, begin: Begin) -> None:
    dialogue, engine = begin(), chatty(texts=["One two", "Three", "Four five six"])
    turn = dialogue.ask(engine, "count", 3)
    assert heard(turn) == ["One two", "Three", "Four five six"]
    assert engine.options[0].n == 3 and len(engine.asked) == 1
    assert texts(dialogue) == ["count", "One two"]
    assert dialogue.branch()[-1].versions == tuple(reply.id for reply in turn.replies)
    assert [len(history.latencies(reply.id)) for reply in turn.replies] == [1, 1, 2]
    dialogue.select(turn.replies[2].id)
    assert texts(begin(1)) == ["count", "Four five six"]


def test_another_answer_stands_beside_the_first_and_a_fixed_seed_counts_on(begin: Begin) -> None:
    dialogue, engine = begin(options={"seed": 2**64 - 1}), chatty()
    turn = talk(dialogue, engine, "hello")[0]
    heard(dialogue.again(engine, turn.replies[0].id, 2))
    heard(dialogue.again(engine, dialogue.branch()[0].id))
    assert [options.seed for options in engine.options] == [2**64 - 1, 0, 2]
    assert len(dialogue.branch()[-1].versions) == 4
    assert set(engine.asked) == {"hello"}


def test_a_reply_goes_on_from_the_tokens_that_were_chosen(begin: Begin) -> None:
    dialogue, engine = begin(), chatty()
    heard(dialogue.ask(engine, "hello"))
    reply = dialogue.branch()[-1]
    tokens = dialogue.tokens(reply.id)
    turn = dialogue.go_on(engine, reply.id, tokens[:2])
    assert turn.question is None and turn.replies[0].text == "Good day"
    assert heard(turn) == ["Good day to you"]
    assert engine.begun[-1] == (tokens[0].id, tokens[1].id)
    version = dialogue.branch()[-1]
    assert (version.text, version.versions) == ("Good day to you", (reply.id, version.id))
    assert [token.text for token in dialogue.tokens(version.id)] == ["Good", " day", " to", " you"]
    dialogue.change(Setup("another"))
    with pytest.raises(GenerationError, match="scripted wrote this answer, and another cannot continue its tokens"):
        dialogue.go_on(engine, reply.id, tokens[:2])


def test_an_answer_that_is_stopped_keeps_its_text(history: History, begin: Begin) -> None:
    dialogue, engine = begin(), chatty()
    turn = dialogue.ask(engine, "hello")
    next(turn.deltas)
    next(turn.deltas)
    turn.deltas.close()
    stopped = history.messages(1)[-1]
    assert (stopped.text, stopped.finish_reason, stopped.finished) == ("Good day", "cancelled", True)
    assert stopped.usage["completion_tokens"] == 2
    assert len(dialogue.tokens(stopped.id)) == 2
    assert not turn.withdrawn and engine.closed == 1


def test_a_reply_can_be_read_while_it_grows(history: History, begin: Begin) -> None:
    dialogue = begin()
    turn, shown = dialogue.ask(chatty(), "hello"), ""
    for delta in turn.deltas:
        shown += delta.text
        assert texts(dialogue) == ["hello", shown]
        assert dialogue.message(turn.replies[0].id).text == shown
    assert texts(begin(1)) == ["hello", "Good day to you"]


def test_a_turn_that_nobody_draws_does_no_harm_when_it_is_forgotten(history: History, begin: Begin) -> None:
    dialogue = begin()
    turn = dialogue.ask(chatty(), "hello")
    assert turn.question
    heard(dialogue.again(chatty("Hi"), turn.question.id))
    turn.deltas.close()
    assert turn.withdrawn and texts(dialogue) == ["hello", "Hi"]
    assert list(history.tree(1)) == dialogue.branch()


@pytest.mark.parametrize("way", ["closed at once", "forgotten", "refused", "failed"])
def test_a_turn_that_gave_nothing_is_taken_back(history: History, begin: Begin, way: str) -> None:
    dialogue = begin()
    heard(dialogue.ask(chatty(), "hello"))
    before = list(history.tree(1))
    engine = chatty(context_length=3 if way == "refused" else 1024, fail_after=0 if way == "failed" else None)
    turn = dialogue.ask(engine, "more", 2)
    if way == "closed at once":
        turn.deltas.close()
    elif way == "forgotten":
        del turn.deltas
    else:
        with pytest.raises(PromptTooLong if way == "refused" else RuntimeError):
            next(turn.deltas)
    assert turn.withdrawn
    assert list(history.tree(1)) == before == dialogue.branch() == list(history.messages(1))


def test_a_first_question_that_is_refused_leaves_no_conversation_to_be_seen(history: History, begin: Begin) -> None:
    dialogue = begin()
    with pytest.raises(PromptTooLong, match="too long by 2 tokens"):
        heard(dialogue.ask(chatty(context_length=0), "hello"))
    assert not history.list() and not dialogue.branch()
    heard(dialogue.ask(chatty(), "good day"))
    assert [one.title for one in history.list()] == ["good day"]


def test_an_answer_that_the_model_broke_off_stays_unfinished(history: History, begin: Begin) -> None:
    dialogue = begin()
    with pytest.raises(RuntimeError):
        heard(dialogue.ask(chatty(fail_after=2), "hello"))
    broken = history.messages(1)[-1]
    assert (broken.text, broken.finished, broken.finish_reason) == ("Good day", False, None)
    heard(dialogue.ask(chatty(), "go on"))
    assert texts(dialogue) == ["hello", "Good day", "go on", "Good day to you"]


def test_a_question_that_got_no_answer_is_left_aside(history: History, begin: Begin) -> None:
    history.add(history.create().id, "user", "hello?", parent=None)
    dialogue, engine = begin(1), chatty()
    heard(dialogue.ask(engine, "anybody?"))
    assert engine.asked == ["anybody?"]
    assert dialogue.branch()[0].versions == (1, 2)


def test_options_that_cannot_be_are_refused_before_anything_is_said(history: History, begin: Begin) -> None:
    with pytest.raises(OptionError, match="top_p"):
        begin(options={"top_p": 2}).ask(chatty(), "hello")
    assert not history.list()


# Setup


def test_a_setup_comes_back_from_json_and_what_cannot_be_is_left_out() -> None:
    options: dict[str, Any] = {"temperature": 0.5, "stop": ("a", "b"), "logit_bias": {3: -math.inf, 4: 1.5}, "seed": 7}
    setup = Setup("model", options, "Be brief.", "slide")
    assert Setup.of_json(setup.as_json()) == setup
    wild = {
        "model": 3,
        "options": {"top_p": 9, "stop": 3, "logit_bias": [1], "nonsense": 1, "top_k": 5},
        "system": None,
    }
    assert Setup.of_json({**wild, "when_full": "explode"}) == Setup(options={"top_k": 5})
    assert Setup.of_json({"options": []}) == Setup()
    assert setup.apply_to(Options(top_k=3)) == Options(top_k=3, **options)


def test_a_change_of_the_setup_is_saved_and_counts_from_the_next_answer_on(history: History, begin: Begin) -> None:
    dialogue, engine = begin(), chatty()
    heard(dialogue.ask(engine, "hello"))
    dialogue.change(Setup("scripted", {"max_tokens": 2}, system="Be brief."))
    assert Setup.of_json(history.get(1).setup) == dialogue.setup
    heard(dialogue.ask(engine, "more"))
    assert engine.chats[-1][0] == Message("system", "Be brief.")
    assert (engine.options[-1].max_tokens, dialogue.branch()[-1].finish_reason) == (2, "length")


def test_a_template_without_a_place_for_it_gets_the_system_prompt_with_the_first_question(begin: Begin) -> None:
    dialogue, engine = begin(system="Be brief."), chatty(takes_system=False)
    heard(dialogue.ask(engine, "hello"))
    heard(dialogue.ask(engine, "more"))
    assert engine.chats[-1][0] == Message("user", "Be brief.\n\nhello")
    assert texts(dialogue)[0] == "hello"


def test_a_draft_is_kept_also_before_anything_was_said(history: History, begin: Begin) -> None:
    dialogue = begin()
    dialogue.keep_draft("")
    assert dialogue.conversation is None
    dialogue.keep_draft("half a que")
    assert history.draft(1) == "half a que" and not history.list() and not history.last()
    assert (last := history.last(drafts=True)) and last.id == 1
    heard(dialogue.ask(chatty(), "hello"))
    assert history.draft(1) == "half a que" and len(history.list()) == 1
    dialogue.keep_draft("")
    assert history.draft(1) == ""


def test_a_text_that_was_a_draft_is_whose_it_was(begin: Begin) -> None:
    dialogue = begin(kind="completion")
    dialogue.write([("user", "one "), ("assistant", "two ")])
    assert dialogue.split_by_author("one two three") == [("user", "one "), ("assistant", "two "), ("user", "three")]
    assert dialogue.split_by_author("another") == [("user", "another")]


# A text


def test_a_text_is_written_by_two_and_what_changes_becomes_a_branch(history: History, begin: Begin) -> None:
    dialogue, engine = begin(kind="completion"), ScriptedEngine("x): pass")
    heard(dialogue.continue_text(engine, "def f("))
    assert engine.options[0].max_tokens == 128
    dialogue.write("def f(x): pass\n")
    assert [(one.role, one.text) for one in dialogue.branch()] == [
        ("user", "def f("), ("assistant", "x): pass"), ("user", "\n"),
    ]  # fmt: skip
    dialogue.write("def g(")
    assert texts(dialogue) == ["def g("]
    dialogue.write("def f(")
    assert texts(dialogue) == ["def f("]
    assert len(history.tree(1)) == 4
    turn = dialogue.continue_text(engine, "def f(", 2)
    assert turn.question is None and len(heard(turn)) == 2
    assert dialogue.branch()[-1].versions == (2, 5, 6)
    assert list(history.messages(1)) == dialogue.branch()


def test_what_fills_a_gap_stands_between_its_texts_while_it_grows_and_after(history: History, begin: Begin) -> None:
    dialogue, engine = begin(kind="completion"), ScriptedEngine("return 1")
    dialogue.write("def f():\n    \nprint(f())")
    turn = dialogue.fill(engine, "def f():\n    ", "\nprint(f())")
    next(turn.deltas)
    next(turn.deltas)
    assert "".join(texts(dialogue)) == "def f():\n    return\nprint(f())"
    heard(turn)
    assert engine.asked == ["def f():\n    <gap>\nprint(f())"]
    assert [one.role for one in dialogue.branch()] == ["user", "assistant", "user"]
    assert "".join(one.text for one in history.messages(1)) == "def f():\n    return 1\nprint(f())"
    dialogue.write("def f():\n    return 1\nprint(f())\n")
    assert texts(dialogue) == ["def f():\n    ", "return 1", "\nprint(f())\n"]


def test_a_gap_is_filled_without_what_is_recommended_for_text_that_goes_on(begin: Begin) -> None:
    recommended = Options(dry_multiplier=1.5, indentation=1)
    dialogue, engine = begin(kind="completion"), ScriptedEngine("1", defaults=recommended)
    heard(dialogue.fill(engine, "x = ", "\n"))
    heard(dialogue.continue_text(engine, "x = "))
    assert [(one.dry_multiplier, one.indentation) for one in engine.options] == [(0.0, 0), (1.5, 1)]


def test_what_a_user_goes_on_typing_stays_one_message_until_the_model_goes_on(history: History, begin: Begin) -> None:
    dialogue = begin(kind="completion")
    for text in ("one", "one two", "once", "once more"):
        dialogue.write(text)
    assert texts(dialogue) == ["once more"] and list(history.tree(1)) == dialogue.branch()
    heard(dialogue.continue_text(ScriptedEngine(" again"), "once more"))
    dialogue.write("twice")
    assert texts(dialogue) == ["twice"] and len(history.tree(1)) == 3


def test_a_shortened_reply_keeps_who_wrote_it_and_its_tokens(history: History, begin: Begin) -> None:
    dialogue, engine = begin(kind="completion"), ScriptedEngine(" two three")
    heard(dialogue.continue_text(engine, "one"))
    dialogue.write([("user", "one"), ("assistant", " two thr"), ("user", "ough")])
    reopened = begin(1)
    assert [(one.role, one.text) for one in reopened.branch()] == [
        ("user", "one"), ("assistant", " two thr"), ("user", "ough"),
    ]  # fmt: skip
    assert [token.text for token in reopened.tokens(reopened.branch()[1].id)] == [" two"]
    turn = reopened.go_on(engine, 2, reopened.tokens(2)[:1])
    assert turn.replies[0].text == " two" and "".join(heard(turn)) == " two two three"
    assert engine.asked[-1] == "one two"
    assert [token.text for token in reopened.tokens(turn.replies[0].id)] == [" two", " two", " thre", "e"]


def test_a_gap_that_was_not_filled_leaves_the_text_as_it_was(history: History, begin: Begin) -> None:
    dialogue = begin(kind="completion")
    dialogue.write("one three")
    dialogue.fill(ScriptedEngine(), "one", " three").deltas.close()
    assert texts(dialogue) == ["one three"] == [one.text for one in history.tree(1)]


def test_a_text_that_is_too_long_stops_or_loses_its_first_lines(begin: Begin) -> None:
    text = "".join(f"line {number}\n" for number in range(100))
    dialogue, engine = begin(kind="completion", options={"max_tokens": 10}), ScriptedEngine("on", context_length=64)
    with pytest.raises(PromptTooLong):
        heard(dialogue.continue_text(engine, text))
    assert not dialogue.branch()
    dialogue.change(Setup("scripted", {"max_tokens": 10}, when_full="slide"))
    turn = dialogue.continue_text(engine, text)
    heard(turn)
    assert engine.asked == [text[text.index(f"line {turn.left_out}\n") :]]
    assert engine.count_tokens(engine.asked[0]) <= 64 - 10 - 64 // 4
    assert "".join(texts(dialogue)) == text + "on"
    heard(dialogue.continue_text(engine, text + "on\n"))
    assert engine.asked[1] == engine.asked[0] + "on\n"
