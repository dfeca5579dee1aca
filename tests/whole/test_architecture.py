"""What holds for the whole: what an import may load, that versions agree."""

import json
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import no_network
import pytest

import chatapp
from chatapp.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGES = ("backends", "chatapp", "model_store", "themes")
FOLDERS = (*PACKAGES, "benchmarks", "packaging", "tests")
HEAVY = {
    "coremltools",
    "huggingface_hub",
    "jinja2",
    "llguidance",
    "ml_dtypes",
    "numpy",
    "onnx",
    "onnxruntime",
    "openvino",
    "sqlite3",
    "textual",
    "tokenizers",
    "torch",
    "transformers",
}


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh Python has loaded after `code`."""
    names = "{name.partition('.')[0] for name, module in sys.modules.items() if module}"  # None is one that is barred
    report = f"import json, sys; print('\\n' + json.dumps(sorted({names})))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def exiting(*commands: list[str]) -> str:
    return (
        "import chatapp.cli.main\n"
        f"for words in {list(commands)}:\n    try: chatapp.cli.main.main(words)\n    except SystemExit: pass"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import chatapp",
        "import chatapp.cli.main",
        "import chatapp.settings.settings",
        "import chatapp.generation",
        "import chatapp.models.jobs",
        "import chatapp.models.suggestion",
        "import backends",
        exiting(*([name, "--help"] for name in COMMANDS)),
        exiting(["--version"]),
        exiting(["run", "builtin", "--temprature", "1"]),
        exiting(["run", "builtin", "--backend", "nonsense"]),
        exiting(["sessions", "rm", "one"]),
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    assert not loaded_by(code) & HEAVY


@pytest.mark.parametrize(
    ("arguments", "command"),
    [(["--help"], []), (["--version"], []), (["du", "--help"], ["du"]), (["help", "ls"], ["list"])],
)
def test_only_the_command_that_is_given_is_imported(arguments: list[str], command: list[str]) -> None:
    found = "[name for name in chatapp.cli.main.COMMANDS if f'chatapp.cli.{name}' in sys.modules]"
    code = f"{exiting(arguments)}\nimport sys\nprint({found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(command)


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [(["list"], {"numpy", "ml_dtypes"}), (["show", "builtin"], {"numpy", "ml_dtypes"}), (["devices"], set())],
)
def test_listings_load_no_runtime(arguments: list[str], allowed: set[str]) -> None:
    assert not loaded_by(exiting(arguments)) & HEAVY - allowed


def test_a_first_answer_waits_for_no_module_that_it_does_not_need() -> None:
    code = exiting(["run", "builtin", "def add(a, b):", "--max-tokens", "2"])
    needless = {
        "backends.quantize",
        "concurrent.futures",
        "importlib.metadata",
        "logging",
        "ml_dtypes",
        "model_store.hub",
    }
    report = f"{code}\nimport sys\nprint(sorted({needless} & set(sys.modules)))"
    for _ in range(2):  # the first time, it is lowered
        done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_network_is_refused_here_and_in_the_processes_that_tests_start() -> None:
    with pytest.raises(no_network.NetworkUsed):
        socket.create_connection(("example.com", 80))
    code = "import socket\nsocket.create_connection(('192.0.2.1', 80))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "NetworkUsed: a connection to 192.0.2.1" in done.stderr


def test_every_module_says_what_it_is() -> None:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    files = [path for path in found if "node_modules" not in path.parts]
    assert not [str(path.relative_to(ROOT)) for path in files if not path.read_text().startswith(('"""', 'r"""'))]


def test_the_folder_packaging_hides_no_module() -> None:
    assert not (ROOT / "packaging" / "__init__.py").exists()
    import packaging.version

    assert not str(packaging.version.__file__).startswith(str(ROOT / "packaging"))


def test_versions_agree() -> None:
    assert f"\n## [{chatapp.__version__}] - " in (ROOT / "CHANGELOG.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]


def test_the_reference_is_no_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = " ".join(project["dependencies"] + extras["dev"])
    assert "torch" not in named
    assert "transformers" not in named


def test_the_worked_example_of_a_family_is_the_family() -> None:
    example = (ROOT / "model_store" / "families" / "qwen3.py").read_text()
    assert f"```python\n{example}```" in (ROOT / "CONTRIBUTING.md").read_text()


def test_every_model_type_is_in_the_manual() -> None:
    from model_store import families

    models = (ROOT / "docs" / "models.md").read_text().partition("\n## ")[0]
    assert not {name for name in families.names() if f"| {name} |" not in models}
