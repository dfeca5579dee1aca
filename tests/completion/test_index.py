"""The index of a folder: what it finds, against a search that looks everywhere, and what it leaves out."""

import os
import random
import re
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from chatapp.completion import index, sources
from chatapp.completion.index import FolderIndex
from chatapp.completion.matches import LEAST, OCCURRENCES
from chatapp.completion.segment import Segment
from chatapp.text.errors import InputError
from support.patience import PATIENCE, until


def make_folder(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def scanned(folder: Path) -> FolderIndex:
    found = FolderIndex(folder)
    found.scan()
    return found


def names(found: FolderIndex) -> list[str]:
    return [path.relative_to(found.root).as_posix() for path in found.paths]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[FolderIndex]:
    """An index of a folder of two files, kept up to date by its thread."""
    make_folder(tmp_path, {"a.py": "first = 1\n", "b.py": "second = 2\n"})
    found = FolderIndex(tmp_path)
    found.start()
    assert found.scanned.wait(PATIENCE)
    yield found
    found.close()


# What it finds


def test_what_followed_the_same_text_in_other_files_is_told_the_longest_match_first(tmp_path: Path) -> None:
    folder = make_folder(
        tmp_path,
        {
            "a.py": "for item in items:\n    total += item.price\n",
            "b.py": "while other:\n    total += other.weight\n",
            "here.py": "for item in items:\n    total += item.name\n",
        },
    )
    found = scanned(folder).occurrences("\nfor item in items:\n    total += ", folder / "here.py")
    assert [(each.line, each.path) for each in found] == [
        ("item.price", folder / "a.py"),
        ("other.weight", folder / "b.py"),
    ]
    assert [each.length for each in found] == [len("for item in items:\n    total += "), len(":\n    total += ")]


@pytest.mark.parametrize("tail", ["größer = ma", "x = größer.größ", "日本 = 日", "🙂 = größer"])
def test_lengths_are_counted_in_characters(tmp_path: Path, tail: str) -> None:
    folder = make_folder(tmp_path, {"a.py": f"\n{tail}REST of it\r\nnext\r\n"})
    (each,) = scanned(folder).occurrences(tail, None)
    assert (each.length, each.line) == (len(tail), "REST of it")


def plain_occurrences(texts: list[str], tail: str) -> list[tuple[int, str]]:
    """What the index promises: every place that the last whole word precedes, with all that is the same before it."""
    last = re.search(r"(\w+)(\W+\w*)\Z", tail)
    if not last:
        return []
    found = []
    for text in texts:
        for match in re.finditer(rf"(?<!\w){last[1]}(?={re.escape(last[2])})", text):
            end = match.end() + len(last[2])
            length = max(n for n in range(end + 1) if n <= len(tail) and text[end - n : end] == tail[len(tail) - n :])
            found.append((length, text[end:].partition("\n")[0]))
    return sorted((each for each in found if each[0] >= LEAST), reverse=True)


@pytest.mark.parametrize("seed", range(8))
def test_matches_agree_with_a_search_that_looks_everywhere(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    pieces = ["foo", "bar", "baz_1", "größe", ".", "(", ")", " = ", "\n", "\n    ", ", ", "x", "日"]
    texts = ["".join(chance.choices(pieces, k=chance.randrange(1, 120))) for _ in range(12)]
    monkeypatch.setattr(index, "SEGMENT", 400)  # so that there are several
    folder = make_folder(tmp_path, {f"{i}.py": text for i, text in enumerate(texts)})
    found = scanned(folder)
    answered = 0
    for _ in range(200):
        tail = "".join(chance.choices(pieces, k=chance.randrange(1, 6)))
        expected = plain_occurrences(texts, tail)
        told = sorted(((each.length, each.line) for each in found.occurrences(tail, None)), reverse=True)
        if len(told) >= index.FEW:  # then those behind the same two words may do
            assert told == expected[: len(told)]
        else:
            assert told == expected
        answered += bool(told)
    assert answered > 20


def test_where_many_places_match_those_that_match_longest_are_told(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, {"a.py": "x = call(1)\n" * 1000 + "longer = call(2)\n", "b.py": "y = call(3)\n" * 9})
    found = scanned(folder).occurrences("\nlonger = call(", None)
    assert (found[0].line, len(found[0:1])) == ("2)", 1)
    assert len(found) <= OCCURRENCES
    assert len(scanned(folder).occurrences("z = call(", None)) == OCCURRENCES


@pytest.mark.parametrize("tail", ["", "\n", "word", "   ", "(((", "\0", "a\0", "\ud800 = x", "x" * 10_000])
def test_nothing_is_found_where_there_is_nothing_to_go_by(tmp_path: Path, tail: str) -> None:
    folder = make_folder(tmp_path, {"a.py": "word = other\n"})
    assert scanned(folder).occurrences(tail, None) == []


def test_names_are_known_as_whole_words(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, {"a.py": "compute_total(größe)\n", "b.py": "last"})
    found = scanned(folder)
    for name, known in {"compute_total": True, "größe": True, "last": True, "compute": False, "total": False}.items():
        assert found.knows(name) == known, name
    assert not found.knows("") and not found.knows("(") and not found.knows("x" * 500)


def test_names_agree_with_a_search_that_looks_everywhere() -> None:
    chance = random.Random(1)
    text = "".join(chance.choices(["ab", "a", "_", ".", " ", "\n", "b1"], k=3000)).encode()
    segment = Segment([(Path("a"), text)])
    for word in set(re.findall(rb"\w+", text)) | {b"aa", b"zz"}:
        expected = [match.end() + 1 for match in re.finditer(rb"(?<!\w)%s(?!\w)" % word, text)]
        assert sorted(segment.find_word(word).tolist()) == expected


def test_excerpts_are_of_files_that_use_the_same_rare_words_and_do_not_change_while_a_line_is_typed(
    tmp_path: Path,
) -> None:
    other = (
        "import os\n" * 300
        + "def rebate(customer, invoice):\n    return invoice.total - customer.bonus\n"
        + "y = 1\n" * 400
    )
    folder = make_folder(
        tmp_path,
        {
            "shop/rebates.py": other,
            **{f"n{i}.py": f"import os\nvalue_{i} = {i}\n" for i in range(9)},
            "here.py": "import os\n\ndef pay(customer, invoice):\n    rebate(",
        },
    )
    found = scanned(folder)
    prefix = "import os\n\ndef pay(customer, invoice):\n"
    around = found.surroundings(prefix + "    reb", "\n", folder / "here.py")
    assert (around.repository, around.path) == (folder.name, "here.py")
    assert around.excerpts[0].path == "shop/rebates.py"
    assert "def rebate(customer, invoice):\n" in around.excerpts[0].text
    assert len(around.excerpts[0].text) <= 1500 and around.excerpts[0].text.endswith("\n")
    assert "here.py" not in [excerpt.path for excerpt in around.excerpts]
    assert found.surroundings(prefix + "    rebate(custo", "\n", folder / "here.py") is around


# How it is kept up to date


def test_what_changes_appears_and_goes_is_noticed_by_the_next_scan(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, {"a.py": "old_name = 1\n", "gone.py": "leaving = 1\n"})
    found = scanned(folder)
    assert found.knows("old_name") and found.knows("leaving")
    make_folder(folder, {"a.py": "new_name = 22\n", "more.py": "arrived = 1\n"})
    (folder / "gone.py").unlink()
    found.scan()
    known = [found.knows(name) for name in ("old_name", "leaving", "new_name", "arrived")]
    assert known == [False, False, True, True]
    assert names(found) == ["a.py", "more.py"]


def test_what_an_editor_tells_counts_until_the_file_changes(running: FolderIndex) -> None:
    path = running.root / "a.py"
    running.update(path, "edited = 1\n")
    until(lambda: running.knows("edited"))
    assert not running.knows("first")
    running.scan()
    assert running.knows("edited")
    path.write_text("saved = 1\nand_more = 2\n")
    running.scan()
    assert running.knows("saved") and not running.knows("edited")
    running.update(running.root / "never_saved.py", "unsaved = 1\n")
    until(lambda: running.knows("unsaved"))
    running.scan()
    assert not running.knows("unsaved")


def test_whoever_asks_after_a_while_has_the_folder_looked_through_again(
    running: FolderIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(running.root, {"later.py": "later = 1\n"})
    monkeypatch.setattr(running, "_next_scan", 0.0)
    until(lambda: running.knows("later"))


def test_a_secret_or_ignored_file_stays_out_when_an_editor_has_it_open(tmp_path: Path) -> None:
    make_folder(tmp_path, {".gitignore": "private/\n", "a.py": "x = 1\n"})
    found = FolderIndex(tmp_path)
    found.start()
    assert found.scanned.wait(PATIENCE)
    for name in (".env", "private/b.py", "node_modules/c.js", "../outside.py", "server.pem"):
        found.update(tmp_path / name, "hidden_name = 1\n")
    found.update(tmp_path / "new.py", "shown_name = 1\n")
    until(lambda: found.knows("shown_name"))
    found.close()
    assert not found.knows("hidden_name")


def test_many_edits_leave_few_segments_and_no_old_text(tmp_path: Path) -> None:
    found = scanned(make_folder(tmp_path, {f"{i}.py": f"name_{i} = {i}\n" * 50 for i in range(20)}))
    for turn in range(60):
        found.update(tmp_path / f"{turn % 20}.py", f"turn_{turn} = 1\n")
        found._take_edited()
        assert len(found._segments) <= index.SMALL + 2
    assert all(found.knows(f"turn_{turn}") for turn in range(40, 60))
    assert not any(found.knows(f"turn_{turn}") or found.knows(f"name_{turn}") for turn in range(20))


def test_answers_come_while_it_is_still_being_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SEGMENT", 1)
    monkeypatch.setattr(index, "WORK", 0.0)
    found, go = (
        FolderIndex(make_folder(tmp_path, {f"{i:03}.py": f"name_{i} = value({i})\n" for i in range(300)})),
        Event(),
    )
    monkeypatch.setattr(found._closed, "wait", lambda seconds: found.knows("name_0") and go.wait(PATIENCE))
    found.start()
    until(lambda: found.occurrences("name_0 = ", None))
    assert not found.scanned.is_set()
    go.set()
    assert found.scanned.wait(PATIENCE)
    assert len(found.paths) == 300
    found.close()


def test_closing_stops_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "WORK", 0.0)
    monkeypatch.setattr(index, "REST", 0.05)
    found = FolderIndex(make_folder(tmp_path, {f"{i}.py": "x = 1\n" for i in range(400)}))
    found.start()
    found.close()
    assert not found.scanned.is_set()


# What is left out


def test_gitignore_is_read_as_git_reads_it(tmp_path: Path) -> None:
    folder = make_folder(
        tmp_path,
        {
            ".gitignore": "*.tmp.py\n/top.py\nbuild/\ndocs/*.py\n!docs/keep.py\n\\#odd.py\n**/deep/*.py\nfoo*bar.py\n"
            "# a comment\ntrail.py \nspace\\ .py\n!important.tmp.py\nlogs\n",
            "sub/.gitignore": "!again.tmp.py\nlocal.py\n/anchored.py\nmore/*\n!more/this.py\n",
            "sub/more/.gitignore": "*.c\n!kept.c\n",
            **{
                f"{at}{name}": "x = 1\n"
                for at in ("", "sub/", "sub/more/", "docs/", "build/", "a/deep/", "sub/build/", "logs/", "a/b/docs/")
                for name in (
                    *("x.tmp.py", "top.py", "keep.py", "other.py", "#odd.py", "foo-bar.py", "trail.py", "again.tmp.py"),
                    *("important.tmp.py", "local.py", "anchored.py", "this.py", "y.c", "kept.c"),
                )
            },
        },
    )
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".git/info/exclude").write_text("kept.c\n!docs/y.c\nfoo*\n")
    everything = [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts and path.name != ".gitignore"
    ]
    done = subprocess.run(
        ["git", "-C", str(folder), "check-ignore", "--stdin"],
        input="\n".join(everything),
        text=True,
        capture_output=True,
    )
    ignored = set(done.stdout.replace('"', "").splitlines())
    assert 20 < len(ignored) < len(everything) - 20
    assert names(scanned(folder)) == [name for name in everything if name not in ignored]
    assert names(scanned(folder / "sub")) == [  # the rules above count there too
        name.removeprefix("sub/") for name in everything if name.startswith("sub/") and name not in ignored
    ]


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", "prod.env", "key.pem", "server.key", "id_rsa", "id_ed25519.pub", ".netrc", ".npmrc"),
        *("credentials.json", "aws_credentials", "secrets.yaml", "client_secret.json", "passwords.txt", ".pypirc"),
        *("store.jks", "vault.kdbx", "terraform.tfstate", "prod.tfvars", "service-account-1.json", ".git-credentials"),
        *(".ssh/config", "kubeconfig", "oauth_token.json", "env.production"),
    ],
)
def test_secrets_are_never_read(tmp_path: Path, name: str) -> None:
    found = scanned(make_folder(tmp_path, {name: "password_of_mine = 1\n", "secrets.py": "def read_secret(): ...\n"}))
    assert names(found) == ["secrets.py"]
    assert not found.knows("password_of_mine") and found.occurrences("password_of_mine = ", None) == []


