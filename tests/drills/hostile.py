"""Render and read generated templates and tokenizers that want all time or memory: each ends in time, with one line.

PYTHONPATH=tests:tests/offline python -m drills.hostile [COUNT] [--seed SEED]
"""

import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from chatapp.generation.text import rendering
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.text.child import describe_ending
from chatapp.text.errors import one_line
from drills.pull import arguments
from support.generated_templates import Chance, template
from support.generated_tokenizers import tokenizer
from support.messages import TALK
from support.scripted_session import write_tokenizer

PROCESSOR, WALL = 10.0, 40.0
"""Seconds of its processes' time, and on the clock of a loaded machine, beyond which a case counts as hanging."""
MEMORY = 1 << 30
"""Bytes of any of its processes."""
TEXTS = ("a", "", "hello abc ü 日 e e  <s> 12", "\0", "lea " * 1000, "l" * 5000, " \n" * 3000, "1a.é" * 1500 + "x")


def main() -> None:
    """Drill as often and with the seed that the arguments say."""
    count, seed = arguments(sys.argv[1:], 250)
    with tempfile.TemporaryDirectory() as temporary:
        print(drill(Path(temporary), count, seed=seed))


def drill(folder: Path, count: int, *, seed: int) -> str:
    """Try `count` models, every second one with a hostile template, the others with a tokenizer; what was found."""
    seen: Counter[str] = Counter()
    failures, said, slowest, largest = list[str](), folder / "said", 0.0, 0
    for turn in range(count):
        chance = Chance(f"{seed} {turn}")
        model = write_tokenizer(folder / f"model-{turn}")
        if turn % 2:
            (model / "tokenizer.json").write_text(tokenizer(chance))
            ending, seconds, memory = watched(partial(read, model), said)
        else:
            (model / "chat_template.jinja").write_text(template(chance))
            ending, seconds, memory = watched(partial(converse, model), said)
        seen[ending] += 1
        slowest, largest = max(slowest, seconds), max(largest, memory)
        told = said.read_text(errors="replace")
        seen["panics of the library"] += "panicked" in told
        if ending not in ("used", "refused") or "Traceback" in told or seconds > PROCESSOR or memory > MEMORY:
            failures.append(f"turn {turn} {ending}: {seconds:.1f} s, {memory >> 20} MB: {told[-1500:]}")
            if kept := os.environ.get("KEEP"):
                model.rename(Path(kept) / f"{seed}-{turn}")
    kinds = ", ".join(f"{number} {what}" for what, number in sorted(seen.items()))
    line = f"{count} hostile models (seed {seed}): {kinds}; slowest {slowest:.1f} s of processor time"
    return "\n".join([f"{line}; {largest >> 20} MB at most; {len(failures)} failures", *failures])


def watched(work: Callable[[], object], said: Path) -> tuple[str, float, int]:
    """How work in a process of its own ended, its seconds of processor time and the bytes it took beyond ours."""
    had = resident()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os._exit(outcome(work))
    end, found = time.monotonic() + WALL, 0
    while not found:
        time.sleep(0.005)
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if not found and time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            found, status, usage = os.wait4(pid, 0)
    most = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    code = os.waitstatus_to_exitcode(status)
    ending = {0: "used", 1: "refused", 2: "failed"}.get(code) or f"ended by {describe_ending(code)}"
    return ending, usage.ru_utime + usage.ru_stime, max(0, most - had)


def resident() -> int:
    """Bytes of memory that this process has, and one that is forked from it begins with; 0 where nobody tells."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


def outcome(work: Callable[[], object]) -> int:
    """0 where work ends well, 1 where it ends with one line for the user."""
    try:
        work()
    except BaseException as error:
        told = one_line(error)
        if not told or len(told) > 1500:
            traceback.print_exc()
            return 2
        return 1
    finally:
        rendering.RENDERER.close()
        sys.stderr.flush()
    return 0


def converse(model: Path) -> None:
    """Write a conversation as its template says."""
    ChatTemplate(model).encode(TALK, Tokenizer(model))


def read(model: Path) -> None:
    """Turn texts into tokens and back, as a template's, as a user's, and piece by piece."""
    tokenizer = Tokenizer(model)
    for text in TEXTS:
        tokens = tokenizer.encode_template(text) + tokenizer.encode_whole(text)
        tokenizer.decode(tokens[:500])
        detokenizer = tokenizer.detokenizer()
        "".join(map(detokenizer.add, tokens[:50])) + detokenizer.flush()


if __name__ == "__main__":
    main()
