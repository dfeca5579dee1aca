"""Detokenisation token by token against decoding everything at once."""

import gc
import json
import random
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Vocabulary

from chatapp.generation.decoding.stop import StopStrings
from chatapp.generation.text.tokenizer import Tokenizer
from model_store import UnsupportedCheckpoint
from support.scripted_session import write_tokenizer


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("byte_level")))


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """The vocabulary and decoder of a Llama-2-like tokenizer."""
    strip = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    return write_pieces(decoders.Sequence(strip), tmp_path_factory.mktemp("sentencepiece"))


def write_pieces(decoder: decoders.Decoder, folder: Path) -> Tokenizer:
    """A vocabulary of pieces and bytes, with this decoder."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "▁Hello", "▁world", "lo", "!", "▁▁", "é", "日", ","]
    vocabulary = Vocabulary(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>"))
    vocabulary.add_special_tokens(["<unk>", "<s>", "</s>"])
    vocabulary.decoder = decoder
    vocabulary.save(str(folder / "tokenizer.json"))
    return Tokenizer(folder)


def ids(tokenizer: Tokenizer, *names: str) -> list[int]:
    return [token for name in names if (token := tokenizer.token_id(name)) is not None]


def pieces_of(tokenizer: Tokenizer, tokens: list[int]) -> list[str]:
    detokenizer = tokenizer.detokenizer()
    return [*(detokenizer.add(token) for token in tokens), detokenizer.flush()]


def test_what_decodes_bytes_alone_leaves_the_signs_of_spaces(tmp_path: Path) -> None:
    tokenizer = write_pieces(decoders.ByteFallback(), tmp_path)
    tokens = ids(tokenizer, "▁Hello", "<0xC3>", "<0xA9>", "▁")
    text = tokenizer.vocabulary.decode(tokens)
    assert (
        text == b"".join(map(tokenizer.content, tokens)).decode() == "".join(pieces_of(tokenizer, tokens)) == "▁Helloé▁"
    )


def test_a_tokenizer_is_freed_when_nothing_else_holds_it(tmp_path: Path) -> None:
    tokenizer = write_pieces(decoders.ByteFallback(), tmp_path)
    assert tokenizer.whole(ids(tokenizer, "<0x41>")[0]) == "A"
    held = ref(tokenizer)
    gc.disable()
    try:
        del tokenizer
        assert held() is None
    finally:
        gc.enable()


def test_random_tokens_give_the_text_that_decoding_at_once_gives(byte_level: Tokenizer) -> None:
    size, chance = byte_level.vocabulary.get_vocab_size(), random.Random(0)
    for _ in range(2000):
        tokens = [chance.randrange(size + 5) for _ in range(chance.randrange(1, 12))]
        assert "".join(pieces_of(byte_level, tokens)) == byte_level.vocabulary.decode(tokens), tokens


def test_random_bytes_become_replacement_characters_as_when_decoding_at_once(byte_level: Tokenizer) -> None:
    chance, tricky = random.Random(1), bytes.fromhex("00417f80bfc0c2c3e0a0edefbff09f9882f4f5ff")
    byte_tokens = {byte_level.bytes_of(token): token for token in range(byte_level.vocabulary.get_vocab_size())}
    for _ in range(3000):
        tokens = [byte_tokens[bytes([chance.choice(tricky)])] for _ in range(chance.randrange(1, 10))]
        assert "".join(pieces_of(byte_level, tokens)) == byte_level.vocabulary.decode(tokens), tokens


@pytest.mark.parametrize("text", ["größer", "日本語 и русский", "🙂🙃 👩‍👩‍👧‍👦", "a\ud7ff\ue000b", "plain\n\ttext"])
def test_a_character_comes_only_when_it_is_whole(byte_level: Tokenizer, text: str) -> None:
    byte_tokens = {byte_level.bytes_of(token): token for token in range(byte_level.vocabulary.get_vocab_size())}
    pieces = pieces_of(byte_level, [byte_tokens[bytes([byte])] for byte in text.encode()])
    assert [piece for piece in pieces if piece] == list(text)


def test_an_incomplete_character_shows_at_the_end_only(byte_level: Tokenizer) -> None:
    byte_tokens = {byte_level.bytes_of(token): token for token in range(byte_level.vocabulary.get_vocab_size())}
    assert pieces_of(byte_level, [byte_tokens[b"A"], byte_tokens[b"\xf0"], byte_tokens[b"\x9f"]]) == ["A", "", "", "�"]


def test_special_tokens_are_not_shown_but_described_by_name(byte_level: Tokenizer) -> None:
    special = byte_level.token_id("<|im_end|>")
    assert special is not None
    assert pieces_of(byte_level, [*byte_level.encode("a"), special, *byte_level.encode("b")]) == ["a", "", "b", ""]
    assert byte_level.detokenizer().describe(special) == "<|im_end|>"


def test_byte_level_describes_half_a_character_without_changing_the_text(byte_level: Tokenizer) -> None:
    first, second, *_ = "é".encode()
    tokens = {byte_level.bytes_of(token): token for token in range(byte_level.vocabulary.get_vocab_size())}
    detokenizer = byte_level.detokenizer()
    assert detokenizer.add(tokens[bytes([first])]) == ""
    assert detokenizer.describe(tokens[bytes([second])]) == "�"
    assert detokenizer.add(tokens[bytes([second])]) == "é"


def test_sentencepiece_text_with_byte_fallback_is_that_of_decoding_at_once(sentencepiece: Tokenizer) -> None:
    chance, vocabulary = random.Random(2), sentencepiece.vocabulary
    words = [ids(sentencepiece, name) for name in ("▁", "▁Hello", "▁world", "lo", "!", "▁▁", "é", "日", ",", "</s>")]
    words += [ids(sentencepiece, *(f"<0x{byte:02X}>" for byte in text.encode())) for text in ("🙂", "ß", "語", "x")]
    for _ in range(2000):
        tokens = [token for word in chance.choices(words, k=chance.randrange(1, 9)) for token in word]
        assert "".join(pieces_of(sentencepiece, tokens)) == vocabulary.decode(tokens), tokens


def test_an_invalid_byte_among_fallback_bytes_spoils_only_itself(sentencepiece: Tokenizer) -> None:
    tokens = ids(sentencepiece, "▁Hello", "<0xE6>", "<0x97>", "<0xA5>", "<0xFF>", "lo", "<0xE6>", "lo")
    assert pieces_of(sentencepiece, tokens) == ["Hello", "", "", "日", "�", "lo", "", "�lo", ""]


def test_a_continuation_keeps_the_space_that_a_new_text_would_lose(sentencepiece: Tokenizer) -> None:
    hello, world = ids(sentencepiece, "▁Hello", "▁world")
    assert sentencepiece.detokenizer().add(world) == "world"
    assert sentencepiece.detokenizer([hello]).add(world) == " world"


def test_word_ends_of_old_bpe_become_spaces_between_words(tmp_path: Path) -> None:
    vocabulary = Vocabulary(models.BPE({"he": 0, "llo</w>": 1, "you</w>": 2, "!</w>": 3}, []))
    vocabulary.decoder = decoders.BPEDecoder(suffix="</w>")
    vocabulary.save(str(tmp_path / "tokenizer.json"))
    assert pieces_of(Tokenizer(tmp_path), [0, 1, 2, 3, 2]) == ["he", "llo", " you", " !", " you", ""]


def stream(strings: tuple[str, ...], *pieces: str) -> list[str]:
    stops = StopStrings(strings)
    shown = []
    for piece in pieces:
        shown.append(stops.add(piece))
        if stops.found:
            return [*shown, "STOP"]
    return [*shown, stops.flush()]


def test_a_stop_string_split_across_pieces_is_found_and_not_shown() -> None:
    assert stream(("END",), "a E", "N", "D of it") == ["a ", "", "", "STOP"]


def test_a_beginning_that_comes_to_nothing_is_released() -> None:
    assert stream(("END",), "a E", "N", "Z") == ["a ", "", "ENZ", ""]
    assert stream(("END",), "a EN") == ["a ", "EN"]


def test_a_beginning_inside_a_failed_beginning_is_still_held() -> None:
    assert stream(("aab",), "aa", "a", "b") == ["", "a", "", "STOP"]


def test_the_stop_string_that_is_complete_first_wins_however_the_text_is_cut() -> None:
    for pieces in (["xabcd"], ["xab", "cd"], list("xabcd")):
        assert "".join(stream(("abcd", "bc"), *pieces)) == "xaSTOP"


def test_random_texts_stop_where_a_plain_search_says() -> None:
    chance = random.Random(3)
    for _ in range(3000):
        strings = tuple("".join(chance.choices("ab", k=chance.randrange(1, 5))) for _ in range(chance.randrange(1, 4)))
        text = "".join(chance.choices("abc", k=12))
        ends = [(text.find(s) + len(s), text.find(s)) for s in strings if s in text]
        expected = text[: min(ends)[1]] + "STOP" if ends else text
        cut = chance.randrange(12)
        assert "".join(stream(strings, text[:cut], text[cut : cut + 3], text[cut + 3 :])) == expected, (strings, text)


CONTROL = ["<|endoftext|>", "<|im_start|>system", "x<fim_prefix>y", "<|im_start|><|im_end|>", " <|im_end|> "]


@pytest.mark.parametrize("text", CONTROL)
def test_a_user_s_text_never_becomes_a_control_token(byte_level: Tokenizer, text: str) -> None:
    tokens = byte_level.encode(text)
    assert byte_level.control.isdisjoint(tokens)
    assert byte_level.decode(tokens) == text
    assert not byte_level.control.isdisjoint(byte_level.encode_template(text))
    assert byte_level.encode(text) == tokens
    words = byte_level.encode("first second ")
    assert byte_level.encode("first second " + text)[: len(words) - 1] == words[:-1]  # not letter by letter


def test_control_tokens_not_marked_special_are_refused_too_while_runs_of_spaces_are_kept(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_file(str(write_tokenizer(tmp_path) / "tokenizer.json"))
    vocabulary.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("       ", normalized=False)])
    vocabulary.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path)
    call, spaces = tokenizer.token_id("<tool_call>"), tokenizer.token_id("       ")
    words = tokenizer.encode("first second ")
    assert call not in tokenizer.encode("first second <tool_call>")
    assert tokenizer.encode("first second <tool_call>")[: len(words) - 1] == words[:-1]
    assert call in tokenizer.encode_template("a <tool_call>")
    assert spaces in tokenizer.encode("a       b")
    assert call is not None and tokenizer.detokenizer().add(call) == "<tool_call>"


def test_a_vocabulary_that_spells_a_control_token_itself_is_outwitted(tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0), ("</s>", -1.0), *((character, -10.0) for character in "</s>ab")]
    vocabulary = Vocabulary(models.Unigram(list(dict(pieces).items()), 0, False))
    vocabulary.add_special_tokens(["</s>"])
    vocabulary.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path)
    end = tokenizer.token_id("</s>")
    vocabulary.encode_special_tokens = True
    assert end in vocabulary.encode("a</s>b").ids
    assert end not in tokenizer.encode("a</s>b")


def test_a_prompt_begins_as_the_post_processor_says_and_never_ends_so(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path) / "tokenizer.json"
    content = json.loads(path.read_text())
    token = {"id": "<|im_start|>", "ids": [4], "tokens": ["<|im_start|>"]}
    end = {"id": "<|im_end|>", "ids": [5], "tokens": ["<|im_end|>"]}
    single = [
        {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "<|im_end|>", "type_id": 0}},
    ]
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": single,
        "special_tokens": {"<|im_start|>": token, "<|im_end|>": end},
    }
    path.write_text(json.dumps(content))
    tokenizer = Tokenizer(tmp_path)
    assert tokenizer.encode_prompt("hello") == [4, *tokenizer.encode("hello")]


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ({}, {0}),
        ({"generation_config.json": {"eos_token_id": [5, 7]}, "config.json": {"eos_token_id": 5}}, {0, 5, 7}),
        ({"tokenizer_config.json": {"eos_token": {"content": "<|im_end|>"}}}, {5}),
        ({"tokenizer_config.json": {}, "config.json": {"eos_token_id": None}}, set()),
    ],
)
def test_end_of_sequence_ids_come_from_every_file_that_names_some(
    tmp_path: Path, files: dict[str, dict[str, Any]], ends: set[int]
) -> None:
    write_tokenizer(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert Tokenizer(tmp_path).eos == ends


def test_a_missing_or_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"no tokenizer.json"):
        Tokenizer(tmp_path)
    write_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UnsupportedCheckpoint, match="config.json"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UnsupportedCheckpoint, match=r"cannot read .*tokenizer.json"):
        Tokenizer(tmp_path)


def test_truncation_left_in_the_file_does_not_shorten_prompts(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path) / "tokenizer.json"
    vocabulary = Vocabulary.from_file(str(path))
    vocabulary.enable_truncation(2)
    vocabulary.save(str(path))
    assert len(Tokenizer(tmp_path).encode("one two three four five")) > 5


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("letter", "õ÷ÁýÀÿøúþüùöû日")
def test_an_added_token_of_one_letter_is_that_letter_and_no_byte(letter: str, known: bool, tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path) / "tokenizer.json"
    content = json.loads(path.read_text())
    place = 1 + max(content["model"]["vocab"].values())
    place = content["model"]["vocab"].pop(letter, place) if known else place
    content["model"]["vocab"].pop(letter, None)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    if known:
        content["model"]["vocab"][letter] = place
    content["added_tokens"].append({"id": place, "content": letter, **flags})
    path.write_text(json.dumps(content))
    tokenizer = Tokenizer(tmp_path)
    tokens = tokenizer.encode(f"F{letter}hr größer")
    assert tokenizer.token_id(letter) in tokens
    detokenizer = tokenizer.detokenizer()
    assert "".join(map(detokenizer.add, tokens)) + detokenizer.flush() == f"F{letter}hr größer"
    assert tokenizer.decode(tokens) == f"F{letter}hr größer"
    assert tokenizer.detokenizer().describe(tokens[1]) == letter