def test_a_private_key_is_a_secret_under_any_name(tmp_path: Path) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq6u2f0L1\n" * 4 + "-----END RSA PRIVATE KEY-----\n"
    assert names(scanned(make_folder(tmp_path, {"notes.py": f'KEY = """{key}"""\n', "a.py": "x = 1\n"}))) == ["a.py"]


def test_what_is_binary_generated_vendored_or_of_another_encoding_is_left_out(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.py": "x = 1\n",
        "picture.png": b"\x89PNG",
        "zero.py": b"x = 1\0\n",
        "latin.py": "größe = 1\n".encode("latin-1"),
        "app.min.js": "var x=1\n",
        "minified.js": "var x=1;" * 1000,
        "package-lock.json": "{}\n",
        "Cargo.lock": "x\n",
        "made_pb2.py": "x = 1\n",
        "made.go": "// Code generated by protoc. DO NOT EDIT.\npackage x\n",
        "table.csv": "a,b\n",
        "node_modules/x/index.js": "x\n",
        "env/pyvenv.cfg": "home = /usr\n",
        "env/lib/x.py": "x = 1\n",
        ".cache/x.py": "x = 1\n",
        "empty.py": "",
    }
    found = scanned(make_folder(tmp_path, files))
    assert names(found) == ["a.py"]
    assert found.notice == ""


