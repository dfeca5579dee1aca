"""Damage histories and foreign files at random: every command ends, in time, without a traceback.

PYTHONPATH=tests:tests/offline python -m drills.damage [SEED] [HISTORIES] [FILES]
"""

import contextlib
import io
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from chatapp.cli.main import main
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.history import History
from chatapp.models import suggestion
from chatapp.models.jobs import read_waiting
from chatapp.placement import record
from chatapp.settings import keymap, settings
from chatapp.text.errors import one_line
from chatapp.workspace import Workspace
from support.chatgpt_exports import chatgpt, node
from support.checkpoints import CHAT_TEMPLATE, LLAMA, random_llama, write_safetensors
from support.gguf_conversion import converted
from support.messages import TOKENS, ask
from support.torch_files import tensor
from support.torch_files import write as write_torch
from themes import collect

EXPECTED = ("Error: ", "Warning: ", "Going on ", "No conversations")
"""How lines on standard error begin."""
SLOW = 10.0
"""Seconds beyond which a command counts as hanging."""
GOLDEN = Path(__file__).parents[1] / "golden"
ODD: list[Any] = [  # Any: JSON
    None, True, -1, 0, 1e308, float("nan"), 10**30, 2**63, 0.5, "", "x", "\ud800", "\0", "a" * 1000, [], [[]], {},
    {"a": 1},
]  # fmt: skip
ODD_SQL: list[object] = [None, -1, 0, 2**62, 1e300, "", "x", "[1", "{}", b"\xff\xfe", b"", "1", 2, 3]
SESSIONS = (
    ("ls",), ("ls", "--json"), ("show",), ("show", "2"), ("show", "3", "--json"), ("search", "word"), ("search", "?"),
    ("export", "--all"), ("export", "--all", "--format", "html"), ("export", "--all", "--format", "json"),
    ("rename", "2", "new"), ("rm", "3"), ("undo",),
)  # fmt: skip


class Drill:
    """What was found so far."""

    def __init__(self, seed: int) -> None:
        self.chance, self.seed = random.Random(seed), seed
        self.failures: list[str] = []
        self.codes: Counter[str] = Counter()
        self.slowest = 0.0

    def check(self, what: str, work: Callable[[], object]) -> None:
        """Do something that may be refused in one line, and may do nothing worse."""
        said, start = io.StringIO(), time.monotonic()
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                code = work()
            self.codes[f"code {code}" if isinstance(code, int) else "read"] += 1
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            if not one_line(error):
                self.failures.append(f"{what}: {''.join(traceback.format_exception(error)[-4:])}")
            self.codes["refused"] += 1
        spent = time.monotonic() - start
        self.slowest = max(self.slowest, spent)
        if spent > SLOW:
            self.failures.append(f"{what}: took {spent:.0f} s")
        for line in said.getvalue().splitlines():
            if (
                not line.startswith(("Error: ", "Warning: ", "Going on ", "No conversations"))
                and "left out" not in line
            ):
                self.failures.append(f"{what}: said {line[:200]}")

    def report(self, what: str, count: int) -> str:
        """What was found, in a line, and each failure in more."""
        codes = ", ".join(f"{number} {code}" for code, number in sorted(self.codes.items()))
        line = (
            f"{count} {what} (seed {self.seed}): {codes}; slowest {self.slowest:.1f} s; {len(self.failures)} failures"
        )
        return "\n".join([line, *self.failures])


# Histories


def whole_history() -> bytes:
    """A database with conversations of every kind, in one file."""
    path = settings.home() / "history.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    with History(path) as history:
        for number in range(4):
            said = ask(history, *(f"word {number} {place} **bold** `code`" for place in range(6)))
            ask(history, "another version", conversation=said[0].conversation, parent=said[1].id)
            history.change(said[1], tokens=TOKENS, latencies=(0.1, 0.2))
            history.keep_setup(said[0].conversation, {"model": "tiny", "options": {"temperature": 0.5}, "system": "s"})
        history.restore(history.create("completion", title="a text"), ())
        history.delete(1)
        history.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        history.connection.execute("PRAGMA journal_mode = DELETE")
    content = path.read_bytes()
    path.unlink()
    return content


