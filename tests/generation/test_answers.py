"""An encoder-decoder from the prompt's text to the answer's: what its tokenizer adds, what the cache may not keep."""

import json
import shutil
import string
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Vocabulary

import backends
from backends import Session
from backends.reference import Session as ReferenceSession
from backends.rereading import PART
from chatapp.generation import GenerationError, Options, PromptTooLong
from chatapp.generation.engine import Engine
from chatapp.generation.text.infill import find_gap
from chatapp.generation.text.tokenizer import Tokenizer
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from support.checkpoints import HERE, Run
from support.scripted_session import text_of, usage_of

GOLDEN = Path(__file__).parents[1] / "golden_answers"
PAD, END = 0, 1
SPECIAL = ["<pad>", "</s>", "<unk>"]
SENTINELS = ["<extra_id_1>", "<extra_id_0>"]
PIECES = ["▁", *string.ascii_letters, *"0123456789", *".,:;!?'-", *(f"▁{letter}" for letter in "abcdefghijklmnopqr")]
GREEDY = Options(temperature=0, max_tokens=12, logit_bias={END: -100})


def write_tokenizer(folder: Path, sentinels: bool = True) -> Path:
    """Write a tokenizer like T5's, for 96 tokens: letters, an end after every text, sentinels that count down."""
    names = SENTINELS if sentinels else ["▁s", "▁t"]
    pieces = [(piece, -10.0) for piece in (*SPECIAL, *PIECES)]
    pieces += [(f"~{i}", -100.0) for i in range(94 - len(pieces))]
    vocabulary = Vocabulary(models.Unigram([*pieces, *((name, -200.0) for name in names)], 2, False))
    vocabulary.pre_tokenizer = pre_tokenizers.Metaspace()
    vocabulary.decoder = decoders.Metaspace()
    vocabulary.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", END)])
    vocabulary.add_special_tokens([AddedToken(name, normalized=False) for name in (*SPECIAL, *names)])
    assert vocabulary.get_vocab_size() == 96
    vocabulary.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "model_max_length": 512}))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint as it is on the Hub."""
    return write_tokenizer(Path(shutil.copytree(GOLDEN / "t5", tmp_path / "tiny-t5")))


@pytest.fixture
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder)


def open_session(folder: Path, context_length: int | None = None) -> Session:
    checkpoint, family, decoder = open_checkpoint(folder)
    decoder = replace(decoder, context_length=context_length or decoder.context_length)
    return ReferenceSession(decoder, dict(Canonical(checkpoint, family, decoder)))


def greedy(session: Session, prompt: list[int], count: int) -> list[int]:
    """The likeliest answer to a prompt, but for the end."""
    session.rewind(0)
    tokens: list[int] = []
    logits = session.forward(np.array([prompt]))
    while True:
        allowed = logits[0, -1].copy()
        allowed[END] = -np.inf
        tokens.append(int(allowed.argmax()))
        if len(tokens) == count:
            return tokens
        logits = session.forward(np.array([tokens[-1:]]))


@pytest.mark.parametrize("backend", ["reference", *HERE])
def test_the_encoder_reads_the_prompt_as_the_tokenizer_frames_it(
    folder: Path, tokenizer: Tokenizer, backend: str, tmp_path: Path
) -> None:
    session = open_session(folder)
    if backend != "reference":
        checkpoint, family, decoder = open_checkpoint(folder)
        backends.get(backend).lower(decoder, Canonical(checkpoint, family, decoder), tmp_path, precision="f32")
        session = backends.get(backend).load(tmp_path, device="cpu")
    text = "translate English to German: how old are you?"
    deltas = list(Engine(session, tokenizer).complete(text, GREEDY))
    prompt = tokenizer.vocabulary.encode(text).ids
    assert prompt[-1] == END
    expected = greedy(open_session(folder), prompt, 12)
    assert [token.id for delta in deltas for token in delta.tokens] == expected
    assert text_of(deltas) == tokenizer.decode(expected)
    assert usage_of(deltas).prompt_tokens == len(prompt)


def test_the_answer_ends_with_the_end_of_sequence(folder: Path, tokenizer: Tokenizer) -> None:
    deltas = list(Engine(open_session(folder), tokenizer).complete("hello", Options(logit_bias={END: 100})))
    assert (text_of(deltas), deltas[-1].finish_reason) == ("", "stop")


def test_no_part_of_a_prompt_serves_the_next_turn(folder: Path, tokenizer: Tokenizer) -> None:
    engine = Engine(open_session(folder), tokenizer)
    first = text_of(engine.complete("the quick brown fox", GREEDY))
    for text in ("the quick brown fox", "the quick brown fox jumps", "the quick", "the quick brown fox" + first):
        again = list(engine.complete(text, GREEDY))
        assert usage_of(again).cached_tokens == 0
        assert text_of(again) == text_of(Engine(open_session(folder), tokenizer).complete(text, GREEDY))


def test_a_turn_that_was_cancelled_leaves_nothing_behind(folder: Path, tokenizer: Tokenizer) -> None:
    engine = Engine(open_session(folder), tokenizer)
    deltas = engine.complete("the quick brown fox", replace(GREEDY, n=3, seed=1, temperature=1.0))
    for _ in range(5):
        next(deltas)
    deltas.close()
    expected = text_of(Engine(open_session(folder), tokenizer).complete("jumps over", GREEDY))
    assert text_of(engine.complete("jumps over", GREEDY)) == expected


def test_several_answers_read_the_prompt_once_and_differ(folder: Path, tokenizer: Tokenizer) -> None:
    session = open_session(folder)
    options = replace(GREEDY, n=3, seed=5, temperature=2.0)
    deltas = list(Engine(session, tokenizer).complete("the quick brown fox", options))
    assert len({text_of(deltas, index) for index in range(3)}) == 3
    for index in range(3):
        alone = list(Engine(session, tokenizer).complete("the quick brown fox", replace(options, n=index + 1)))
        assert text_of(alone, index) == text_of(deltas, index)


def test_a_long_prompt_is_read_as_a_whole(folder: Path, tokenizer: Tokenizer) -> None:
    text = " ".join("abcdefghijklmnopqr"[i * i % 18] for i in range(PART + 30))
    deltas = list(Engine(open_session(folder, 1000), tokenizer).complete(text, GREEDY))
    prompt = tokenizer.encode_whole(text)
    assert len(prompt) > PART
    assert all(delta.tokens for delta in deltas)  # no part of the prompt has one of its own
    expected = greedy(open_session(folder, 1000), prompt, 12)
    assert [token.id for delta in deltas for token in delta.tokens] == expected


def test_prompt_and_answer_share_the_context(folder: Path, tokenizer: Tokenizer) -> None:
    engine = Engine(open_session(folder, 40), tokenizer)
    deltas = list(engine.complete("a b c d e f g h", replace(GREEDY, max_tokens=None)))
    usage = usage_of(deltas)
    assert (usage.prompt_tokens, usage.completion_tokens) == (9, 40 - 9 + 1)
    assert deltas[-1].finish_reason == "length"
    with pytest.raises(PromptTooLong, match="too long by 1 token \\(41 of 40\\)"):
        engine.complete("a " * 39 + "a", GREEDY)


def test_penalties_are_about_the_answer_alone(folder: Path, tokenizer: Tokenizer) -> None:
    prompt = tokenizer.encode_whole("a")
    logits = open_session(folder).forward(np.array([prompt]))[0, 0]
    ahead = float(logits.max() - logits[prompt[0]]) + 0.01  # for the prompt's token to win, if only just
    options = Options(temperature=0, logit_bias={prompt[0]: ahead}, repetition_penalty=9.0, max_tokens=2)
    deltas = list(Engine(open_session(folder), tokenizer).complete("a", options))
    assert deltas[0].tokens[0].id == prompt[0] != deltas[1].tokens[0].id


def test_a_gap_is_a_sentinel_and_the_middle_ends_at_the_next(folder: Path, tokenizer: Tokenizer) -> None:
    gap = find_gap(tokenizer)
    assert gap is not None
    assert (gap.sentinel, gap.end) == (95, frozenset({END, 94}))
    prompt = gap.prompt(tokenizer, "a b", "c d", 100)
    assert prompt == [*tokenizer.encode("a b"), 95, *tokenizer.encode("c d"), END]
    assert len(gap.prompt(tokenizer, "a " * 50, "b " * 50, 30)) == 30
    engine = Engine(open_session(folder), tokenizer)
    deltas = list(engine.infill("a b", "c d", replace(GREEDY, max_tokens=6, logit_bias={END: -100, 94: -100})))
    session = open_session(folder)
    session.forward(np.array([prompt]))
    assert usage_of(deltas).prompt_tokens == len(prompt)
    assert [token.id for delta in deltas for token in delta.tokens] == greedy(open_session(folder), prompt, 6)
    ended = list(engine.infill("a b", "c d", replace(GREEDY, logit_bias={94: 100})))
    assert (text_of(ended), ended[-1].finish_reason) == ("", "stop")


def test_without_sentinels_there_is_no_infilling(folder: Path) -> None:
    tokenizer = Tokenizer(write_tokenizer(folder, sentinels=False))
    engine = Engine(open_session(folder), tokenizer)
    assert not engine.can_infill
    with pytest.raises(GenerationError, match="such as <extra_id_0>"):
        engine.infill("a", "b", GREEDY)


@pytest.mark.parametrize("precision", ["f32", "int8"])
def test_a_folder_answers_on_the_command_line(chatapp: Run, folder: Path, tokenizer: Tokenizer, precision: str) -> None:
    options = ("--temperature", "0", "--max-tokens", "8", "--logit-bias", "1=-100", "--precision", precision)
    done = chatapp("run", str(folder), "how old are you?", *options)
    assert (done.returncode, done.stderr) == (0, "")
    if precision == "f32":
        expected = greedy(open_session(folder), tokenizer.encode_whole("how old are you?"), 8)
        assert done.stdout.removesuffix("\n") == tokenizer.decode(expected).removesuffix("\n")
    assert chatapp("bench", str(folder), "--precision", precision, "--tokens", "4").returncode == 0
