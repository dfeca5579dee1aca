"""What several requests to one model cost together: eight at once, five completions, a prompt that joins, and a
conversation that is opened again. What is compared takes turns in one process."""

import argparse
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatapp.generation.engine import Engine

WORDS = ("The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "while", "seven", "wizards", "mix")


def prompt(place: int, words: int) -> str:
    """A text that differs from every other from its first word on."""
    return f"{place} " + " ".join(WORDS[(place * 7 + at * (place + 1)) % len(WORDS)] for at in range(words))


def draw(engine: "Engine", text: str, count: int, n: int = 1) -> list[float]:
    """The seconds of each step after the first token."""
    from chatapp.generation import Options

    end = {token: -100.0 for token in engine.tokenizer.eos}
    options = Options(max_tokens=count, n=n, temperature=0.8, logit_bias=end, speculate=False)
    deltas = [delta for delta in engine.complete(text, options) if delta.index == 0]
    return [token.seconds for delta in deltas for token in delta.tokens][1:]


def rate(engine: "Engine", at_once: int, count: int) -> float:
    """Tokens a second of so many requests together, by the usual time from token to token of each."""
    texts = [prompt(place, 20 + 9 * place) for place in range(at_once)]
    for text in texts:  # prompts are read before, so that only steps are measured
        draw(engine, text, 1)
    found: list[float] = []
    threads = [threading.Thread(target=lambda t=text: found.extend(draw(engine, t, count))) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return at_once / statistics.median(found)


def step(engine: "Engine", n: int, count: int) -> float:
    """Seconds of a step of n completions."""
    return statistics.median(draw(engine, prompt(0, 20), count, n))


def reopen(engine: "Engine", words: int, folder: Path) -> tuple[float, float]:
    """Seconds until the first token after a long prompt: when it is read, and when the disk has what was read."""
    from chatapp.generation.states import States

    states, cache, text = States(folder), engine._cache, prompt(3, words)

    def first(found: bool) -> float:
        with engine.turns.alone():
            cache.forget()
            cache.prefixes.clear()
        start = time.perf_counter()
        if found and (kept := states.read("1", engine.placement, {})):
            cache.arrived.append(kept)
        draw(engine, text, 1)
        return time.perf_counter() - start

    read = first(found=False)
    with engine.turns.alone():
        if kept := cache.extract(engine.tokenizer.encode_prompt(text)):
            states.write("1", kept, {})
    return read, first(found=True)


def stall(engine: "Engine", words: int) -> tuple[float, float]:
    """The longest wait for a token while a long prompt joins, and the usual wait before."""
    from chatapp.generation import Options

    end = {token: -100.0 for token in engine.tokenizer.eos}
    waits, joined = list[tuple[float, float]](), 0.0
    stream = engine.complete(prompt(1, 10), Options(max_tokens=400, logit_bias=end))
    other: threading.Thread | None = None
    last = time.perf_counter()
    for delta in stream:
        waits += [(last, token.seconds) for token in delta.tokens]
        last = time.perf_counter()
        if not other and len(waits) > 5:  # of a tiny model many tokens come in one delta
            joined = last
            other = threading.Thread(target=lambda: draw(engine, prompt(2, words), 4))
            other.start()
        elif other and not other.is_alive():  # with a token at least since it joined
            break
    stream.close()
    if other:
        other.join()
    return max(wait for at, wait in waits if at >= joined), statistics.median(wait for at, wait in waits if at < joined)


def measure(engine: "Engine", arguments: argparse.Namespace) -> dict[str, float]:
    """One turn of each figure."""
    count = arguments.tokens
    engine.turns.at_once = 8
    alone, eight = rate(engine, 1, count), rate(engine, 8, count)
    one, five = step(engine, 1, count), step(engine, 5, count)
    longest, usual = stall(engine, arguments.words)
    with tempfile.TemporaryDirectory() as folder:
        read, opened = reopen(engine, arguments.words, Path(folder))
    return {
        "tokens/s of 1": alone, "tokens/s of 8": eight, "times as many": eight / alone,
        "ms of a step, n = 1": 1e3 * one, "ms of a step, n = 5": 1e3 * five, "times as long": five / one,
        "ms from token to token": 1e3 * usual, "the longest while a prompt joins": 1e3 * longest,
        "ms to read a conversation": 1e3 * read, "ms to open it again": 1e3 * opened, "times as quick": read / opened,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a folder made by checkpoints.py, or builtin")
    parser.add_argument("--backend", default="onnx")
    parser.add_argument("--precision", help="int8, unless the model is builtin")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--words", type=int, default=280, help="of the prompt that joins, and of the conversation")
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.model != "builtin":
        folder = Path(arguments.model).absolute()
        arguments.model, arguments.precision = str(folder), arguments.precision or "int8"
        os.environ.setdefault("CHATAPP_HOME", str(folder.parent / "chatapp"))
    from chatapp.placement.opening import open_engine
    from chatapp.placement.selection import PlacementOptions
    from chatapp.settings import settings
    from model_store import Store

    where = PlacementOptions(arguments.backend, precision=arguments.precision)
    engine = open_engine(Store(settings.home() / "models"), arguments.model, where)
    turns = [measure(engine, arguments) for _ in range(arguments.turns)]
    for name in turns[0]:
        figures = [turn[name] for turn in turns]
        print(f"{name:34} {statistics.median(figures):9.2f}  ({min(figures):.2f} to {max(figures):.2f})")


if __name__ == "__main__":
    main()