def damage_history(chance: random.Random, path: Path) -> str:
    """Damage a database; tells how."""
    kind = chance.choice(["flip", "flip", "cut", "zero", "row", "row", "row", "schema", "index"])
    content = bytearray(path.read_bytes())
    if kind == "flip":
        for _ in range(chance.choice([1, 3, 20, 100])):
            content[chance.randrange(100 if chance.random() < 0.1 else len(content))] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del content[chance.randrange(len(content)) :]
    elif kind == "zero":
        start = chance.randrange(len(content))
        content[start : start + 512] = bytes(512)
    path.write_bytes(content)
    if kind in ("row", "schema", "index"):
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for _ in range(chance.randint(1, 5)):
                with contextlib.suppress(sqlite3.Error, sqlite3.Warning):
                    kind = f"{kind}: {damage_sql(chance, connection, kind.partition(':')[0])}"
    return kind


def damage_sql(chance: random.Random, connection: sqlite3.Connection, kind: str) -> str:
    """Damage a row, a table's definition or an index, as no program would."""
    connection.executescript("PRAGMA ignore_check_constraints = ON; PRAGMA writable_schema = ON")
    table = chance.choice(["conversations", "messages", "messages", "tokens"])
    if kind == "row":
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, value = chance.choice(columns), chance.choice(ODD_SQL)
        written = "CAST(? AS TEXT)" if chance.random() < 0.3 else "?"
        statement = f"UPDATE {table} SET {column} = {written} WHERE rowid = ?"
        connection.execute(statement, (value, chance.randint(1, 8)))
        return f"{statement} {value!r}"
    if kind == "schema":
        old, new = chance.choice(["text", "title", "TEXT", "CREATE", "setup", "messages", "words", "("]), "x"
        statement = (
            f"UPDATE sqlite_master SET sql = replace(sql, '{old}', '{new}') WHERE rowid = {chance.randint(1, 12)}"
        )
    else:
        statement = (
            f"DELETE FROM {chance.choice(['words_data', 'words_config', 'words_idx', 'words_docsize', 'messages'])}"
        )
        statement += f" WHERE rowid % 2 = {chance.randint(0, 1)}"
    connection.execute(statement)
    return statement


def drill_histories(count: int, seed: int, *, model: str = "") -> str:
    """Damage `count` histories, and run each command on each."""
    drill, whole, path = Drill(seed), whole_history(), (settings.home() / "history.db")
    commands = [["sessions", *command] for command in SESSIONS]
    if model:
        commands.insert(6, ["run", model, "-c", "word", "--max-tokens", "2"])
    for turn in range(count):
        for left in path.parent.glob(f"{path.name}*"):
            left.unlink()
        path.write_bytes(whole)
        how = damage_history(drill.chance, path)
        for command in commands:
            drill.check(f"history {turn} of seed {seed} ({how}), {' '.join(command)}", partial(main, command))
    return drill.report("histories", count)


# Files


def checkpoint(folder: Path, vocabulary: str) -> Path:
    """A tiny checkpoint with every small file that publishers ship."""
    folder.mkdir(parents=True)
    write_safetensors(folder / "model.safetensors", random_llama())
    (folder / "config.json").write_text(
        json.dumps({**LLAMA, "rope_scaling": None, "architectures": ["LlamaForCausalLM"]})
    )
    (folder / "tokenizer.json").write_text(vocabulary)
    facts = {"eos_token": "<|endoftext|>", "chat_template": CHAT_TEMPLATE, "added_tokens_decoder": {}}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    (folder / "generation_config.json").write_text(
        json.dumps({"temperature": 0.7, "top_k": 40, "eos_token_id": [0, 2]})
    )
    return folder


Base = tuple[str, bytes, Callable[[bytes], object]]
"""Its kind, its content, and what reads a damaged one."""


