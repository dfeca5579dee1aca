"""Answers that must be something: schemas, expressions, grammars and choices, over random and scripted models."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from weakref import ref

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models

from chatapp.generation import GenerationError, Message, OptionError, Options, Reply
from chatapp.generation.decoding.grammar import Grammar, Vocabulary, check_grammar, write_grammar
from chatapp.generation.engine import Engine
from chatapp.generation.options import check_together
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer, open_tokenizer
from support.scripted_session import CHATML, ScriptedSession, hashed, make_engine, write_tokenizer

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "colours": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
    },
    "required": ["name", "age", "colours"],
    "additionalProperties": False,
}
ARITHMETIC = 'start: sum\nsum: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]{1,3}/\n'
ASKED = {
    "json_schema": json.dumps(SCHEMA),
    "json_object": True,
    "regex": r"[a-f]{2,5}-(größer|日本語)-[0-9]+",
    "grammar": ARITHMETIC,
    "choice": ("yes", "yesterday", "no", "日本"),
}


def is_answer(name: str, text: str) -> bool:
    """Whether a text is what was asked for, as somebody else than llguidance sees it."""
    match name:
        case "regex":
            return bool(re.fullmatch(str(ASKED["regex"]), text))
        case "grammar":
            return bool(re.fullmatch(r"[0-9]{1,3}(\+[0-9]{1,3})*", text))
        case "choice":
            return text in ASKED["choice"]  # type: ignore[operator]
    found = json.loads(text)
    if name == "json_object":
        return isinstance(found, dict)
    assert set(found) == {"name", "age", "colours"} and len(found["name"]) <= 8 and 0 <= found["age"] <= 150
    return isinstance(found["age"], int) and set(found["colours"]) <= {"red", "green"} and len(found["colours"]) <= 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), chat_template=CHATML)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder)


def options(name: str, **more: object) -> Options:
    return Options(**{name: ASKED[name], **more})  # type: ignore[arg-type]


def answer(engine: Engine, options: Options, prompt: str = "hello") -> list[Reply]:
    replies = [Reply() for _ in range(options.n)]
    for delta in engine.complete(prompt, options):
        replies[delta.index].add(delta)
    return replies


ENDS = [0, 7, 98]  # <|endoftext|>, " and }


def wanting_more(tokens: Sequence[int], logits: np.ndarray) -> None:
    """A random model that would rather end its strings, its objects and itself."""
    hashed(tokens, logits)
    logits[ENDS] += 6


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("name", ASKED)
def test_what_a_random_model_says_is_what_was_asked_for(tokenizer: Tokenizer, name: str, temperature: float) -> None:
    for seed in range(6):
        engine, _ = make_engine(tokenizer, wanting_more, context_length=512)
        wanted = options(name, temperature=temperature, top_k=0, top_p=1.0, seed=seed, n=2, logprobs=seed % 2 or None)
        for reply in answer(engine, wanted, f"hello {seed}"):
            assert reply.valid and reply.finish_reason == "stop"
            assert is_answer(name, reply.text), reply.text


@pytest.mark.parametrize("name", ASKED)
def test_every_mask_is_that_of_texts_that_can_go_on(tokenizer: Tokenizer, name: str) -> None:
    """A token is allowed where, and only where, what it spells can follow: asked of llguidance byte by byte."""
    vocabulary = Vocabulary(tokenizer, 400)
    byte = {bytes([content]): token for token in range(400) if len(tokenizer.content(token)) == 1
            for content in tokenizer.content(token)}  # fmt: skip
    chance, tokens = Random(name), list[int]()
    grammar = Grammar(vocabulary, write_grammar(options(name), name), name)
    spelt = Grammar(vocabulary, write_grammar(options(name), name), name)
    for _ in range(25):
        if grammar.ends(tokens):
            break
        allowed = np.flatnonzero(grammar.allowed(tokens)).tolist()
        if not grammar.forced(tokens):
            base = [byte[bytes([one])] for token in tokens for one in tokenizer.content(token)]
            spelt._move(base)
            for token in range(400):
                content = tokenizer.content(token)
                steps = [byte[bytes([one])] for one in content]
                can = bool(content) and spelt.matcher.validate_tokens(steps) == len(steps)
                assert token in tokenizer.eos or (token in allowed) == can, tokenizer.name(token)
        tokens.append(chance.choice([token for token in allowed if token not in tokenizer.eos] or [0]))


def test_a_tokenizer_is_freed_with_what_grammars_have_seen_of_it(folder: Path) -> None:
    tokenizer = Tokenizer(folder)
    vocabulary, held = Vocabulary(tokenizer, 400), ref(tokenizer)
    assert vocabulary("yes") and held() is tokenizer
    del tokenizer, vocabulary
    assert held() is None, "no circle keeps it"


def test_going_back_gives_what_was_there_before(tokenizer: Tokenizer) -> None:
    grammar = Grammar(Vocabulary(tokenizer, 400), write_grammar(options("json_schema"), "json_schema"), "json_schema")
    chance, tokens, masks = Random(3), list[int](), [grammar.allowed([]).copy()]
    for _ in range(30):
        tokens.append(int(chance.choice(np.flatnonzero(masks[-1]).tolist())))
        masks.append(grammar.allowed(tokens).copy())
    other = grammar.copy()
    for _ in range(20):
        length = chance.randrange(len(masks))
        assert (grammar.allowed(tokens[:length]) == masks[length]).all()
    assert (other.allowed(tokens) == masks[-1]).all()


def test_what_must_follow_is_the_rest_of_what_had_to(tokenizer: Tokenizer) -> None:
    def spell(tokens: Sequence[int]) -> bytes:
        return b"".join(map(tokenizer.content, tokens))

    wanted = write_grammar(Options(regex="a younger one [0-9]|b older one [0-9]"), "regex")
    grammar = Grammar(Vocabulary(tokenizer, 400), wanted, "regex")
    firsts = np.flatnonzero(grammar.allowed([])).tolist()
    rests = [list(grammar.forced([first])) for first in firsts]
    assert {spell([first, *rest]).decode() for first, rest in zip(firsts, rests, strict=True)} == {
        "a younger one ",
        "b older one ",
    }
    for first, rest in zip(firsts, rests, strict=True):
        for count in range(len(rest)):
            assert list(grammar.forced([first, *rest[:count]])) == rest[count:]
    assert min(map(len, rests)) > 2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_forced_tokens_skip_the_model_and_change_nothing(tokenizer: Tokenizer, temperature: float) -> None:
    wanted = options("json_schema", temperature=temperature, seed=5)
    engine, session = make_engine(tokenizer, context_length=512)
    (quick,) = answer(engine, wanted)
    slow_engine, slow = make_engine(tokenizer, context_length=512)
    (told,) = answer(slow_engine, options("json_schema", temperature=temperature, seed=5, logprobs=0))
    tokens = [token.id for token in quick.tokens]
    assert tokens == [token.id for token in told.tokens] and quick.text == told.text
    assert len(slow.calls) == len(tokens)  # with log-probabilities the model is asked about each
    assert len(session.calls) < len(tokens) and max(count for _, count in session.calls[1:]) > 2
    assert session.rows[0] == slow.rows[0][: session.length]
    two, _ = make_engine(tokenizer, context_length=512)
    both = answer(two, options("json_schema", temperature=temperature, seed=5, n=2))
    assert both[0].text == quick.text and all(reply.valid for reply in both)


def test_what_forced_tokens_took_is_shared_out_among_them(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, context_length=512)
    (reply,) = answer(engine, options("json_schema", temperature=0.0))
    assert reply.usage and len(reply.latencies) == len(reply.tokens) - 1 == len(reply.usage.latencies)
    assert reply.usage.time_to_first_token == reply.tokens[0].seconds > 0
    assert sum(reply.latencies) > 0 and min(reply.latencies) >= 0


def test_log_probabilities_are_the_models_own(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, context_length=512)
    (reply,) = answer(engine, options("choice", temperature=0.0, logprobs=3))
    logits = np.empty(400, np.float32)
    hashed(tokenizer.encode("hello"), logits)
    chances = logits - logits.max()
    chances = chances - np.log(np.exp(chances).sum())
    first = reply.tokens[0]
    assert first.logprob == pytest.approx(float(chances[first.id]), abs=1e-4)
    assert [other.id for other in first.alternatives] == np.argsort(-chances, kind="stable")[:3].tolist()


@pytest.mark.parametrize("name", ["json_schema", "choice"])
def test_every_beam_is_what_was_asked_for(tokenizer: Tokenizer, name: str) -> None:
    engine, _ = make_engine(tokenizer, wanting_more, context_length=512)
    replies = answer(engine, options(name, num_beams=3, n=3))
    assert all(reply.valid and is_answer(name, reply.text) for reply in replies)
    assert len({tuple(token.id for token in reply.tokens) for reply in replies}) == len(replies)


def test_an_answer_that_was_cut_off_is_not_valid(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, context_length=512)
    (short,) = answer(engine, options("json_schema", max_tokens=5))
    assert short.valid is False and short.finish_reason == "length"
    (stopped,) = answer(engine, options("json_schema", stop=('"age',)))
    assert stopped.valid is False and stopped.finish_reason == "stop"
    (free,) = answer(engine, Options(max_tokens=5))
    assert free.valid is None


def test_penalties_and_bans_act_among_what_is_allowed(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, context_length=512)
    wanted = options("choice", temperature=0.0, bad_words=("no",))
    assert answer(engine, wanted)[0].text in ("yes", "yesterday", "日本")


THINKING = CHATML.replace("{% if", "{# <think> </think> #}{% if")


def make_thinker(
    tmp_path: Path, template: str, reply: str, marks: Sequence[str] = ("<think>", "</think>")
) -> tuple[Engine, Callable[[Options], Reply]]:
    """A model that would say `reply` and nothing else, wherever it stands in it."""
    folder = write_tokenizer(tmp_path, chat_template=template)
    vocabulary = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocabulary.add_tokens(list(marks))
    vocabulary.save(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer(folder)
    size = vocabulary.get_vocab_size()
    spelt = [*tokenizer.encode_template(reply), 0]

    def saying(tokens: Sequence[int], logits: np.ndarray) -> None:
        hashed(tokens, logits)
        for length in range(len(spelt) - 1, -1, -1):
            if list(tokens[len(tokens) - length :]) == spelt[:length]:
                logits[spelt[length]] += 60
                return

    session = ScriptedSession(saying, vocab_size=size, context_length=512)
    engine = Engine(session, tokenizer, ChatTemplate(folder), hold=0.0)

    def ask(options: Options) -> Reply:
        told = Reply()
        for delta in engine.chat([Message("user", "hello")], options):
            told.add(delta)
        return told

    return engine, ask


def test_a_model_thinks_before_what_it_must_answer(tmp_path: Path) -> None:
    _, ask = make_thinker(tmp_path, THINKING, "<think>hello world</think>\nno")
    told = ask(options("choice", temperature=0.0))
    assert told.thinking == "<think>hello world</think>\n" and told.text == "no" and told.valid


def test_a_model_that_would_end_while_it_thinks_goes_on(tmp_path: Path) -> None:
    _, ask = make_thinker(tmp_path, THINKING, "<think>hello")
    told = ask(options("choice", temperature=0.0, max_tokens=30))
    assert told.thinking.startswith("<think>hello") and told.finish_reason == "length" and told.valid is False


def test_where_the_template_has_opened_the_thinking_the_answer_waits(tmp_path: Path) -> None:
    template = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
    _, ask = make_thinker(tmp_path, template, "hello</think>yes")
    told = ask(options("choice", temperature=0.0))
    assert "hello</think>" in told.thinking and told.text in ("yes", "yesterday") and told.valid


def test_a_model_that_does_not_think_is_held_to_it_at_once(tmp_path: Path) -> None:
    _, ask = make_thinker(tmp_path, THINKING, "no")
    told = ask(options("choice", temperature=0.0))
    assert (told.thinking, told.text, told.valid) == ("", "no", True)
    assert told.tokens[0].id != 0


def test_an_answer_that_was_begun_is_gone_on_with(tokenizer: Tokenizer, folder: Path) -> None:
    session = ScriptedSession(hashed, vocab_size=400, context_length=512)
    engine = Engine(session, tokenizer, ChatTemplate(folder), hold=0.0)
    begun = tokenizer.encode('{"name": "x", "age":')
    told = Reply()
    for delta in engine.chat([Message("user", "hello")], options("json_schema"), begun):
        told.add(delta)
    assert told.valid and is_answer("json_schema", '{"name": "x", "age":' + told.text)
    with pytest.raises(OptionError, match="json_schema does not allow the answer's beginning"):
        engine.chat([Message("user", "hello")], options("json_schema"), tokenizer.encode("hello"))


def test_byte_fallback_tokens_spell_what_the_vocabulary_lacks(tmp_path: Path) -> None:
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "yes", "▁yes", "n", "o", "▁n"]
    vocabulary = tokenizers.Tokenizer(
        models.BPE({piece: place for place, piece in enumerate(pieces)}, [("n", "o")][:0], byte_fallback=True,
                   unk_token="<unk>")
    )  # fmt: skip
    vocabulary.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    vocabulary.add_special_tokens(["<unk>", "</s>"])
    vocabulary.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    tokenizer = Tokenizer(tmp_path)
    session = ScriptedSession(hashed, vocab_size=len(pieces), context_length=64)
    engine = Engine(session, tokenizer, hold=0.0)
    for seed in range(4):
        (reply,) = answer(engine, Options(choice=("日本語", "yes no", " no"), seed=seed, top_k=0), "yes")
        assert reply.text in ("日本語", "yes no", " no") and reply.valid


def test_a_tokenizer_whose_tokens_are_no_bytes_is_refused(tmp_path: Path) -> None:
    tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")).save(str(tmp_path / "tokenizer.json"))
    engine, session = make_engine(open_tokenizer(tmp_path), vocab_size=2)
    with pytest.raises(GenerationError, match="tokens stand for no bytes, which json_schema, json_object, regex"):
        engine.complete("a", options("choice"))
    assert not session.calls


@pytest.mark.parametrize(
    ("name", "value"),
    [("regex", r"[^\s\S]"), ("regex", "(){1}"), ("grammar", 'start: "a" start')],
)
def test_what_allows_nothing_is_refused_before_any_work(tokenizer: Tokenizer, name: str, value: str) -> None:
    engine, session = make_engine(tokenizer)
    with pytest.raises(OptionError, match=f"{name} allows no text at all"):
        engine.complete("hello", Options(**{name: value}))  # type: ignore[arg-type]
    assert not session.calls


WRONG = {
    "json_schema is not JSON: line 2, column 3": {"json_schema": '{"a":\n  ]'},
    "json_schema at #/properties/a/items: Invalid type: strin": {
        "json_schema": '{"properties": {"a": {"items": {"type": "strin"}}}}'
    },
    r"json_schema at #/\$defs/x/items: .*minimum \(5\) is greater than maximum \(3\)": {
        "json_schema": '{"$ref": "#/$defs/x", "$defs": {"x": {"type": "array", "minItems": 1, '
        '"items": {"type": "integer", "minimum": 5, "maximum": 3}}}}'
    },
    r'json_schema at #/properties/b: Unimplemented keys: \["not"\]': {
        "json_schema": '{"properties": {"a": {"type": "string"}, "b": {"not": {"type": "string"}}}}'
    },
    "json_schema at #: Unsatisfiable schema": {"json_schema": "false"},
    "json_schema must be an object, true or false, not 3": {"json_schema": "3"},
    "json_schema is nested too deeply": {"json_schema": '{"items":' * 1000 + "{}" + "}" * 1000},
    "regex is wrong at character 3: unclosed group": {"regex": "ab(c"},
    r'grammar is wrong at line 1, column 8: unknown name: "a"': {"grammar": "start: a"},
    "grammar is wrong at line 2, column 4: Expected token": {"grammar": 'start: "a" | \n  x'},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_told_with_its_place(message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_grammar(Options(**WRONG[message]))  # type: ignore[arg-type]


def test_a_schema_that_is_true_allows_any_json(tokenizer: Tokenizer) -> None:
    found = write_grammar(Options(json_schema="true"), "json_schema")
    grammar = Grammar(Vocabulary(tokenizer, 400), found, "json_schema")
    assert grammar.fits('[1, {"a": null}]') and not grammar.fits("[1")


def test_only_one_of_them_can_be_asked_for() -> None:
    with pytest.raises(OptionError, match="json_object and regex each constrain the whole answer"):
        check_together(Options(regex="a", json_object=True))
    for wrong in ({"regex": ""}, {"json_object": 3}, {"choice": "yes"}, {"choice": ("",)}, {"grammar": 1}):
        with pytest.raises(OptionError):
            Options(**wrong)


def test_a_gap_is_not_a_whole_answer(tmp_path: Path) -> None:
    tokenizer = Tokenizer(write_tokenizer(tmp_path, fim_order="spm"))
    engine, _ = make_engine(tokenizer)
    with pytest.raises(OptionError, match="choice constrains a whole answer"):
        engine.infill("a", "b", options("choice"))
