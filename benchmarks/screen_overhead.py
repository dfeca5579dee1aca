"""What the screen costs the model: the time per token with and without it, turn by turn, in a real terminal."""

import argparse
import asyncio
import fcntl
import json
import os
import pty
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

PROMPT = "def fibonacci(n):"


def measure(model: str, tokens: int, pairs: int, results: Path) -> None:
    """Open the screen and let the model write, in alternation on the screen and behind its back."""
    from chatapp.generation import Options, Usage
    from chatapp.settings.settings import Settings
    from chatapp.tui import app as tui
    from chatapp.workspace import Workspace

    options = Options(max_tokens=tokens, seed=1)
    turns: list[dict[str, Any]] = []

    class Unkept(Workspace):
        """A home in which no conversation is kept."""

        def read_settings(self) -> Settings:
            return replace(super().read_settings(), history=False)

    class Timed(tui.ChatApp):
        """Presses its own keys."""

        def on_mount(self) -> None:
            self.run_worker(self.play())

        async def play(self) -> None:
            while not (self.chat_screen.pane.opened and self.chat_screen.pane.dialogue):
                await asyncio.sleep(0.05)
            for turn in range(2 * pairs + 2):
                usage, processor = await self.shown() if turn % 2 else await asyncio.to_thread(self.bare)
                seconds = sum(usage.latencies)
                turns.append({"seconds": seconds / len(usage.latencies), "share": processor / seconds})
            results.write_text(json.dumps(turns[2:]))  # the first pair warms up
            self.exit()

        async def shown(self) -> tuple[Usage, float]:
            pane = self.chat_screen.pane
            assert pane.dialogue
            plain = {"max_tokens": tokens, "seed": 1, "temperature": 0.8, "repetition_penalty": 1.0, "stop": ()}
            plain |= {"dry_multiplier": 0.0, "file_start": 0, "indentation": 0, "stop_at_dedent": 0}
            pane.dialogue.change(replace(pane.dialogue.setup, options=plain))  # as it is behind its back
            pane.completion_page.insert(PROMPT)
            await asyncio.sleep(0.1)
            start = time.thread_time()
            await pane.ask()
            while pane.reply:
                await asyncio.sleep(0.05)
            processor = time.thread_time() - start
            assert pane.newest and (usage := pane.newest.figures.usage), "the reply was cut off"
            await self.chat_screen.action_new()
            await asyncio.sleep(0.1)
            return usage, processor

        def bare(self) -> tuple[Usage, float]:
            assert self.chat_screen.pane.opened
            *_, last = self.chat_screen.pane.opened.engine.complete(PROMPT, options)
            assert last.usage
            return last.usage, 0.0

    sys.setswitchinterval(0.00005)  # as run() does
    Timed(Unkept(), model=model).run()


def in_terminal(model: str, tokens: int, pairs: int) -> list[dict[str, Any]]:
    """Measure in a pseudo-terminal of 120 by 40."""
    results = Path(tempfile.mkdtemp()) / "results.json"
    child, terminal = pty.fork()
    if not child:
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        measure(model, tokens, pairs, results)
        os._exit(0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    output = bytearray()

    def read() -> None:
        try:
            while piece := os.read(terminal, 65536):
                output.extend(piece)
        except OSError:  # the other side has ended
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    os.waitpid(child, 0)
    reader.join(1)
    if not results.exists():
        raise SystemExit(f"no figures; the last output was {output[-3000:].decode(errors='replace')}")
    found: list[dict[str, Any]] = json.loads(results.read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--tokens", type=int, default=400, help="of each turn")
    parser.add_argument("--pairs", type=int, default=12, help="of turns, one shown and one not")
    arguments = parser.parse_args()
    turns = in_terminal(arguments.model, arguments.tokens, arguments.pairs)
    bare, shown = turns[::2], turns[1::2]
    losses = sorted(s["seconds"] / b["seconds"] - 1 for b, s in zip(bare, shown, strict=True))
    alone, seen = (statistics.median(turn["seconds"] for turn in kind) * 1000 for kind in (bare, shown))
    print(f"{alone:.3f} ms per token alone, {seen:.3f} ms on the screen (medians of {len(bare)} turns)")
    print(f"pair by pair: median {statistics.median(losses):+.1%}, from {losses[0]:+.1%} to {losses[-1]:+.1%}")
    print(f"the screen takes {statistics.median(turn['share'] for turn in shown):.1%} of a core while the model writes")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    main()
