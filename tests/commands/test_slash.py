"""chatapp.commands.parse: what is typed after a slash, as data."""

from dataclasses import fields

import pytest

from chatapp.commands import parameters, parse
from chatapp.commands.commands import (
    Again,
    ChooseTheme,
    Clear,
    Command,
    Copy,
    Edit,
    Export,
    Help,
    Import,
    Leave,
    Load,
    Models,
    Preset,
    Save,
    Search,
    SetHistory,
    SetParameter,
    SetSystem,
    Show,
)
from chatapp.commands.parse import SlashError
from chatapp.generation import Options


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/set parameter temperature 0.7", SetParameter("temperature", 0.7)),
        ("/set parameter top-k 10", SetParameter("top_k", 10)),
        ("/set parameter num_predict 64", SetParameter("max_tokens", 64)),
        ("/set parameter num_predict -1", SetParameter("max_tokens", None)),
        ("/set parameter repeat_penalty 1.2", SetParameter("repetition_penalty", 1.2)),
        ("/set parameter seed none", SetParameter("seed", None)),
        ("/set parameter stop END OF TEXT", SetParameter("stop", ("END OF TEXT",))),
        (r'/set parameter stop "a \"b\"" "\n"', SetParameter("stop", ('a "b"', "\n"))),
        ("/set parameter stop none", SetParameter("stop", ())),
        ("/set parameter logit_bias 5=-100 6=1.5", SetParameter("logit_bias", {5: -100.0, 6: 1.5})),
        ("/set parameter logit_bias none", SetParameter("logit_bias", {})),
        ("/set system Be brief.", SetSystem("Be brief.")),
        ('/set system "Be brief."', SetSystem("Be brief.")),
        ('/set system """\nBe brief.\nBe kind.\n"""', SetSystem("Be brief.\nBe kind.")),
        ("/set system", SetSystem("")),
        ("/set history", SetHistory(True)),
        ("/set nohistory", SetHistory(False)),
        ("/show", Show("info")),
        ("/show license", Show("license")),
        ("/show licence", Show("license")),
        ("/load qwen2.5", Load("qwen2.5")),
        ("/load './my model'", Load("./my model")),
        ("/model", Models()),
        ("/list", Models()),
        ("/model qwen2.5", Load("qwen2.5")),
        ("/save About whales", Save("About whales")),
        ("/clear", Clear()),
        ("/new", Clear()),
        ("/again", Again()),
        ("/edit", Edit()),
        ("/edit What is a whale?", Edit("What is a whale?")),
        ("/copy", Copy()),
        ("/copy 2", Copy(2)),
        ("/export", Export("markdown", "")),
        ("/export html", Export("html", "")),
        ("/export JSON out.txt", Export("json", "out.txt")),
        ("/export 'my talk.html'", Export("markdown", "my talk.html")),
        ("/export talk.html", Export("html", "talk.html")),
        ("/export talk", Export("markdown", "talk")),
        ("/import conversations.json", Import("conversations.json")),
        ("/theme", ChooseTheme()),
        ("/theme paper", ChooseTheme("paper")),
        ("/search blue whales", Search("blue whales")),
        ("/preset", Preset()),
        ("/preset careful", Preset("careful")),
        ("/?", Help()),
        ("/help", Help()),
        ("/? shortcuts", Help("shortcuts")),
        ("/? /set", Help("/set")),
        ("/help show", Help("/show")),
        ("/bye", Leave()),
        ("/exit", Leave()),
        ("  /BYE ", Leave()),
    ],
)
def test_a_line_that_begins_with_a_slash_is_a_command(line: str, command: Command) -> None:
    assert parse.parse(line) == command


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("hello", "hello"),
        ("", ""),
        ("1/2", "1/2"),
        ("//bye is a command", "/bye is a command"),
        ("  //x //y", "  /x //y"),
        ('"""/bye"""', '"""/bye"""'),
    ],
)
def test_every_other_line_is_a_text_and_two_slashes_mean_one(line: str, text: str) -> None:
    assert parse.parse(line) is None
    assert parse.text_of(line) == text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/claer", "unknown command /claer; did you mean /clear?"),
        (
            "/usr/bin/env",
            "unknown command /usr/bin/env; /? lists all; // sends a leading slash",
        ),
        ("/", "unknown command /; /? lists all; // sends a leading slash"),
        ("/set", "say what to set: parameter NAME VALUE, system TEXT, think, nothink, history or nohistory"),
        ("/set paramter seed 1", "there is no setting 'paramter'; did you mean parameter?"),
        ("/set format json", "answers have no set format here; ask for JSON in the message or the system prompt"),
        ("/set verbose", "there is nothing to switch: the latencies are always there"),
        ("/set history please", "nothing follows /set history, but here does 'please'"),
        ("/set parameter temprature 1", "there is no parameter 'temprature'; did you mean temperature?"),
        ("/set parameter num_ctx 4096", "there is no parameter 'num_ctx': the context is as long as the model's"),
        ("/set parameter n 3", "there is no parameter 'n'; known are temperature, "),
        ("/set parameter seed", "say the value of seed, such as: /set parameter seed 42"),
        ("/set parameter seed x", "'x' is no value of seed, such as: /set parameter seed 42"),
        ("/set parameter stop", 'say the value of stop, such as: /set parameter stop "END"'),
        ("/set parameter logit_bias", "say the value of logit_bias, such as: /set parameter logit_bias 50256=-100"),
        ("/set parameter logit_bias 5", "'5' is no value of logit_bias"),
        ("/set parameter top_p 1.5", "top_p must be above 0 and at most 1, not 1.5"),
        ("/set parameter temperature nan", "temperature must be 0 (greedy) or from 0.0001 to 100, not nan"),
        ("/show lisense", "there is no 'lisense' to show; did you mean license?"),
        ("/load", "say which model after the command"),
        ("/clear all", "nothing follows this command, but here does 'all'"),
        ("/copy 0", "'0' is not the number of a code block; they are counted from 1"),
        ("/? whales", "there is no help on 'whales'; /? lists the commands, /? shortcuts the keys"),
    ],
)
def test_what_is_no_command_is_refused_with_what_was_meant(line: str, says: str) -> None:
    with pytest.raises(SlashError) as error:
        parse.parse(line)
    assert str(error.value).startswith(says)


def test_every_option_of_an_answer_can_be_set_but_those_of_the_screen() -> None:
    assert set(parameters.PARAMETERS) == {field.name for field in fields(Options)} - {"n", "logprobs", "think"}


@pytest.mark.parametrize("name", parameters.PARAMETERS)
def test_the_example_of_a_parameter_is_one(name: str) -> None:
    command = parse.parse(f"/set parameter {name} {parameters.PARAMETERS[name].example}")
    assert isinstance(command, SetParameter) and command.name == name


def test_help_tells_every_command_and_every_parameter() -> None:
    lines = parse.explain().splitlines()
    assert len(lines) == len(parse.table()) + 2
    assert "/clear                     begin another conversation" in lines
    assert all(len(line) <= 80 for line in lines)
    for name in parameters.PARAMETERS:
        assert name in parse.explain("/set")
    assert parse.explain("/show").endswith("template, license or modelfile")
    assert parse.explain("/again") == "/again\n  answer the last question once more"


def test_help_says_of_set_history_what_it_does() -> None:
    told = parse.explain("/set")
    assert "/set nohistory  begin another conversation, of which nothing is kept" in told
    assert "/set history    begin another conversation, which is kept" in told
