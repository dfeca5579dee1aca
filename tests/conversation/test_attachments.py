"""chatapp.conversation.attachments: what `@` finds, what comes first, and what goes into the message."""

import os
from pathlib import Path

import pytest

from chatapp.conversation.attachments import (
    FOLDER_LIMIT,
    LARGEST,
    Attachment,
    Candidate,
    attach,
    is_there,
    mention,
    mentions,
    message,
    rank,
    scan,
)
from chatapp.text.errors import InputError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for path, content in {
        "README.md": b"# Read me\n",
        "src/app.py": b"print('app')\n",
        "src/deep/er/maple.py": b"x = 1\n",
        "a file.txt": b"spaces\n",
        "picture.png": b"\x89PNG\0\0",
        ".secret": b"hidden",
        ".git/config": b"hidden",
        "node_modules/left-pad/index.js": b"hidden",
        "src/__pycache__/app.pyc": b"hidden",
        "huge.txt": b"x" * (LARGEST + 1),
    }.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return root


def written(text: str, root: Path) -> tuple[str, tuple[Attachment, ...]]:
    """The whole message, and what is attached to it."""
    attachments = attach(text, root)
    return message(text, attachments), attachments


def paths(candidates: object) -> list[str]:
    assert isinstance(candidates, (list, tuple))
    return [candidate.path for candidate in candidates]


def test_what_is_hidden_binary_or_too_large_is_not_offered(tree: Path) -> None:
    found = scan(tree)
    assert set(paths(found.candidates)) == {
        "README.md", "a file.txt", "src/", "src/app.py", "src/deep/", "src/deep/er/", "src/deep/er/maple.py"
    }  # fmt: skip
    assert found.complete


def test_a_large_tree_is_walked_nearest_first_and_not_to_its_end(tree: Path) -> None:
    found = scan(tree, limit=3)
    assert paths(found.candidates) == ["a file.txt", "README.md", "src/"]
    assert not found.complete
    assert not scan(tree, seconds=-1).complete


def test_a_circle_of_links_ends(tree: Path) -> None:
    (tree / "src" / "loop").symlink_to(tree, target_is_directory=True)
    assert "src/loop/" not in paths(scan(tree).candidates)


def test_a_folder_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert scan(tmp_path / "nowhere").candidates == ()


def test_names_that_cannot_be_shown_are_left_out(tree: Path) -> None:
    (tree / "red\x1b[31m.txt").write_text("x")
    (tree / "bidi\u202etxt.exe").write_text("x")
    assert not [path for path in paths(scan(tree).candidates) if not path.isprintable()]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("app", "src/app.py"),
        ("APP", "src/app.py"),
        ("readme", "README.md"),
        ("maple", "tests/maple_app.py"),
        ("sapp", "src/app.py"),
        ("tests/", "tests/"),
        ("src/ap", "src/app.py"),
        ("conv", "tui/conversation.py"),
        ("mapy", "tests/maple_app.py"),
    ],
)
def test_the_likeliest_comes_first(query: str, first: str) -> None:
    there = ["tests/", "tests/maple_app.py", "happy.txt", "src/app.py", "README.md", "docs/readme_app/other.md",
             "converted/old/thing.txt", "tui/conversation.py"]  # fmt: skip
    assert rank(query, [Candidate(path) for path in there])[0].path == first


def test_what_lacks_a_letter_is_not_offered_and_an_empty_query_offers_the_nearest() -> None:
    there = [Candidate("deep/er/file.py"), Candidate("deep/"), Candidate("file.py")]
    assert rank("xyz", there) == []
    assert paths(rank("", there, limit=2)) == ["deep/", "file.py"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("look at @README.md", ["README.md"]),
        ("@README.md, (@src/app.py). What?", ["README.md", "src/app.py"]),
        ('see @"a file.txt" please', ["a file.txt"]),
        ("the folder @src/", ["src/"]),
        ("the folder @src.", ["src"]),
        ("me@README.md is an address", []),
        ("@property and @nobody", []),
        ("@ alone, @. and @.. too", [".", ".."]),
        ("@" + "x" * 5000, []),
        ("@zero\0", []),
    ],
)
def test_only_what_is_there_is_mentioned(tree: Path, text: str, found: list[str]) -> None:
    assert [mention.path for mention in mentions(text, lambda path: is_there(path, tree))] == found


def test_a_mention_is_read_back_as_it_was_written(tree: Path) -> None:
    for path in ("README.md", "a file.txt", "src/"):
        text = f"see {mention(path)}!"
        (found,) = mentions(text, lambda path: is_there(path, tree))
        assert (found.path, text[found.start : found.end]) == (path, mention(path))


def test_the_text_of_a_file_stands_in_a_fence_under_its_path(tree: Path) -> None:
    text, attachments = written("What does @src/app.py do? @src/app.py", tree)
    assert text == "What does @src/app.py do? @src/app.py\n\nsrc/app.py:\n```py\nprint('app')\n```"
    assert [attachment.path for attachment in attachments] == ["src/app.py"]


def test_a_fence_in_a_file_does_not_close_ours(tree: Path) -> None:
    (tree / "doc.md").write_text("````\n```py\n```\n````\n")
    assert written("@doc.md", tree)[0].endswith("doc.md:\n`````md\n````\n```py\n```\n````\n`````")


def test_a_folder_is_listed_and_its_files_follow(tree: Path) -> None:
    text, (folder,) = written("@src", tree)
    assert "src/:\n```\napp.py\ndeep/er/maple.py\n```" in text
    assert "src/app.py:\n```py\nprint('app')\n```" in text
    assert folder.left_out == 0


def test_what_a_folder_has_no_room_for_is_only_listed(tree: Path) -> None:
    for number in range(3):
        (tree / "src" / f"big{number}.txt").write_text("y" * (FOLDER_LIMIT // 2))
    (tree / "src" / "latin.txt").write_bytes(b"caf\xe9")
    text, (folder,) = written("@src", tree)
    assert "big2.txt (not included)" in text and "latin.txt (not included)" in text
    assert folder.left_out == 3  # app.py and the first of the big ones leave no room for two more
    assert len(text) < 1.1 * FOLDER_LIMIT


def test_a_folder_of_many_files_is_cut(tree: Path) -> None:
    for number in range(300):
        (tree / "src" / f"{number}.txt").write_text("")
    text, (folder,) = written("@src", tree)
    assert "\nand more\n" in text
    assert folder.left_out == 302 - 200


def test_an_empty_folder_says_so(tree: Path) -> None:
    (tree / "empty").mkdir()
    assert "empty/:\n```\n(no text files)\n```" in written("@empty", tree)[0]


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("picture.png", "picture.png is not a text file"),
        ("huge.txt", "huge.txt is too large to attach: 1 MB, at most 1 MB"),
        ("latin.txt", "latin.txt is not text in UTF-8 (byte 3)"),
        ("pipe", "pipe is neither a file nor a folder"),
    ],
)
def test_what_cannot_be_taken_is_refused_by_name(tree: Path, path: str, complaint: str) -> None:
    (tree / "latin.txt").write_bytes(b"caf\xe9")
    os.mkfifo(tree / "pipe")
    with pytest.raises(InputError) as refused:
        attach(f"@{path}", tree)
    assert str(refused.value) == complaint


def test_a_file_named_by_hand_may_be_hidden_or_elsewhere(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("far")
    text, _ = written(f"@.secret @../outside.txt @{tmp_path}/outside.txt", tree)
    assert text.count("far") == 2 and "hidden" in text
