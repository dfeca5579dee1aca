"""What `cp`, `du`, `gc` and `cache` accept."""

import argparse
from collections.abc import Callable

COPY = """\
Both names share the files, so that the copy takes no room where the disk knows links; what happens to one leaves the
other as it is.
"""
USAGE = """\
OWN is of the checkpoint in the store, SHARED what other models have as well, LOWERED what was made for the backends.
A checkpoint that was linked where it is takes no room in the store.
"""
COLLECT = """\
Deletes files that no model has, pulls that were stopped more than a week ago, what killed processes left, and models
lowered for other versions of their runtimes. What another process works on is left alone.
"""
CACHE = "Runtimes keep compiled models for a quicker start. What is deleted is made again when it is needed."


def add_commands(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """Add the commands with `command`, which takes a name, a summary and details."""
    copy = command("cp", "give a model a second name", COPY)
    copy.add_argument("model", metavar="MODEL")
    copy.add_argument("new", metavar="NEW")

    usage = command("du", "tell what each model takes on the disk", USAGE)
    usage.add_argument("--json", action="store_true", help="print JSON")

    collect = command("gc", "delete what no model needs", COLLECT)
    collect.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    collect.add_argument("--json", action="store_true", help="print JSON")

    cache = command("cache", "list what runtimes keep for a quicker start, or delete it", CACHE)
    cache.add_argument("action", choices=("list", "clear"), nargs="?", default="list", metavar="list|clear")
    cache.add_argument("models", metavar="MODEL", nargs="*", help="with clear: only of these models")
    cache.add_argument("--json", action="store_true", help="print JSON")
