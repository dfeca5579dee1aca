"""The tree of a beam search: which texts it holds, how it is drawn, and what stays of a search that is stopped."""

from pathlib import Path

import pytest

from chatapp.conversation import Dialogue, Setup
from chatapp.generation import BeamEvent, Options
from chatapp.generation.beam_tree import BeamTree
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.history import History
from support.scripted_session import hashed, make_engine, write_tokenizer


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path / "tokenizer"))


def grown() -> BeamTree:
    """Three texts: `a b` is finished, `a c d` is looked at, `e` was given up."""
    tree = BeamTree()
    tree.add([BeamEvent("extended", 1, 0, 5, "a", -1.0), BeamEvent("extended", 2, 0, 6, "e", -2.0)])
    tree.add([BeamEvent("extended", 3, 1, 7, "c", -2.5), BeamEvent("finished", 4, 1, 8, "b", -0.6)])
    tree.add([BeamEvent("pruned", 2, 0, 6, "e", -2.0), BeamEvent("extended", 5, 3, 9, "d", -4.0)])
    return tree


def drawn(tree: BeamTree, *, pruned: bool = True) -> list[str]:
    return [
        f"{line.guides}{''.join(beam.text for beam in line.beams)} {line.last.state}"
        for line in tree.lines(pruned=pruned)
    ]


def test_a_branch_without_forks_is_one_line() -> None:
    assert drawn(grown()) == ["├ a passed", "│ ├ cd going", "│ └ b finished", "└ e pruned"]
    assert drawn(grown(), pruned=False) == ["└ a passed", "  ├ cd going", "  └ b finished"]


def test_what_leads_nowhere_any_more_is_given_up_whole() -> None:
    tree = grown()
    tree.add([BeamEvent("pruned", 5, 3, 9, "d", -4.0)])
    assert drawn(tree, pruned=False) == ["└ ab finished"]
    assert tree.count == {"going": 0, "pruned": 2, "finished": 1, "passed": 3}


def test_finished_texts_rank_before_those_that_are_looked_at() -> None:
    assert [[one.text for one in beam.path] for beam in grown().rank()] == [["a", "b"], ["a", "c", "d"]]


def test_its_best_text_is_what_the_search_answers(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, hashed)
    tree, found = BeamTree(), ""
    for delta in engine.complete("def add(", Options(num_beams=3, max_tokens=12, length_penalty=0.5)):
        tree.add(delta.beams)
        found += delta.text
    best = tree.rank()[0]
    tokens = best.spell(engine.text_of)
    assert "".join(token.text for token in tokens) == found
    assert [token.id for token in tokens] == [beam.token for beam in best.path]
    known = [token.logprob for token in tokens[:-1] if token.logprob is not None]
    assert sum(known) == pytest.approx(best.path[-2].score)
    assert not any(beam.state == "going" for beam in tree.beams.values())


@pytest.mark.parametrize("chosen", [False, True])
def test_a_search_that_is_stopped_keeps_its_best_text_or_the_one_that_was_chosen(
    tokenizer: Tokenizer, tmp_path: Path, chosen: bool
) -> None:
    engine, _ = make_engine(tokenizer, hashed)
    with History(tmp_path / "history.db") as history:
        setup = Setup(options={"num_beams": 3, "max_tokens": 40, "logprobs": 0})
        dialogue = Dialogue(history, kind="completion", setup=setup, warn=print)
        turn = dialogue.continue_text(engine, [("user", "def add(")])
        while len(turn.beams.beams) < 20:
            next(turn.deltas)
        worst = turn.beams.rank()[-1]
        if chosen:
            turn.chosen = worst
        expected = worst if chosen else turn.beams.rank()[0]
        turn.deltas.close()
        reply = dialogue.message(turn.replies[0].id)
        text = "".join(token.text for token in expected.spell(engine.text_of))
        assert (reply.text, reply.finish_reason, reply.finished) == (text, "cancelled", True)
        assert [token.id for token in dialogue.tokens(reply.id)] == [beam.token for beam in expected.path]
        assert "".join(delta.text for delta in turn.taken) == text
        assert reply.conversation and history.tree(reply.conversation)[-1].text == text


def test_several_texts_of_a_search_that_is_stopped_are_its_best(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, hashed)
    setup = Setup(options={"num_beams": 4, "max_tokens": 40})
    dialogue = Dialogue(None, kind="completion", setup=setup, warn=print)
    turn = dialogue.continue_text(engine, [("user", "for i in")], n=2)
    while len(turn.beams.beams) < 20:
        next(turn.deltas)
    texts = ["".join(token.text for token in beam.spell(engine.text_of)) for beam in turn.beams.rank()[:2]]
    turn.deltas.close()
    assert [dialogue.message(one.id).text for one in turn.replies] == texts
    assert texts[0] != texts[1]
