"""Conversations of ChatGPT, Claude and Ollama: what is text comes, and what does not is named."""

import re
from typing import Any

import pytest

from chatapp.generation.text.thinking import split
from chatapp.history import History, NotUnderstood
from support.chatgpt_exports import chatgpt, node
from support.conversations import bring_in, said

# ChatGPT


def test_a_tree_of_chatgpt_comes_with_its_branches(history: History) -> None:
    finish = {"metadata": {"model_slug": "gpt-x", "finish_details": {"type": "max_tokens"}}}
    content = chatgpt(
        z=node("b", "assistant", "late", **finish),  # its parent comes after it
        root={"parent": None, "message": None, "children": ["s"]},
        s=node("root", "system", ""),
        a=node("s", "user", "early"),
        b=node("s", "user", "edited"),
        c=node("a", "assistant", "first"),
    )
    batch = bring_in(history, content)
    assert not batch.refused and not batch.left_out
    conversation = history.list()[0]
    assert (conversation.title, conversation.model, conversation.created) == ("A title", "gpt-x", 1.5)
    assert conversation.updated == 9.5
    assert said(history, 1) == [("user", "edited"), ("assistant", "late")]
    last = history.messages(1)[-1]
    assert (last.finish_reason, last.created, last.model) == ("length", 5.5, "gpt-x")
    assert len(history.messages(1)[0].versions) == 2
    assert history.search("first")


def test_what_is_no_text_of_chatgpt_is_left_out_by_name(history: History) -> None:
    image = {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "what is this?"]}
    content = chatgpt(
        a=node(None, "user", image),
        b=node("a", "assistant", {"content_type": "thoughts", "thoughts": []}),
        c=node("b", "assistant", "print(1)", recipient="python"),
        d=node("c", "tool", "1"),
        e=node("d", "system", "secret", metadata={"is_visually_hidden_from_conversation": True}),
        z=node("e", "assistant", "A cat.", recipient="all"),
    )
    batch = bring_in(history, content)
    assert said(history, 1) == [("user", "[image_asset_pointer left out]\nwhat is this?"), ("assistant", "A cat.")]
    assert batch.left_out == {
        "image_asset_pointer": 1,
        "thoughts": 1,
        "message to a tool": 1,
        "message of a tool": 1,
        "hidden message": 1,
    }


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ({"a": node(None, "user", {"content_type": "hologram"})}, "unknown content type 'hologram'"),
        ({"a": node(None, "robot", "x")}, "unknown role 'robot'"),
        ({"a": node("nobody", "user", "x")}, "message 'a' whose parent is missing"),
        ({"a": node("b", "user", "x"), "b": node("a", "user", "y")}, "follow each other in a circle"),
        ({"a": node("a", "user", "x")}, "parent is missing"),
        ({"a": {"parent": [], "message": None}}, "parent is missing"),
        ({"a": []}, "parent is missing"),
        ({"a": {"parent": None, "message": {"author": None}}}, "'author': None"),
        ({"a": {"parent": None, "message": 1}}, "is not a JSON object"),
        ({"a": node(None, "user", {"content_type": "text", "parts": [1]})}, "the part 1, which is not text"),
    ],
)
def test_a_conversation_of_chatgpt_that_is_not_understood_is_named_and_the_others_come(
    history: History, nodes: dict[str, Any], says: str
) -> None:
    batch = bring_in(history, chatgpt(**nodes) + chatgpt(z=node(None, "user", "fine")) + [{"title": "no mapping"}])
    assert re.search(says, batch.refused[0])
    assert "conversation 1 of a file ('A\\ntitle')" in batch.refused[0]
    assert batch.refused[1] == "conversation 3 of a file ('no mapping') has no 'mapping'"
    assert [said(history, one.id) for one in history.list()] == [[("user", "fine")]]


def test_a_very_long_conversation_is_no_trouble(history: History) -> None:
    nodes = {str(place): node(str(place - 1) if place else None, "user", f"word{place}") for place in range(5000)}
    bring_in(history, chatgpt(**nodes))
    assert len(history.messages(1)) == 5000
    history.delete(1)
    assert history.erase() == 1