def bases(folder: Path, vocabulary: str) -> Iterator[Base]:
    """Every foreign file that is read, and what reads it."""
    model = checkpoint(folder / "model", vocabulary)

    def of_model(name: str) -> Callable[[bytes], object]:
        def work(content: bytes) -> object:
            shutil.copy(model / name, folder / "whole")
            (model / name).write_bytes(content)
            try:
                if name == "tokenizer.json":
                    return str(Tokenizer(model / name).encode("some words")) and None
                return main(["import", str(model), "--dry-run"])
            finally:
                shutil.copy(folder / "whole", model / name)

        return work

    for name in sorted(os.listdir(model)):
        yield name, (model / name).read_bytes(), of_model(name)

    def at(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
        def work(content: bytes) -> object:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return read(path)

        return work

    yield "gguf", converted(GOLDEN / "llama"), at("x.gguf", lambda path: main(["import", str(path), "--dry-run"]))
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    bin = write_torch(folder / "bin", {"a": tensor("0", weights)}, {"0": weights}).read_bytes()
    torch = checkpoint(folder / "torch", vocabulary)
    (torch / "model.safetensors").unlink()
    yield (
        "pytorch_model.bin",
        bin,
        at("torch/pytorch_model.bin", lambda path: main(["import", str(torch), "--dry-run"])),
    )

    nodes = {str(one): node(str(one - 1) if one else None, "user", f"word {one}") for one in range(4)}
    exports = {
        "chatgpt": json.dumps(chatgpt(**nodes)),
        "ollama": json.dumps({"model": "m", "messages": [{"role": "user", "content": "word"}]}),
        "modelfile": 'FROM m\nSYSTEM """be\nbrief"""\nMESSAGE user word\nMESSAGE assistant "words"\n',
    }
    for name, text in exports.items():
        yield name, text.encode(), at(name, lambda path: main(["sessions", "import", str(path)]))
    with History(None) as history:
        said = ask(history, "word", "words")
        history.change(said[1], tokens=TOKENS, latencies=(0.1,))
        from chatapp.conversation.files import text_of

        ours = text_of(history, history.list(), "json")
    yield "ours", ours.encode(), at("ours", lambda path: main(["sessions", "import", str(path)]))

    home = settings.home()
    home.mkdir(parents=True, exist_ok=True)

    def own(path: Path, read: Callable[[], object]) -> Callable[[bytes], object]:
        def work(content: bytes) -> object:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            try:
                return read()
            finally:
                path.unlink()

        return work

    yield (
        "settings.toml",
        b'theme = "nord"\nstores = ["a"]\nhistory = true\n',
        own(settings.home() / "settings.toml", lambda: main(["list"])),
    )
    yield (
        "presets.toml",
        b'[mine]\ntemperature = 0.5\nstop = ["x"]\n',
        own(home / "presets.toml", lambda: main(["run", "builtin", "x", "--preset", "none"])),
    )
    yield (
        "keys.toml",
        b'vim = true\n[chat]\nstop = "ctrl+x"\n',
        own(settings.home() / "keys.toml", lambda: str(keymap.read(settings.home() / "keys.toml", [])) and None),
    )
    theme = (Path(__file__).parents[2] / "themes" / "contrast-light.toml").read_bytes()
    yield "theme", theme, own(home / "themes" / "x.toml", lambda: str(collect(home / "themes")) and None)

    store = Workspace().open_store()
    main(["import", str(model), "--name", "mine"])
    made = store.root / "mine"
    measured = {"machine": {}, "measured": [{"placement": {"backend": "onnx", "device": "cpu", "precision": "int8"},
                "first_token": [[8, 0.1]], "p50": 0.1}]}  # fmt: skip
    pulled = {"repository": "org/x", "commit": "0" * 40, "files": {"config.json": {"size": 3, "digest": "a" * 64}}}
    manifest = (made / "model.json").read_bytes()

    def listed() -> object:
        return main(["list", "--json"]) or main(["gc"]) or main(["du"])

    def kept() -> Iterator[Base]:
        def of_manifest(content: bytes) -> object:
            (made / "model.json").write_bytes(content)
            try:
                return listed()
            finally:
                (made / "model.json").write_bytes(manifest)

        yield "model.json", manifest, of_manifest
        yield "pull.json", json.dumps(pulled).encode(), own(store.root / "checkpoints" / "x" / "pull.json", listed)

    yield from kept()
    calibration = made / "calibration.json"
    yield (
        "calibration.json",
        json.dumps(measured).encode(),
        own(calibration, lambda: str(record.read(made, {})) and None),
    )
    use = json.dumps({"placement": measured["measured"][0]["placement"], "times": 1})  # type: ignore[index]
    yield (
        "first_use.json",
        use.encode(),
        own(made / "first_use.json", lambda: str(record.read_first_use(made)) and None),
    )
    yield (
        "jobs.json",
        b'{"pulls": ["a"]}',
        own(home / "jobs.json", lambda: str(read_waiting(home / "jobs.json")) and None),
    )
    yield (
        "offer.json",
        b'{"answered": 1}',
        own(home / "offer.json", lambda: str(suggestion.is_answered(home / "offer.json")) and None),
    )


def mutate(chance: random.Random, content: bytes) -> bytes:
    """The same with something else in it."""
    kind = chance.choice(["json", "json", "json", "flip", "cut", "insert", "bomb", "swap"])
    if kind == "json":
        with contextlib.suppress(ValueError):
            return changed(chance, json.loads(content))
        kind = "flip"
    some = bytearray(content)
    at = chance.randrange(min(len(some), 4000) if chance.random() < 0.8 else len(some))
    if kind == "flip":
        for _ in range(chance.choice([1, 2, 10, 50])):
            some[chance.randrange(min(len(some), 4000))] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del some[at:]
    elif kind == "insert":
        some[at:at] = chance.choice([b"\0", b"\xff\xfe", b"=", b'"', b"]]", b"\n[a]\nb=", bytes(64), b"9" * 5000])
    elif kind == "bomb":
        some[at:at] = chance.choice(
            [b"x = " + b"[" * 5000, b"[" * 100_000, b'{"a":' * 5000, b"a." * 3000, b"\n" + b"a." * 3000 + b"a = 1\n"]
        )
    else:
        some[at : at + 8] = chance.choice([b"\xff" * 8, bytes(8), (1 << 40).to_bytes(8, "little"), b"-1234567"])
    return bytes(some)


def changed(chance: random.Random, value: Any) -> bytes:  # Any: JSON
    """JSON with a few of its values replaced, left out or twice as deep."""
    places: list[tuple[Any, Any]] = []
    rest = [value]
    for one in rest:
        if isinstance(one, dict | list):
            keys = list(one) if isinstance(one, dict) else list(range(len(one)))
            chance.shuffle(keys)
            places += [(one, key) for key in keys[:50]]
            rest += [one[key] for key in keys[:50]]
    if not places or chance.random() < 0.03:
        return json.dumps(chance.choice(ODD)).encode()
    for _ in range(chance.randint(1, 3)):
        inside, key = chance.choice(places)
        with contextlib.suppress(KeyError, IndexError):
            if chance.random() < 0.2:
                del inside[key]
            else:
                inside[key] = chance.choice([*ODD, inside[key], [inside[key]]])
    return json.dumps(value).encode()


def drill_files(count: int, seed: int, folder: Path, vocabulary: str) -> str:
    """Read `count` damaged files, of each kind as many."""
    drill = Drill(seed)
    every = list(bases(folder, vocabulary))
    for turn in range(count):
        kind, content, read = every[turn % len(every)]
        damaged = mutate(drill.chance, content)
        before = len(drill.failures)
        drill.check(f"file {turn} of seed {seed} ({kind})", partial(read, damaged))
        if len(drill.failures) > before and (kept := os.environ.get("KEEP")):
            (Path(kept) / f"{seed}-{turn}-{kind}").write_bytes(damaged)
    return drill.report(f"files of {len(every)} kinds", count)


def main_drill() -> None:
    """Drill with the seed and as often as the arguments say."""
    from conftest import vocabulary

    given = [int(one) for one in sys.argv[1:]]
    seed, histories, files = [*given, *[time.time_ns() % 10**6, 200, 1000][len(given) :]]
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        os.environ |= {"CHATAPP_HOME": f"{temporary}/home", "CHATAPP_BACKEND": "onnx", "COLUMNS": "100"}
        os.environ |= {"HF_HUB_CACHE": f"{temporary}/hub", "OLLAMA_MODELS": f"{temporary}/ollama"}
        words = vocabulary.__wrapped__()  # type: ignore[attr-defined]  # what the fixture gives
        if files:
            print(drill_files(files, seed, Path(temporary) / "files", words))
        if histories:
            tiny = checkpoint(Path(temporary) / "tiny", words)
            main(["import", str(tiny)])
            print(drill_histories(histories, seed, model="tiny"))


if __name__ == "__main__":
    main_drill()