def test_a_large_file_an_unreadable_folder_and_loops_of_links_cost_one_notice(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, {"a.py": "x = 1\n", "shut/b.py": "y = 1\n", "shut_file.py": "z = 1\n"})
    with open(folder / "huge.py", "wb") as file:
        file.truncate(50 * 1024 * 1024)
    (folder / "loop").symlink_to(folder)
    (folder / "dangling.py").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe.py")
    shut = [folder / "shut", folder / "shut_file.py"]
    for path in shut:
        path.chmod(0)
    try:
        found = scanned(folder)
    finally:
        for path in shut:
            path.chmod(0o700)
    unread = [] if os.geteuid() == 0 else ["2 that cannot be read"]  # root reads everything
    assert ", ".join([*unread, "1 larger than 512 KB"]) in found.notice
    assert "\n" not in found.notice
    assert names(found)[0] == "a.py" and "huge.py" not in names(found)


def test_a_folder_of_very_many_files_costs_one_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_ENTRIES", 50)
    found = scanned(make_folder(tmp_path, {f"{folder}/{i}.py": "x = 1\n" for folder in "abcdef" for i in range(20)}))
    assert "first 50 files and folders" in found.notice
    assert 20 < len(found.paths) <= 50
    monkeypatch.setattr(index, "MOST_TEXT", 60)
    small = scanned(found.root)
    assert "beyond the size of the index" in small.notice and len(small.paths) <= 10
    small.scan()
    assert "beyond the size of the index" in small.notice
    stay = sorted(small.root.rglob("*.py"))[-3:]
    for path in set(small.root.rglob("*.py")).difference(stay):
        path.unlink()
    small.scan()
    for path in stay:
        path.write_text("x = 22\n")
    small.scan()
    assert "beyond the size of the index" not in small.notice and len(small.paths) == 3