# Open WebUI


def test_a_tree_of_open_webui_comes_with_its_branches(history: History) -> None:
    thought = '<details type="reasoning" done="true" duration="3">\n<summary>Thought</summary>\n> Hm.\n</details>\n'
    messages = {
        "a": {"parentId": None, "role": "user", "content": "early", "timestamp": 5, "files": [{"name": "a.png"}]},
        "b": {"parentId": "a", "role": "assistant", "content": f"{thought}first", "model": "llama3:8b"},
        "c": {"parentId": "a", "role": "assistant", "content": "second", "model": "phi3"},
        "d": {"parentId": "c", "role": "assistant", "content": ""},
    }
    facts = {"title": "A title", "created_at": 4, "updated_at": 9, "chat": {"history": {"messages": messages}}}
    facts["chat"]["history"]["currentId"] = "b"  # type: ignore[index]
    batch = bring_in(history, [facts, {"title": "bad", "chat": {"history": {"messages": {"a": {"role": "x"}}}}}])
    assert batch.left_out == {"reasoning": 1, "file": 1} and "unknown role 'x'" in batch.refused[0]
    assert said(history, 1) == [("user", "early\n\n[a.png left out]"), ("assistant", "first")]
    assert (history.messages(1)[1].model, len(history.messages(1)[1].versions)) == ("llama3:8b", 2)
    assert (history.get(1).created, history.get(1).updated, history.messages(1)[0].created) == (4, 9, 5)
    bring_in(history, facts)
    assert len(history.list()) == 2


# Claude

NOBODY = "00000000-0000-4000-8000-000000000000"


def claude(*messages: object, **more: object) -> list[dict[str, Any]]:
    """An export of claude.ai with one conversation."""
    when = {"created_at": "2024-03-01T12:00:00.5Z", "updated_at": "2024-03-02T12:00:00Z"}
    return [{"uuid": "u", "name": "A\ntitle", **when, "chat_messages": messages, **more}]


def spoken(uuid: str, parent: object, sender: str, *blocks: object, **more: object) -> dict[str, Any]:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    about = {
        "uuid": uuid,
        "sender": sender,
        "content": content,
        "created_at": "2024-03-01T12:00:01Z",
        "text": "not this",
    }
    return {**about, **({} if parent is ... else {"parent_message_uuid": parent}), **more}


@pytest.mark.parametrize(("leaf", "shown"), [("b2", ["early", "first"]), (None, ["edited", "la\n\nte"])])
def test_a_tree_of_claude_comes_with_its_branches(history: History, leaf: object, shown: list[str]) -> None:
    content = claude(
        spoken("a", NOBODY, "human", "early"),
        spoken("b2", "a", "assistant", {"type": "thinking", "thinking": "Hm."}, "first"),
        spoken("c", NOBODY, "human", "edited"),
        spoken("d", "c", "assistant", "la", {"type": "tool_use", "name": "x", "input": {}}, "te"),
        current_leaf_message_uuid=leaf,
    )
    batch = bring_in(history, content)
    assert not batch.refused and batch.left_out == {"tool_use": 1}
    conversation = history.list()[0]
    assert (conversation.title, conversation.created) == ("A title", 1_709_294_400.5)
    question, answer = (split(text) for _, text in said(history, 1))
    assert [question.answer, answer.answer] == shown and answer.thinking == ("Hm." if leaf else "")
    assert len(history.messages(1)[0].versions) == 2 and history.messages(1)[1].created == 1_709_294_401


