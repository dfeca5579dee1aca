"""chatapp as its own server's client: the same answers, refusals that are told, and an end that the server hears."""

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from chatapp.generation import Message, Reply
from chatapp.remote.errors import RemoteError
from chatapp.remote.opening import open_remote
from support.scripted_engine import ScriptedEngine
from support.served import serving
from support.stand_in_home import Home

ASKED = [Message("system", "Be brief."), Message("user", "Hello")]


def test_a_conversation_is_answered_with_counts_and_the_same_finish(home: Path) -> None:
    engine = ScriptedEngine(text="<think>\nHm.\n</think>\n\nOne two three.", can_chat=True, cached_tokens=2)
    with serving(Home(engine)) as served:
        client, name = open_remote(home, "", f"http://127.0.0.1:{served.port}")
        assert not client.can_chat
        client.can_chat = True  # the list tells of the built-in model, and the stand-in can more
        reply = Reply()
        for delta in client.chat(ASKED, replace(client.defaults, logprobs=2, seed=4)):
            reply.add(delta)
    assert (name.partition("@")[0], client.context_length, client.placement.precision) == ("builtin", 1024, "chatapp")
    assert (reply.text, reply.finish_reason) == ("One two three.", "stop") and "Hm." in reply.thinking
    assert reply.usage and reply.usage.cached_tokens == 2 and reply.usage.completion_tokens == len(reply.tokens)
    assert all(token.logprob is not None and len(token.alternatives) == 2 for token in reply.tokens)
    assert (engine.options[-1].seed, engine.options[-1].top_k) == (4, 40)
    assert [(one.role, one.text) for one in engine.chats[-1]] == [(one.role, one.text) for one in ASKED]


def test_a_gap_is_filled_there_and_a_model_that_cannot_goes_on(home: Path) -> None:
    engine = ScriptedEngine(text="a + b\n")
    with serving(Home(engine)) as served:
        client, _ = open_remote(home, "", f"http://127.0.0.1:{served.port}")
        lines = client.find_lines("return ", "\nx = 1")
        assert lines and lines[0].text == "a + b" and engine.asked[-1] == "return <gap>\nx = 1"
        engine.can_infill = False
        assert client.find_lines("return ", "\nx = 1") and engine.asked[-1] == "return " and not client.can_infill


def test_who_leaves_is_heard_at_once_and_the_model_is_free(home: Path) -> None:
    engine = ScriptedEngine(text="word " * 300, can_chat=True, pause_after=3, go=threading.Event())
    with serving(Home(engine)) as served:
        client, _ = open_remote(home, "", f"http://127.0.0.1:{served.port}")
        client.can_chat = True
        with closing(client.chat(ASKED, client.defaults)) as deltas:
            for delta in deltas:
                if delta.text:
                    break
        engine.go.set()
        while engine.closed < 1:  # the server has heard it
            threading.Event().wait(0.01)
        engine.pause_after = None
        reply = Reply()
        for delta in client.chat(ASKED, replace(client.defaults, max_tokens=5)):
            reply.add(delta)
    assert reply.finish_reason == "length" and len(reply.tokens) == 5 and engine.closed == 2


def test_a_key_that_is_missing_and_a_model_that_is_not_there_are_told(home: Path) -> None:
    keyed = serving(Home(ScriptedEngine()), keys=("0123456789abcdef",))
    with keyed as served, pytest.raises(RemoteError, match="needs a key"):
        open_remote(home, "", f"http://127.0.0.1:{served.port}")
    with serving(Home(ScriptedEngine())) as served:
        client, _ = open_remote(home, "nobody", f"http://127.0.0.1:{served.port}")
        with pytest.raises(RemoteError, match="refuses this: .*nobody"):
            list(client.chat(ASKED, client.defaults))