def test_a_file_that_there_is_no_room_for_leaves_it_to_smaller_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MOST_TEXT", 60)
    found = scanned(make_folder(tmp_path, {"a.py": "a = 1\n", "b.py": "b" * 100, "c.py": "c = 1\n"}))
    assert names(found) == ["a.py", "c.py"] and "beyond the size of the index" in found.notice


def test_it_takes_about_twice_the_text_in_memory(tmp_path: Path) -> None:
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghij_", k=chance.randrange(2, 12))) for _ in range(2000)]
    text = [" ".join(chance.choices(words, k=12)) + "(x.y)\n" for _ in range(3000)]
    folder = make_folder(tmp_path, {f"{i}.py": "".join(chance.choices(text, k=100)) for i in range(200)})
    size = sum(path.stat().st_size for path in folder.iterdir())
    tracemalloc.start()
    found = scanned(folder)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.size < 2.5 * size and kept < 2.5 * size + 2e6  # of words of six letters, where code has longer ones
    assert peak < kept + 25 * index.SEGMENT


# Which folder


@pytest.mark.parametrize("mark", [".git/HEAD", "pyproject.toml", "package.json", "Cargo.toml", "go.mod"])
def test_the_nearest_folder_of_a_project_is_its_root(tmp_path: Path, mark: str) -> None:
    folder = make_folder(tmp_path, {f"project/{mark}": "", "project/src/deep/a.py": "", "project/src/Makefile": ""})
    assert sources.find_root(folder / "project/src/deep/a.py") == folder / "project"
    assert sources.find_root(folder / "project") == folder / "project"


def test_neither_the_home_directory_nor_the_root_is_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    make_folder(tmp_path, {".git/HEAD": "", "notes/a.py": ""})
    assert sources.find_root(tmp_path / "notes/a.py") is None
    for folder in (tmp_path, Path("/"), tmp_path.parent):
        with pytest.raises(InputError, match="is too wide to be a project"):
            FolderIndex(folder)
    with pytest.raises(InputError, match="is not a folder"):
        FolderIndex(tmp_path / "missing")