def test_an_older_export_of_claude_has_its_messages_in_their_order_and_what_was_attached(history: History) -> None:
    pasted = [{"file_name": "", "extracted_content": "a, b"}, {"file_name": "notes.txt", "extracted_content": "c"}]
    content = claude(
        spoken("a", ..., "human", text="", attachments=pasted, files=[{"file_name": "cat.png"}]),
        spoken("b", ..., "assistant", text="A cat."),
        spoken("c", ..., "human", text=""),
    )
    batch = bring_in(history, content)
    assert batch.left_out == {"file": 1}
    assert said(history, 1) == [("user", "a, b\n\nnotes.txt:\nc\n\n[cat.png left out]"), ("assistant", "A cat.")]
    bring_in(history, content[0])
    assert len(history.list()) == 2


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([spoken("a", NOBODY, "robot", "x")], "message 1 of .* unknown sender 'robot'"),
        ([spoken("a", "nobody", "human", "x")], "message 'a' whose parent is missing"),
        ([spoken("a", NOBODY, "human", "x")] * 2, "has two messages 'a'"),
        ([spoken("a", NOBODY, "human", {"type": "text"})], "has no 'text'"),
        ([spoken("a", NOBODY, "human", files=["x"])], "'files': .*, which cannot be"),
        ([1], "message 1 of .* is not a JSON object"),
    ],
)
def test_a_conversation_of_claude_that_is_not_understood_is_named(
    history: History, messages: list[Any], says: str
) -> None:
    batch = bring_in(history, claude(*messages) + claude(spoken("z", None, "human", "fine", created_at="soon")))
    assert re.search(says, batch.refused[0]) and "conversation 1 of a file ('A\\ntitle')" in batch.refused[0]
    assert [said(history, one.id) for one in history.list()] == [[("user", "fine")]]


# Ollama

MODELFILE = '''\
# Modelfile generated by "ollama show"
FROM qwen3:0.6b
TEMPLATE """{{ .Prompt }}
MESSAGE user not this"""
SYSTEM """Be
brief."""
PARAMETER stop "
"
PARAMETER temperature 0.5
MESSAGE user hello  there
MESSAGE assistant """A "quoted"

MESSAGE user is a word here"""
message user " spaced "
'''


def test_a_modelfile_of_ollama_has_the_session(history: History) -> None:
    batch = bring_in(history, MODELFILE)
    assert batch.left_out == {"TEMPLATE": 1, "PARAMETER": 2}
    assert said(history, 1) == [
        ("system", "Be\nbrief."),
        ("user", "hello  there"),
        ("assistant", 'A "quoted"\n\nMESSAGE user is a word here'),
        ("user", " spaced "),
    ]
    assert (history.list()[0].model, history.list()[0].title) == ("qwen3:0.6b", "hello there")


def test_messages_of_ollama_have_the_session_too(history: History) -> None:
    messages = [
        {"role": "user", "content": "what is this?", "images": ["aGk="]},
        {"role": "assistant", "content": "A cat.", "thinking": ""},
        {"role": "tool", "content": "x", "tool_name": "look"},
    ]
    batch = bring_in(history, {"model": "mine", "from": "qwen3", "system": "Be brief.", "messages": messages})
    assert batch.left_out == {"images": 1, "message of a tool": 1, "tool_name": 1}
    assert said(history, 1) == [("system", "Be brief."), ("user", "what is this?"), ("assistant", "A cat.")]
    assert history.list()[0].model == "qwen3"
    bring_in(history, messages)
    assert len(history.list()) == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("FROM x\nMESSAGE robot hi", "line 2 of a file has the unknown role 'robot'"),
        ('FROM x\nMESSAGE user """hi', "the quotation that begins in line 2 of a file does not end"),
        ("FROM x\nSYSTEM y", "has no messages; in Ollama, /save keeps"),
        ([{"role": "robot", "content": "x"}], "message 1 of a file has the unknown role 'robot'"),
        ([{"role": "user", "content": "x", "mood": 1}], "message 1 of a file has the unknown field 'mood'"),
        ([{"role": "user", "content": ["x"]}], "which cannot be"),
        ([{"role": "user"}, []], "no conversations that are known"),
        ({"messages": [], "mood": 1}, "unknown field 'mood'"),
        ({"messages": []}, "has no messages"),
        ({"messages": [1]}, "message 1 of a file is not a JSON object"),
    ],
)
def test_what_is_not_understood_of_ollama_is_refused_by_name(history: History, content: object, says: str) -> None:
    with pytest.raises(NotUnderstood, match=says):
        bring_in(history, content)
    assert not history.list()
