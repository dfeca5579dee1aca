"""What is typed after a slash, as the function that does it and its arguments."""

from dataclasses import fields

import pytest

from chatapp.commands import actions, parameters, run
from chatapp.commands.actions import explain, listed, parse
from chatapp.commands.commands import Command
from chatapp.commands.parse import text_of
from chatapp.generation import Options
from chatapp.text.errors import InputError


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/set parameter temperature 0.7", Command(run.set_option, ("temperature", 0.7))),
        ("/set parameter top-k 10", Command(run.set_option, ("top_k", 10))),
        ("/set parameter num_predict 64", Command(run.set_option, ("max_tokens", 64))),
        ("/set parameter num_predict -1", Command(run.set_option, ("max_tokens", None))),
        ("/set parameter repeat_penalty 1.2", Command(run.set_option, ("repetition_penalty", 1.2))),
        ("/set parameter seed none", Command(run.set_option, ("seed", None))),
        ("/set parameter stop END OF TEXT", Command(run.set_option, ("stop", ("END OF TEXT",)))),
        (r'/set parameter stop "a \"b\"" "\n"', Command(run.set_option, ("stop", ('a "b"', "\n")))),
        ("/set parameter stop none", Command(run.set_option, ("stop", ()))),
        ("/set parameter logit_bias 5=-100 6=1.5", Command(run.set_option, ("logit_bias", {5: -100.0, 6: 1.5}))),
        ("/set parameter logit_bias none", Command(run.set_option, ("logit_bias", {}))),
        ("/set system Be brief.", Command(run.set_system, ("Be brief.",))),
        ('/set system "Be brief."', Command(run.set_system, ("Be brief.",))),
        ('/set system """\nBe brief.\nBe kind.\n"""', Command(run.set_system, ("Be brief.\nBe kind.",))),
        ("/set system", Command(run.set_system, ("",))),
        ("/set history", Command("begin", (True,))),
        ("/set nohistory", Command("begin", (False,))),
        ("/set verbose", Command("tell_timings", (True,))),
        ("/set format json", Command(run.set_option, ("json_object", True))),
        ("/set noformat", Command(run.set_option, ("json_object", False))),
        ("/show", Command(run.show, ("info",))),
        ("/show license", Command(run.show, ("license",))),
        ("/show licence", Command(run.show, ("license",))),
        ("/load qwen2.5", Command(run.choose_model, ("qwen2.5",))),
        ("/load './my model'", Command(run.choose_model, ("./my model",))),
        ("/model", Command(run.choose_model, ("",))),
        ("/list", Command(run.choose_model)),
        ("/model qwen2.5", Command(run.choose_model, ("qwen2.5",))),
        ("/save About whales", Command(run.rename, ("About whales",))),
        ("/clear", Command("begin")),
        ("/new", Command("begin")),
        ("/again", Command("again")),
        ("/edit", Command("edit", ("",))),
        ("/edit What is a whale?", Command("edit", ("What is a whale?",))),
        ("/copy", Command(run.copy, (None,))),
        ("/copy 2", Command(run.copy, (2,))),
        ("/export", Command(run.export, ("markdown", ""))),
        ("/export html", Command(run.export, ("html", ""))),
        ("/export JSON out.txt", Command(run.export, ("json", "out.txt"))),
        ("/export 'my talk.html'", Command(run.export, (None, "my talk.html"))),
        ("/export talk.html", Command(run.export, (None, "talk.html"))),
        ("/export markdown talk", Command(run.export, ("markdown", "talk"))),
        ("/import conversations.json", Command(run.import_file, ("conversations.json",))),
        ("/theme", Command("choose_theme", ("",))),
        ("/theme paper", Command("choose_theme", ("paper",))),
        ("/search blue whales", Command(run.search, ("blue whales",))),
        ("/preset", Command(run.choose_preset, ("",))),
        ("/preset careful", Command(run.choose_preset, ("careful",))),
        ("/?", Command(actions.show_help, ("",))),
        ("/help", Command(actions.show_help, ("",))),
        ("/? shortcuts", Command(actions.show_help, ("shortcuts",))),
        ("/? /set", Command(actions.show_help, ("set",))),
        ("/help show", Command(actions.show_help, ("show",))),
        ("/bye", Command("leave")),
        ("/exit", Command("leave")),
        ("  /BYE ", Command("leave")),
    ],
)
def test_a_line_that_begins_with_a_slash_is_a_command(line: str, command: Command) -> None:
    assert parse(line) == command


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
    assert parse(line) is None
    assert text_of(line) == text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/claer", "unknown command /claer; did you mean /clear?"),
        (
            "/usr/bin/env",
            "unknown command /usr/bin/env; @ before a path attaches the file; // sends a leading slash",
        ),
        ("/", "unknown command /; /? lists all; // sends a leading slash"),
        ("/set", "/set needs one of: parameter NAME VALUE, system TEXT, think, nothink, history or nohistory"),
        ("/set paramter seed 1", "there is no setting 'paramter'; did you mean parameter?"),
        ("/retry", "unknown command /retry; did you mean /again?"),
        ("/models", "unknown command /models; did you mean /model?"),
        ("/pull gpt2", "unknown command /pull; on the screen, ctrl+p finds 'Download a model'"),
        ("/file a.txt", "unknown command /file; @ before a path attaches the file"),
        ("/temp 0.5", "unknown command /temp; did you mean /set parameter temperature?"),
        ("/system Be brief.", "unknown command /system; did you mean /set system?"),
        ("/set format xml", "the only format is json; for a schema, use /set parameter json_schema FILE"),
        ("/set history please", "/set history takes no value: remove 'please'"),
        ("/set parameter temprature 1", "there is no parameter 'temprature'; did you mean temperature?"),
        ("/set parameter num_ctx 4096", "there is no parameter 'num_ctx': the context is as long as the model's"),
        ("/set parameter n 3", "there is no parameter 'n'; to list them: /? set"),
        ("/set parameter", "no parameter given; for example: /set parameter temperature 0.7; to list them: /? set"),
        ("/set parameter seed", "no value given for seed, such as: /set parameter seed 42"),
        ("/set parameter seed x", "'x' is not a value of seed, such as: /set parameter seed 42"),
        ("/set parameter stop", 'no value given for stop, such as: /set parameter stop "END"'),
        ("/set parameter logit_bias", "no value given for logit_bias, such as: /set parameter logit_bias 50256=-100"),
        ("/set parameter logit_bias 5", "'5' is not a value of logit_bias"),
        ("/set parameter top_p 1.5", "top_p must be above 0 and at most 1, not 1.5"),
        ("/set parameter num_predict 0", "num_predict must be a whole number, 1 or more, not 0"),
        ("/set parameter temperature nan", "temperature must be 0 (greedy) or from 0.0001 to 100, not nan"),
        ("/show lisense", "there is no 'lisense' to show; did you mean license?"),
        ("/export pdf", "there is no format 'pdf'; choose from markdown, html and json, or a file: pdf.md"),
        ("/load", "this command needs a model"),
        ("/clear all", "this command takes no argument: remove 'all'"),
        ("/copy 0", "'0' is not the number of a code block; they are counted from 1"),
        ("/? whales", "there is no help on 'whales'; /? lists the commands, /? shortcuts the keys"),
    ],
)
def test_what_is_no_command_is_refused_with_what_was_meant(line: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        parse(line)
    assert str(error.value).startswith(says)


def test_every_option_of_an_answer_can_be_set_but_those_of_the_screen() -> None:
    assert set(parameters.PARAMETERS) == {field.name for field in fields(Options)} - {"n", "logprobs", "think", "tools"}


@pytest.mark.parametrize("name", parameters.PARAMETERS)
def test_the_example_of_a_parameter_is_one(name: str) -> None:
    command = parse(f"/set parameter {name} {parameters.PARAMETERS[name].example}")
    assert command and command.act is run.set_option and command.arguments[0] == name


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("seed none", "random"),
        ("seed 42", "42"),
        ("max_tokens none", "no limit"),
        ("temperature 0", "greedy"),
        ("temperature 0.2", "0.2"),
        ("top_k 0", "off"),
        ('stop "A" "\\n"', "A, \\n"),
        ("stop none", "none"),
        ("stop a\x1b[2J", "a␛[2J"),
        ("logit_bias 5=-3 6=-inf", "5=-3, 6=-inf"),
        ("json_object true", "true"),
        ("early_stopping never", "never"),
        ("speculate none", "when it helps"),
        ("regex none", "any text"),
        (f"regex {'x' * 100}", "x" * 59 + "…"),
    ],
)
def test_a_value_is_told_in_words(typed: str, told: str) -> None:
    command = parse(f"/set parameter {typed}")
    assert command and parameters.describe_value(*command.arguments) == told


def test_help_tells_every_command_and_every_parameter() -> None:
    lines = explain().splitlines()
    assert len(lines) == len(listed()) + 2
    assert "/clear                     start a new conversation" in lines
    assert all(len(line) <= 80 for line in lines)
    told = explain("/set").splitlines()
    width = max(map(len, parameters.PARAMETERS))
    assert all(f"{name:{width}}  {one.does}" in told for name, one in parameters.PARAMETERS.items())
    assert explain("/show").endswith("template, license or modelfile")
    assert explain("/again") == "/again\n  answer the last question again"


def test_help_says_of_set_history_what_it_does() -> None:
    told = explain("/set")
    assert "/set nohistory             start a conversation that is not saved" in told
    assert "/set history               start a conversation that is saved" in told


def test_no_two_slash_commands_share_a_name_and_the_help_tells_of_each() -> None:
    names = [name for slash in actions.SLASHES for name in slash.names]
    assert len(set(names)) == len(names)
    assert all(explain(name).startswith(name) for name in names)
    assert {usage.split()[0] for usage, _ in listed()} == set(names)
    assert all(parse(usage) for usage, _ in listed() if usage.startswith("/set") and usage.islower())
