"""chatapp.history: what is kept, branched, found and deleted."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from chatapp.history import History, HistoryError
from chatapp.history.exports import as_json
from support.messages import TOKENS, ask, begin, texts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


# What is kept


def test_a_conversation_is_there_after_it_was_closed(path: Path) -> None:
    with History(path) as history:
        said = ask(history, "hello", "good day")
    with History(path) as history:
        conversation = history.list()[0]
        assert (conversation.title, conversation.model, conversation.messages) == ("hello", "tiny", 2)
        assert list(history.messages(conversation.id)) == said
        assert history.last() == conversation


def test_the_last_used_comes_first_and_what_is_empty_is_not_listed(history: History) -> None:
    first, second = ask(history, "one")[0], ask(history, "two")[0]
    history.create()
    assert [one.title for one in history.list()] == ["two", "one"]
    ask(history, "more", conversation=first.conversation, parent=first.id)
    assert [one.id for one in history.list(1)] == [first.conversation]
    assert second.conversation != first.conversation


def test_what_has_nothing_but_a_draft_is_in_the_list_of_the_screen_only(history: History) -> None:
    ask(history, "one")
    begun = history.create()
    assert history.page()[1] == 1
    history.keep_draft(begun.id, "half a question\nabout whales")
    assert [one.title for one in history.list()] == ["one"] and history.last(drafts=True) == history.get(begun.id)
    assert [one.title for one in history.page()[0]] == ["half a question about whales", "one"]
    assert [one.id for one in history.page("whales half")[0]] == [begun.id] and history.page("whales")[1] == 1
    assert [one.id for one in history.list(drafts=True)] == [begun.id, 1]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("  What\nis\tthis? ", "What is this?"),
        ("word " * 30, "word word word word word word word word word word word word…"),
        ("x" * 1_000_000, "x" * 60 + "…"),
    ],
)
def test_the_title_is_the_first_words(history: History, text: str, title: str) -> None:
    conversation = history.create().id
    system = history.add(conversation, "system", "Be brief.", parent=None)
    ask(history, text, conversation=conversation, parent=system.id)
    assert history.get(conversation).title == title


def test_the_title_of_a_text_is_its_first_words_now_whoever_wrote_them_unless_one_was_given(history: History) -> None:
    text = history.create("completion").id
    for beginning in ("an example", "my own"):
        history.add(text, "user", beginning, parent=None)
        assert history.get(text).title == beginning
    root = history.messages(text)[0]
    reply = history.add(text, "assistant", "", parent=root.id)
    history.change(replace(reply, text=" words,\nand the model's"))
    history.add(text, "user", ", and again mine", parent=reply.id)
    assert history.get(text).title == "my own words, and the model's, and again mine"
    history.rename(text, "a title")
    history.add(text, "user", "more", parent=None)
    assert history.get(text).title == "a title"


def test_a_title_can_be_given_and_is_kept(history: History) -> None:
    [first] = ask(history, "hello")
    history.rename(first.conversation, " On\ngreetings ")
    ask(history, "more", conversation=first.conversation, parent=first.id)
    assert history.get(first.conversation).title == "On greetings"
    with pytest.raises(HistoryError, match="title is empty"):
        history.rename(first.conversation, " \n")


@pytest.mark.parametrize(
    "text", ["\0", "a\0b", "\ud800", "\x1b[2J", "\N{RIGHT-TO-LEFT OVERRIDE}", "'; DROP TABLE", "%_"]
)
def test_any_text_is_kept(history: History, text: str) -> None:
    ask(history, text)
    kept = history.messages(history.list()[0].id)[0].text
    assert kept == text.replace("\ud800", "?")


def test_the_file_is_nobody_elses_to_read(path: Path, history: History) -> None:
    ask(history, "hello")
    if sys.platform != "win32":
        assert {file.stat().st_mode & 0o777 for file in path.parent.glob("history.db*")} == {0o600}


# Branches


def test_an_edited_message_begins_another_branch_and_both_can_be_walked(history: History) -> None:
    first, answer, second, late = ask(history, "one", "two", "three", "four")
    edited = history.add(first.conversation, "user", "THREE", parent=answer.id)
    assert edited.versions == (second.id, edited.id)
    assert texts(history, first.conversation) == ["one", "two", "THREE"]
    history.select(late.id)
    assert texts(history, first.conversation) == ["one", "two", "three", "four"]
    assert history.messages(first.conversation)[2].versions == (second.id, edited.id)
    assert late.versions == (late.id,)
    again = history.add(first.conversation, "user", "ONE", parent=None)
    assert texts(history, first.conversation) == ["ONE"]
    assert again.versions == (first.id, again.id)
    assert len(history.tree(first.conversation)) == 6


def test_a_parent_in_another_conversation_is_refused(history: History) -> None:
    [one], [two] = ask(history, "one"), ask(history, "two")
    with pytest.raises(HistoryError, match=f"message {one.id} is not in conversation {two.conversation}"):
        history.add(two.conversation, "user", "x", parent=one.id)
    with pytest.raises(HistoryError, match="message 99 no longer exists"):
        history.add(two.conversation, "user", "x", parent=99)
    with pytest.raises(HistoryError, match="no conversation 99"):
        history.add(99, "user", "x", parent=None)


# Replies that grow


def test_a_reply_is_there_while_it_grows(path: Path, history: History) -> None:
    [asked] = ask(history, "hello")
    reply = begin(history, asked, {"temperature": 0.5})
    history.change(replace(reply, text="good"))
    with History(path) as other:
        partial = other.messages(asked.conversation)[-1]
        assert (partial.text, partial.finished, partial.finish_reason) == ("good", False, None)
        assert [one.message for one in other.search("good")] == [reply.id]
    ended = replace(reply, text="good day", finished=True, finish_reason="stop", usage={"tokens_per_second": 5.0})
    history.change(ended, latencies=[0.1234567, 0.2], tokens=TOKENS)
    assert history.messages(asked.conversation)[-1] == ended
    assert history.latencies(reply.id) == (0.123457, 0.2)
    assert history.tokens(reply.id) == TOKENS
    history.change(replace(ended, summary="They greet."))
    assert history.messages(asked.conversation)[-1].summary == "They greet."
    assert history.latencies(reply.id) and history.tokens(reply.id)


def test_the_tokens_of_a_message_go_with_it(history: History) -> None:
    [asked] = ask(history, "hello")
    reply = history.put(replace(asked, parent=asked.id, role="assistant", text="good day"), tokens=TOKENS)
    assert history.tokens(reply.id) == TOKENS and not history.tokens(asked.id)
    history.delete(asked.conversation)
    history.erase()
    assert history.connection.execute("SELECT count(*) FROM tokens").fetchone() == (0,)


def test_a_message_that_nothing_follows_can_be_withdrawn(history: History) -> None:
    first, second = ask(history, "hello", "good day")
    history.withdraw(first.id)
    assert len(history.tree(first.conversation)) == 2
    history.withdraw(second.id)
    assert texts(history, first.conversation) == ["hello"]
    history.withdraw(first.id)
    assert not history.list() and not history.search("hello")
    assert (history.get(first.conversation).title, history.get(first.conversation).leaf) == ("", None)


# Beside the messages


def test_setup_and_draft_are_kept_and_a_draft_is_in_no_export(history: History) -> None:
    conversation = history.create(setup={"model": "tiny"}).id
    ask(history, "hello", conversation=conversation)
    assert history.get(conversation).setup == {"model": "tiny"}
    history.keep_setup(conversation, {"model": "other", "options": {"top_k": 3}})
    assert history.list()[0].setup == {"model": "other", "options": {"top_k": 3}}
    history.keep_draft(conversation, "not said \ud800")
    assert history.draft(conversation) == "not said ?"
    assert "not said" not in as_json([(history.get(conversation), history.tree(conversation))])


def test_the_last_prompts_come_once_each_the_newest_first(history: History) -> None:
    first = ask(history, "one", "reply", "two", "reply", "one", "reply", " ")[0]
    gone = ask(history, "deleted")[0]
    text = history.create("completion").id
    history.add(text, "user", "a text", parent=None)
    history.delete(gone.conversation)
    assert history.prompts() == ["one", "two"]
    assert history.prompts(1) == ["one"]
    assert first.text == "one"


def test_a_history_in_memory_is_like_any_other_and_leaves_no_file(tmp_path: Path) -> None:
    with History(None) as history:
        said = ask(history, "hello", "good day")
        assert list(history.messages(said[0].conversation)) == said
        assert history.search("good")
    assert not list(tmp_path.iterdir())


# Search


def test_words_are_found_in_any_case_without_accents_and_when_begun(history: History) -> None:
    ask(history, "Where is the Café?", "In `get_name(x)`, near the station.")
    for words in ("cafe", "CAFÉ", "stat", "the station", "get_name(", "near caf get", '"', "100%"):
        assert bool(history.search(words)) == (words not in ("near caf get", '"', "100%")), words
    [found] = history.search("STATION")
    assert found.snippet == "In `get_name(x)`, near the station."
    assert [found.snippet[start:end] for start, end in found.marks] == ["station"]


@pytest.mark.parametrize("words", ["世界", "++", "%", "\\", "ไทย"])
def test_scripts_without_spaces_and_signs_are_found_anywhere(history: History, words: str) -> None:
    said = ask(history, f"你好{words}吗", "nothing")
    [found] = [one for one in history.search(words) if one.message]
    assert found.message == said[0].id
    assert [found.snippet[start:end] for start, end in found.marks] == [words]


def test_a_snippet_is_short_whatever_the_text(history: History) -> None:
    ask(history, "x" * 300_000 + " needle " + "y" * 300_000, "\n".join(["hay"] * 1000) + "\nneedle\x00<b>")
    for one in history.search("needle"):
        assert len(one.snippet) <= 182
        assert [one.snippet[start:end] for start, end in one.marks] == ["needle"]


def test_a_title_is_made_of_the_words_behind_what_is_attached_before_them(history: History) -> None:
    said = "$ git log (exit code 0):\n```\none\ntwo\n```\n\nwhat happened?", "a.py:\n```py\nx\n```", "so:\n```\nno end"
    for text in said:
        history.add(history.create().id, "user", text, parent=None)
    assert [one.title for one in history.list()][::-1] == ["what happened?", "a.py: ```py x ```", "so: ``` no end"]


def test_titles_come_first_then_what_was_used_last_wherever_it_was_stored(history: History) -> None:
    numbers = {}
    rows = [("b", "best = way list", 300.0), ("Best way: list", "-", 100.0), ("c", "best = way list", 200.0)]
    for title, text, used in rows:
        one = history.create(title=title)
        said = history.add(one.id, "user", text, parent=None)
        history.connection.execute("UPDATE conversations SET updated = ? WHERE id = ?", (used, one.id))
        numbers[title] = (one.id, said.id)
    found = [(one.conversation.title, one.message) for one in history.search("best way list")]
    assert found == [("Best way: list", None), ("b", numbers["b"][1]), ("c", numbers["c"][1])]
    assert [one.conversation.title for one in history.search("best =")] == ["b", "c"]


def test_titles_are_searched_and_deleted_conversations_are_not(history: History) -> None:
    [first] = ask(history, "hello")
    history.rename(first.conversation, "Greetings")
    assert [(one.conversation.id, one.message) for one in history.search("greet")] == [(first.conversation, None)]
    history.delete(first.conversation)
    assert not history.search("greet") and not history.search("hello")


def test_what_is_changed_or_gone_is_not_found_any_more(history: History) -> None:
    [asked] = ask(history, "hello")
    reply = begin(history, asked)
    history.change(replace(reply, text="alpha"))
    history.change(replace(reply, text="beta"))
    assert not history.search("alpha") and history.search("beta")
    history.delete(asked.conversation)
    history.erase()
    history.connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")


@pytest.mark.parametrize("words", ["", "  ", "\0", "a\0", '" OR text:', "NEAR(", "*", "-", "^x", "{text}:x", "\ud800"])
def test_no_search_is_an_error(history: History, words: str) -> None:
    ask(history, "hello")
    assert not history.search(words)


def test_pinned_conversations_are_listed_first_and_keep_their_dates(history: History) -> None:
    one, two, three = (ask(history, text)[0].conversation for text in ("one", "two", "three"))
    before = history.get(one).updated
    history.pin(one)
    history.pin(two)
    assert [found.id for found in history.list()] == [two, one, three] == [found.id for found in history.page()[0]]
    assert history.get(one).pinned and history.get(one).updated == before
    history.pin(two, False)
    assert [found.id for found in history.page("o")[0]] == [one, two]


# Deleting


def test_what_is_deleted_together_comes_back_together(history: History) -> None:
    one, two, three = (ask(history, text)[0].conversation for text in ("one", "two", "three"))
    history.delete(one)
    time.sleep(0.01)
    history.delete(two, three)
    assert not history.list()
    with pytest.raises(HistoryError, match="was deleted.*undo"):
        history.get(two)
    assert {back.id for back in history.undelete()} == {two, three}
    assert {back.id for back in history.undelete()} == {one}
    assert not history.undelete()
    with pytest.raises(HistoryError):
        history.delete(one, 99)
    history.delete(one)
    with pytest.raises(HistoryError, match="was deleted"):
        history.add(one, "user", "more", parent=1)
    history.undelete()
    assert len(history.list()) == 3


def test_what_was_deleted_long_ago_is_gone_for_good(history: History) -> None:
    [first] = ask(history, "hello")
    history.delete(first.conversation)
    history.create()
    assert history.undelete()
    history.delete(first.conversation)
    history.connection.execute("UPDATE conversations SET deleted = deleted - 31 * 24 * 3600")
    history.create()
    assert not history.undelete()
    assert history.connection.execute("SELECT count(*) FROM messages").fetchone() == (0,)


def test_what_is_erased_is_in_no_file_any_more(path: Path) -> None:
    with History(path) as history:
        said = ask(history, "the secret ingredient", "cardamom " * 2000)
        ask(history, "something else")
        history.delete(said[0].conversation)
        assert history.erase() == 1
        assert [one.title for one in history.list()] == ["something else"]
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"something else" in content
    assert b"ingredient" not in content and b"cardamom" not in content


def test_what_is_asked_of_a_closed_history_is_refused_in_words(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db")
    history.close()
    with pytest.raises(HistoryError, match="have been closed"):
        history.prompts()
    with pytest.raises(HistoryError, match="have been closed"):
        history.rename(1, "another title")
