"""Serve exports with a real Triton and compare its answers with `chatapp run`.

`PYTHONPATH=tests:tests/offline python -m drills.triton ENVIRONMENT MODEL...`, where ENVIRONMENT was made as
packaging/triton/README.md says. Each model is exported for ONNX Runtime and for OpenVINO, asked by HTTP, in streams of
server-sent events and of gRPC, and then by 200 requests, 8 at a time.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TRITON = ROOT / "packaging" / "triton"
PORT = 18000
PROMPTS = ("Once upon a time", "def read(path):", "The answer is")
TOKENS = 16
MANY, AT_ONCE = 200, 8


def run(model: str, prompt: str, seed: int) -> str:
    """What `chatapp run` says, exactly as JSON has it."""
    command = [sys.executable, "-m", "chatapp", "run", model, prompt, "--seed", str(seed), "--max-tokens", str(TOKENS)]
    more = ["--precision", "f32", "--backend", "onnx", "--json", "--no-history"]
    done = subprocess.run([*command, *more], capture_output=True, encoding="utf-8", check=True, cwd=ROOT)
    text: str = json.loads(done.stdout)["text"]
    return text


@contextmanager
def serving(environment: Path, repository: Path) -> Iterator[None]:
    """A server that is ready, until it has ended."""
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(
            [str(TRITON / "start.sh"), str(repository), str(PORT)],
            env={**os.environ, "ENVIRONMENT": str(environment)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            while not is_ready():
                if server.poll() is not None:
                    log.seek(0)
                    raise SystemExit(f"the server ended:\n{log.read()[-5000:]}")
                time.sleep(0.2)
            yield
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def is_ready() -> bool:
    """Whether all models are ready."""
    try:
        connection = HTTPConnection("127.0.0.1", PORT, timeout=2)
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False


def ask(environment: Path, requests: list[dict[str, Any]], at_once: int = 1) -> list[dict[str, Any]]:
    """The answers to requests."""
    done = subprocess.run(
        [str(environment / "bin" / "python"), str(TRITON / "client.py"), str(PORT)],
        input=json.dumps({"at_once": at_once, "requests": requests}),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def drill(environment: Path, model: str, decoder: str) -> bool:
    """Export, serve and ask one model; tells what was found, and whether all is well."""
    expected = {(prompt, seed): run(model, prompt, seed) for prompt in PROMPTS for seed in (1, 2)}
    cases = list(expected)
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "repository"
        command = [sys.executable, "-m", "chatapp", "export", "triton", model, str(repository), "--decoder", decoder]
        subprocess.run([*command, "--check"], check=True, cwd=ROOT)
        with serving(environment, repository):
            well = True
            for how in ("generate", "stream", "grpc"):
                asked = [
                    {"how": how, "inputs": {"text_input": prompt, "seed": seed, "max_tokens": TOKENS}}
                    for prompt, seed in cases
                ]
                answers = ask(environment, asked)
                same = sum(one.get("text") == expected[case] for one, case in zip(answers, cases, strict=True))
                parts = sum(one.get("parts", 0) for one in answers) / len(answers)
                print(f"  {how}: {same} of {len(cases)} as chatapp run, {parts:.0f} parts each")
                well &= same == len(cases)
            text = PROMPTS[0]
            for _ in range(6):
                text += ask(environment, [{"how": "ensemble", "inputs": {"TEXT": text}}])[0]["text"]
            print(f"  ensemble: {text!r}")
            many = (cases * (MANY // len(cases) + 1))[:MANY]
            ways = [("stream", "grpc", "generate")[i % 3] for i in range(MANY)]
            asked = [
                {"how": how, "inputs": {"text_input": prompt, "seed": seed, "max_tokens": TOKENS}}
                for how, (prompt, seed) in zip(ways, many, strict=True)
            ]
            start = time.perf_counter()
            answers = ask(environment, asked, AT_ONCE)
            seconds = time.perf_counter() - start
            same = sum(one.get("text") == expected[case] for one, case in zip(answers, many, strict=True))
            print(f"  {MANY} requests, {AT_ONCE} at once: {same} as chatapp run, in {seconds:.1f} s")
            return well and same == MANY


def main() -> None:
    """Drill every model that is given; the exit code is 1 where an answer was lost or another."""
    environment, *models = sys.argv[1:]
    results = []
    for model in models:
        for decoder in ("onnx", "openvino"):
            print(f"{model}, {decoder}", flush=True)
            results.append(drill(Path(environment).absolute(), model, decoder))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
