"""Writes the bill of materials of a bundle, by its own program: what is in it, not what is on the machine that made it.

python packaging/sbom.py FOLDER > sbom.cdx.json
"""

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    program = Path(sys.argv[1]).absolute() / "chatapp"
    print(subprocess.run([program, "version", "--bill"], check=True, capture_output=True, text=True).stdout, end="")
