"""The text that drills type into every editor."""

BEFORE = '''\
"""Count the words of a file."""

import argparse
from pathlib import Path


def main() -> None:
    """Count them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    print(len(given.file.read_text().split()))


'''
TYPED = "if __name__"
"""Not indented, since editors indent by themselves; nothing in the file begins like its last word."""
BEYOND = 'note = "ä 日本 𝒜"; given = '
"""The beginning of a line, after which each of the three ways of counting has another number."""
CALL, REST = "parser.par", "se_args()"
"""What is typed behind it, and what the file itself says then, as likely as is shown unasked."""
