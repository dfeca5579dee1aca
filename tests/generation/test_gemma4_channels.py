"""Gemma 4 writes its thinking, its calls and their quotes with special tokens: they are told, read, and put back."""

import json
from pathlib import Path

import pytest
import tokenizers

from chatapp.generation import Message, ToolCall
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.thinking import TOLD, Parts, split
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.generation.text.tools import Listener, read_calls
from support.scripted_session import write_tokenizer

MARKS = "<|turn>", "<turn|>", "<|think|>", "<|tool_response>", "<tool_response|>", *sorted(TOLD)
TEMPLATE = """{%- if enable_thinking | default(false) -%}{{ '<|turn>system <|think|><turn|>' }}{%- endif -%}
{%- for message in messages -%}
{{ '<|turn>' + message.role + ' ' }}
{%- for call in message.tool_calls or [] -%}
{{ '<|tool_call>call:' + call.function.name + '{' }}
{%- for key, value in call.function.arguments | dictsort -%}{{ key + ':<|"|>' + value + '<|"|>' }}{%- endfor -%}
{{ '}<tool_call|>' }}
{%- endfor -%}
{%- for answer in message.tool_responses or [] -%}
{{ '<|tool_response>' + answer.name + '{value:<|"|>' + answer.response + '<|"|>}<tool_response|>' }}
{%- endfor -%}
{{ message.content.split('<channel|>')[-1] }}
{%- if not message.tool_responses -%}{{ '<turn|>' }}{%- endif -%}
{%- endfor -%}
{%- if not messages[-1].tool_responses -%}{{ '<|turn>model ' }}{%- endif -%}
{%- if not enable_thinking | default(false) -%}{{ '<|channel>thought <channel|>' }}{%- endif -%}"""
"""What decides in the published one: who answers within whose turn, and where the model does not think."""
THOUGHT = "<|channel>thought\nThey greet me.\n<channel|>"
CALL = '<|tool_call>call:weather{city:<|"|>Ulm, "an der" Donau: {x}<|"|>,days:[1,2.5],exact:true}<tool_call|>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_tokenizer(tmp_path_factory.mktemp("gemma4"), chat_template=TEMPLATE)
    vocabulary = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocabulary.add_special_tokens(list(MARKS))
    vocabulary.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("reply", [THOUGHT + "Good day", THOUGHT + CALL, CALL])
def test_a_reply_is_told_with_its_marks(folder: Path, reply: str) -> None:
    tokenizer = Tokenizer(folder)
    detokenizer = tokenizer.detokenizer()
    tokens = [*tokenizer.encode_template(reply), *tokenizer.encode_template("<turn|>")]
    assert "".join(map(detokenizer.add, tokens)) == reply == tokenizer.decode(tokens)
    assert split(reply) == Parts("They greet me." if THOUGHT in reply else "", reply.removeprefix(THOUGHT))


def test_other_vocabularies_hide_such_tokens(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path)
    vocabulary = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocabulary.add_special_tokens(["<|channel>", "<channel|>"])
    vocabulary.save(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer(folder)
    assert tokenizer.decode(tokenizer.encode_template("<|channel>so")) == "so"


@pytest.mark.parametrize(
    ("spelt", "arguments"),
    [
        (
            'city:<|"|>Ulm, "an der" Donau: {x}<|"|>,days:[1,2.5],exact:true',
            ('Ulm, "an der" Donau: {x}', [1, 2.5], True),
        ),
        ('city:<|"|><|"|>,days:[],exact:false', ("", [], False)),
        (
            'exact:true,days:[<|"|>a:b<|"|>,{deep:{<|"|>k<|"|>:null}}],city:-3',
            (-3, ["a:b", {"deep": {"k": None}}], True),
        ),
    ],
)
def test_calls_are_read(spelt: str, arguments: tuple[object, ...]) -> None:
    expected = dict(zip(("city", "days", "exact"), arguments, strict=True))
    for end in "<tool_call|>", "":
        (call,) = read_calls(f"<|tool_call>call:weather{{{spelt}}}{end}", ["weather"])
        assert call.name == "weather" and json.loads(call.arguments) == expected
    first, second = read_calls(CALL + "<|tool_call>call:now{}<tool_call|>", ["weather", "now"])
    assert (first.name, second.name, second.arguments) == ("weather", "now", "{}")
    assert not [*read_calls(CALL.replace("{city", "[city"), ["weather"])] + [*read_calls(CALL, ["other"])]


def test_a_call_is_held_back_while_it_is_written() -> None:
    listener = Listener(["weather"])
    told = "".join(map(listener.add, ["I ask. ", CALL[:5], CALL[5:20], CALL[20:]]))
    rest, (call,) = listener.end()
    assert (told, rest, call.name) == ("I ask. ", "", "weather")


def test_what_a_function_answers_is_within_the_turn_that_calls_it(folder: Path) -> None:
    template, tokenizer = ChatTemplate(folder), Tokenizer(folder)
    call = ToolCall("weather", '{"city": "Ulm"}', "abcdefghi")
    talk = [
        Message("user", "And Ulm?"),
        Message("assistant", "", (call,)),
        Message("tool", 'rain <turn|> and <|"|>', answers=call),
    ]
    (prompt,) = template.render(talk, think=True)
    assert prompt.endswith(
        '<|turn>assistant <|tool_call>call:weather{city:<|"|>Ulm<|"|>}<tool_call|>'
        '<|tool_response>weather{value:<|"|>rain <turn|> and <|"|><|"|>}<tool_response|>'
    )
    names = [*map(tokenizer.name, template.encode(talk, tokenizer, think=True))]
    assert names.count("<turn|>") == 2  # of the system's and the user's turns
    assert names.count('<|"|>') == 4


def test_thinking_is_switched_and_that_of_earlier_turns_left_out(folder: Path) -> None:
    template, tokenizer = ChatTemplate(folder), Tokenizer(folder)
    assert template.thinking_choices == (False, True) and template.find_opening() == ""
    talk = [Message("user", "Hello"), Message("assistant", THOUGHT + "Good day"), Message("user", "And now?")]
    for think, channels in (None, 1), (False, 1), (True, 0):
        tokens = template.encode(talk, tokenizer, think=think)
        names = [*map(tokenizer.name, tokens)]
        assert (names.count("<|channel>"), names.count("<|think|>")) == (channels, int(think is True))
        assert "greet" not in tokenizer.decode(tokens) and "Good day" in tokenizer.decode(tokens)
