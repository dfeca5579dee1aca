"""One model in memory: what the programs of a server's user take with it and without, and do when it is killed.

    PYTHONPATH=tests:tests/offline python -m drills.shared

A random llama of some 100 million weights is made in a home of its own; nothing is fetched.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from support.checkpoints import CHAT_TEMPLATE, LLAMA, write_safetensors

WIDTH, WIDE, LAYERS = 768, 3072, 12
ROUNDS = 3
ASKED = ("--max-tokens", "16", "--temperature", "0", "--no-history")
CHATAPP = (sys.executable, "-m", "chatapp")


def make_model(folder: Path) -> None:
    """A llama of random weights with a tokenizer of bytes, which chats."""
    random = np.random.default_rng(0)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: place for place, character in enumerate(alphabet)} | {"<|endoftext|>": 256}

    def matrix(*shape: int) -> np.ndarray:
        return random.normal(0, 0.02, shape).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(257, WIDTH), "model.norm.weight": 1 + matrix(WIDTH)}
    weights["model.embed_tokens.weight"][256] = 0  # the likeliest token is never the end
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        weights |= {f"{prefix}self_attn.{name}_proj.weight": matrix(WIDTH, WIDTH) for name in "qkvo"}
        weights |= {f"{prefix}mlp.{name}_proj.weight": matrix(WIDE, WIDTH) for name in ("gate", "up")}
        weights |= {f"{prefix}mlp.down_proj.weight": matrix(WIDTH, WIDE)}
        weights |= {
            f"{prefix}{name}.weight": 1 + matrix(WIDTH) for name in ("input_layernorm", "post_attention_layernorm")
        }
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", weights)
    sizes = {"hidden_size": WIDTH, "intermediate_size": WIDE, "num_hidden_layers": LAYERS, "vocab_size": 257}
    heads = {"num_attention_heads": 12, "num_key_value_heads": 12}
    (folder / "config.json").write_text(json.dumps(LLAMA | sizes | heads))
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|endoftext|>", "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def ask(*more: str) -> tuple[float, float, str]:
    """Seconds and megabytes of a process that answers once, and the answer."""
    begun = time.perf_counter()
    process = subprocess.Popen([*CHATAPP, "run", "medium", "hello", *ASKED, *more], stdout=-1, text=True)
    assert process.stdout
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert not process.returncode
    return time.perf_counter() - begun, used.ru_maxrss / 1e3, said


def start_server() -> "subprocess.Popen[str]":
    """A server that has opened the model."""
    server = subprocess.Popen([*CHATAPP, "serve", "medium", "--port", "0"], stderr=-1, text=True)
    assert server.stderr
    while "opened medium" not in (line := server.stderr.readline()):
        if not line:
            raise SystemExit(f"the server ended: exit code {server.wait()}")
    return server


def main() -> None:
    """Measure, then kill."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        os.environ |= {"CHATAPP_HOME": str(home), "CHATAPP_BACKEND": "onnx"}
        # In a process of its own: the memory of this one would count as that of those it starts.
        code = "import sys, pathlib; from drills.shared import make_model; make_model(pathlib.Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", code, str(Path(place) / "medium")], check=True)
        subprocess.run([*CHATAPP, "import", str(Path(place) / "medium")], check=True, stdout=-3)
        ask()  # lowers it
        server = start_server()
        try:
            found: dict[str, list[tuple[float, float, str]]] = {"with": [], "without": []}
            for _ in range(ROUNDS):
                found["with"].append(ask())
                found["without"].append(
                    ask("--precision", "int8")
                )  # what it has anyway: but whoever names one opens it
            assert len({said for rows in found.values() for *_, said in rows}) == 1
            for name, rows in found.items():
                seconds, memory = median(row[0] for row in rows), median(row[1] for row in rows)
                print(f"{name} the server: {seconds:.2f} s from start to end, {memory:,.0f} MB at most")
            kill_beside_loop(server)
        finally:
            server.kill()
            server.wait()
        kill_beside("", "run", "medium", "hello", "--max-tokens", "3000", "--temperature", "0", "--no-history")
        kill_beside("def add(a, b):\n    return ", "complete", "medium", "-", "--lines", "8", "-n", "8", "--no-recall")


def kill_beside(given: str, *words: str) -> None:
    """Kill the server in the middle of what a command asks of it; it keeps what there is, or goes on by itself."""
    server = start_server()
    with subprocess.Popen([*CHATAPP, *words], stdin=-1, stdout=-1, stderr=-1) as asking:
        assert asking.stdin and asking.stdout and asking.stderr
        asking.stdin.write(given.encode())
        asking.stdin.close()
        said = b"" if given else asking.stdout.read(20)
        time.sleep(1.0 if given else 0.2)
        server.kill()
        server.wait()
        said += asking.stdout.read()
        complaint = asking.stderr.read().decode()
    print(f"{words[0]}: exit {asking.returncode}, {len(said)} characters, {complaint.strip()!r}")
    assert said and "Traceback" not in complaint and asking.returncode in (0, 1)


def kill_beside_loop(server: "subprocess.Popen[str]") -> None:
    """Kill the server in the middle of an answer to a loop, which answers the next message by itself."""
    words = [*CHATAPP, "chat", "medium", "--plain"]
    with subprocess.Popen(words, stdin=-1, stdout=-1, stderr=-2, text=True, bufsize=1) as loop:
        assert loop.stdin and loop.stdout
        loop.stdin.write("/set parameter num_predict 3000\n/set parameter temperature 0\nhello\n")
        read = ""
        while read.count("medium:") < 1 or len(read.rpartition("medium:")[2]) < 20:
            read += loop.stdout.read(1)
        server.send_signal(signal.SIGKILL)
        loop.stdin.write("/set parameter num_predict 8\nagain\n/bye\n")
        loop.stdin.close()
        rest = loop.stdout.read()
    print(f"killed in the middle; the loop ended with {loop.returncode} and said:\n{rest[-700:]}")


if __name__ == "__main__":
    main()
