"""A conversation that no longer fits the context: it stops, loses its oldest turns, or has them summed up."""

import pytest

from chatapp.conversation.context_window import SUMMARY
from chatapp.generation import Message, PromptTooLong
from chatapp.history import History
from support.dialogues import Begin, chatty, heard, talk, texts

CONTEXT = 100


def test_a_full_context_stops_the_conversation_unless_something_else_is_chosen(begin: Begin) -> None:
    dialogue, engine = begin(), chatty("a b c d e", context_length=20)
    with pytest.raises(PromptTooLong):
        talk(dialogue, engine, *["x y z"] * 9)
    assert texts(dialogue)[-1] != "x y z"


def test_when_it_slides_whole_turns_are_left_out_for_a_while_and_the_system_prompt_stays(begin: Begin) -> None:
    dialogue = begin(when_full="slide", system="Be brief.", options={"max_tokens": 20})
    engine = chatty("a b c d e f g h", context_length=CONTEXT)
    turns = talk(dialogue, engine, *[f"q{number} x" for number in range(30)])
    assert turns[5].left_out == 0 < turns[-1].left_out
    firsts = []
    for number, (turn, messages) in enumerate(zip(turns, engine.chats, strict=True)):
        assert messages[0] == Message("system", "Be brief.")
        assert messages[1] == Message("user", f"q{turn.left_out // 2} x")
        assert messages[-1] == Message("user", f"q{number} x")
        assert engine.count_chat(messages) <= CONTEXT - 20
        firsts.append(messages[1].text)
    assert len(set(firsts)) < 10  # the prompts' beginnings stay the same for a while
    heard(dialogue.again(engine, dialogue.branch()[-1].id))
    assert engine.chats[-1] == engine.chats[-2]
    assert len(dialogue.branch()) == 60


def test_a_last_question_that_is_too_long_by_itself_is_refused_when_it_slides(begin: Begin) -> None:
    dialogue, engine = begin(when_full="slide"), chatty("a b", context_length=CONTEXT)
    talk(dialogue, engine, "hello")
    with pytest.raises(PromptTooLong):
        heard(dialogue.ask(engine, "x " * 2 * CONTEXT))
    assert len(dialogue.branch()) == 2


def test_what_no_longer_fits_is_summed_up_once_and_the_summary_grows(history: History, begin: Begin) -> None:
    dialogue = begin(when_full="summarise", system="Be brief.", options={"max_tokens": 30, "temperature": 0.7})
    engine = chatty("a b c d e f g h i j k l", context_length=200)
    summarised: list[int] = []
    while len(summarised) < 2:
        before = len(engine.asked)
        turn = dialogue.ask(engine, f"q{len(dialogue.branch()) // 2}")
        first = next(turn.deltas)
        if turn.summarising:
            assert first.text == "" and not first.tokens
            summarised.append(before)
        heard(turn)
        assert not turn.summarising
        assert len(dialogue.branch()) < 200
    requests = [engine.asked[place] for place in summarised]
    assert requests[0].startswith("Summarise this conversation in at most")
    assert "User: q0\n\nAssistant: a b c d e f g h i j k l" in requests[0]
    assert "What was said before, in brief:\na b c d e f g h i j k l\n\n" in requests[1]
    assert "User: q0\n" not in requests[1]
    assert (engine.options[summarised[0]].temperature, engine.options[summarised[0]].max_tokens) == (0, 25)
    assert engine.chats[-1][0].text == f"Be brief.\n\n{SUMMARY}\na b c d e f g h i j k l"
    kept = [message for message in history.tree(1) if message.summary]
    assert len(kept) == 2
    again = begin(1, when_full="summarise", system="Be brief.", options={"max_tokens": 30})
    count = len(engine.asked)
    heard(again.again(engine, again.branch()[-1].id))
    assert engine.chats[-1] == engine.chats[count - 1] and len(engine.asked) == count + 1


def test_a_summary_can_be_cancelled_and_then_nobody_asked(history: History, begin: Begin) -> None:
    dialogue, engine = begin(when_full="summarise"), chatty("a b c d e f g h i j k l", context_length=200)
    while True:
        turn = dialogue.ask(engine, "more")
        next(turn.deltas)
        if turn.summarising:
            break
        heard(turn)
    said = len(dialogue.branch())
    turn.deltas.close()
    assert turn.withdrawn and not turn.summarising and not engine.busy
    assert len(dialogue.branch()) == said - 2
    assert not any(message.summary for message in history.tree(1))


def test_a_long_message_is_summed_up_without_its_middle(begin: Begin) -> None:
    dialogue, engine = begin(when_full="summarise"), chatty("short", context_length=200)
    talk(dialogue, engine, "begin " + "x " * 130 + "end")
    talk(dialogue, engine, "more " * 60)
    request, rest = [prompt for prompt in engine.asked if prompt.startswith("Summarise")]
    assert "User: begin x" in request and " … " in request and "x end" in request
    assert rest.endswith("in brief:\nshort\n\nAssistant: short")
    assert engine.count_tokens(request) <= 200 - 25
