"""Moses' words as they arrive, for BioGPT; tests/generation/test_tokenizer.py compares whole texts with sacremoses."""

import json
from pathlib import Path

import pytest

from chatapp.generation.errors import GenerationError
from chatapp.generation.text.moses import Sentence, join_words, split_words
from chatapp.generation.text.tokenizer import Tokenizer, open_tokenizer
from model_store.tokenizers.tokenizer import convert

GOLDEN = Path(__file__).parents[1] / "golden_tokenizers" / "biogpt"


@pytest.fixture
def biogpt(tmp_path: Path) -> Tokenizer:
    (tmp_path / "made.json").write_text(json.dumps(convert(GOLDEN)))
    return open_tokenizer(GOLDEN, tmp_path / "made.json")


def test_a_text_becomes_words_without_what_ends_or_joins_them() -> None:
    expected = "IL @-@ 6 &apos;s role ( Fig . 2 , No. 5 ) wasn &apos;t clear ... see Dr. Smith ."
    assert split_words("IL-6's role (Fig. 2, No. 5) wasn't clear... see Dr. Smith.") == expected.split()


def test_words_become_text_with_spaces_where_they_belong() -> None:
    assert join_words(["He</w>", "said</w>", ":</w>", "&quot;</w>", "5</w>", "%</w>", "&quot;</w>", ".</w>"]) == (
        'He said: "5%".'
    )
    assert join_words(["(</w>", "the</w>", "Jones</w>", "&apos;</w>", "house</w>", ")</w>"]) == "(the Jones' house)"
    assert join_words(["un", "fin", "ished"]) == "unfinished"


def test_a_word_is_told_as_soon_as_no_dash_can_follow() -> None:
    sentence = Sentence()
    assert [sentence.grow(piece) for piece in ("in", "ter</w>", "@", "-@</w>", "nal</w>", "us", "e</w>")] == [
        "", "", "", "", "", "inter-nal", "",
    ]  # fmt: skip
    assert sentence.finish() == " use"


def test_a_continuation_begins_with_the_space_or_the_dash_that_it_needs(biogpt: Tokenizer) -> None:
    def continued(prompt: str, *names: str) -> str:
        detokenizer = biogpt.detokenizer(biogpt.encode_prompt(prompt))
        tokens = [token for name in names if (token := biogpt.token_id(name)) is not None]
        assert len(tokens) == len(names)
        return "".join([*map(detokenizer.add, tokens), detokenizer.flush()])

    assert continued("The end", "of</w>", "the</w>") == " of the"
    assert continued("The end", ",</w>") == ","
    assert continued("IL", "@-@</w>", "6</w>") == "-6"
    assert continued('It is "', "the</w>", "&quot;</w>") == 'the"'


def test_an_alternative_is_described_without_what_ends_a_word(biogpt: Tokenizer) -> None:
    token = biogpt.token_id("&quot;</w>")
    assert token is not None and biogpt.detokenizer().describe(token) == '"'


def test_a_chat_template_is_refused(biogpt: Tokenizer) -> None:
    with pytest.raises(GenerationError, match="BioGPT"):
        biogpt.encode_template("x")
