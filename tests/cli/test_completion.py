"""What shells are offered for the end of a line."""

from pathlib import Path

import pytest

from chatapp.cli.completion import offers
from chatapp.settings import presets
from chatapp.workspace import Workspace
from support.checkpoints import Run


@pytest.fixture
def things(home: Path) -> None:
    """A thing of each kind that has a name."""
    home.mkdir()
    (home / "settings.toml").write_text('[mcp.clock]\ncommand = ["clock"]\n', "utf-8")
    (home / "remotes.toml").write_text('[desk]\nurl = "http://127.0.0.1:9"\nmodels = ["big"]\n', "utf-8")
    (home / "prompts").mkdir()
    (home / "prompts" / "pirate.md").write_text("Talk like a pirate.", "utf-8")
    presets.save(home / "presets.toml", "calm", {"temperature": 0.1})
    with Workspace().open_history() as history:
        history.add(history.create(model="builtin").id, "user", "hello", parent=None)


@pytest.mark.usefixtures("things")
@pytest.mark.parametrize(
    ("end", "offered"),
    [
        ("exp", {"export"}),
        ("export ", {"openvino", "onnx", "ovms", "gguf", "qaic", "triton"}),
        ("export gguf --precision ", {"f32", "f16", "q8_0"}),
        ("run --device cpu bu", {"builtin"}),
        ("show ", {"builtin", "big@desk"}),
        ("rm builtin 'big@", {"big@desk"}),
        ("cp builtin n", set()),
        ("run --backend=on", {"--backend=onnx"}),
        ("run --precision mx6", {"mx6"}),
        ("run --preset ca", {"calm"}),
        ("run --system @p", {"@pirate", "@programmer"}),
        ("run --tools ", {"clock"}),
        ("run --remote ", {"desk"}),
        ("run --temperature ", set()),
        ("run --off", {"--offline"}),
        ("run builtin -- --off", set()),
        ("sessions rm ", {"1"}),
        ("mcp remove ", {"clock"}),
        ("service in", {"install"}),
        ("editor neo", {"neovim"}),
        ("ls --js", {"--json"}),
        ("nonsense ", set()),
    ],
)
def test_what_is_known_is_offered(end: str, offered: set[str]) -> None:
    assert offers(f"chatapp {end}")[0].keys() == offered


@pytest.mark.parametrize(("end", "code"), [("rm ./x", 1), ("run --grammar ", 1), ("run --seed ", 0), ("'", 0), ("", 0)])
def test_the_exit_code_tells_where_a_file_may_stand(chatapp: Run, end: str, code: int) -> None:
    done = chatapp("completion", "--line", f"chatapp {end}")
    assert (done.returncode, done.stderr) == (code, "")
