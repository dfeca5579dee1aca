"""`chatapp deploy`: replicas of a model on many machines, behind one server."""

import os
import re
import sys
from argparse import ArgumentTypeError, Namespace

from chatapp.cli.arguments import Parser, add_placement, parse_number, parse_path, read_placement
from chatapp.cli.serve import add_address, parse_seconds
from chatapp.text.errors import UsageError
from chatapp.workspace import Workspace

DETAILS = """\
`chatapp deploy ray MODEL` starts replicas of MODEL on Ray and a gateway that answers requests as `chatapp serve` does,
over the APIs of OpenAI and Anthropic. If a replica is lost during an answer, another one continues it.
Without --address, Ray runs on this machine only and stops with this command. In a running cluster the deployment
stays; deploying another model under the same --name updates it without losing a request.
How nodes join, and what was tested: docs/deploy/ray.md.
"""
ONLY = {
    "--no-gateway": "deploy or update MODEL in a running cluster, then exit",
    "--gateway-only": "run only the gateway for the deployment --name; takes no MODEL",
    "--remove": "remove the deployment --name; takes no MODEL",
}


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp deploy ray [MODEL] [options]"
    parser.add_argument("engine", choices=["ray"], metavar="ray")
    parser.add_argument("model", metavar="MODEL", nargs="?", default="")
    what = parser.add_argument_group("deployment")
    what.add_argument("--name", metavar="NAME", default="", help="the deployment's name for clients (default: MODEL)")
    which = what.add_mutually_exclusive_group()
    for flag, help_ in ONLY.items():
        which.add_argument(flag, dest="only", action="store_const", const=flag, default="", help=help_)
    where = parser.add_argument_group("cluster")
    where.add_argument("--address", metavar="HOST:PORT", type=parse_address, help="head node of a cluster")
    where.add_argument("--shared", metavar="DIR", type=parse_path, help="shared folder with the files (default: none)")
    much = parser.add_argument_group("limits")
    much.add_argument("--replicas", metavar="N[:M]", type=parse_range, default=(1, 1), help="N, or N to M (default: 1)")
    much.add_argument("--cpus", metavar="N", type=parse_processors, default=1.0, help="CPUs per replica (default: 1)")
    much.add_argument("--parallel", metavar="N", type=parse_number, default=8, help="answers per replica (default: 8)")
    much.add_argument("--queue", metavar="N", type=parse_number, default=1000, help="requests waiting (default: 1000)")
    much.add_argument("--timeout", metavar="S", type=parse_seconds, default=600.0, help="per answer (default: 10m)")
    much.add_argument(
        "--drain", metavar="S", type=parse_seconds, default=600.0, help="for open answers at shutdown (default: 10m)"
    )
    gateway = parser.add_argument_group("gateway")
    add_address(gateway)
    gateway.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="host name; repeatable")
    keys = gateway.add_mutually_exclusive_group()
    keys.add_argument("--keys", metavar="FILE", type=parse_path, help="keys, one per line (default: generated)")
    keys.add_argument("--without-keys", action="store_true", help="accept requests from this machine without a key")
    add_placement(parser)


def parse_address(text: str) -> str:
    """Parse the HOST:PORT of a cluster's head node."""
    found = re.fullmatch(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):(\d{1,5})", text)
    if not found or int(found[1]) > 65535:
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 10.0.0.1:6379")
    return text


def parse_processors(text: str) -> float:
    """Parse how many CPUs a replica takes: 4, or 0.5."""
    if not re.fullmatch(r"\d{1,4}(\.\d{1,2})?", text) or not float(text):
        raise ArgumentTypeError(f"{text!r} is not a number of CPUs, such as 4 or 0.5")
    return float(text)


def parse_range(text: str) -> tuple[int, int]:
    """Parse the number of replicas: 2, or a range as 2:8."""
    found = re.fullmatch(r"([1-9]\d{0,4})(?::([1-9]\d{0,4}))?", text)
    if not found or int(found[2] or found[1]) < int(found[1]):
        raise ArgumentTypeError(f"{text!r} is not a number of replicas, such as 2, or 2:8 for 2 to 8")
    return int(found[1]), int(found[2] or found[1])


def check(given: Namespace) -> None:
    """Refuse options that do not go together."""
    if given.only and not given.address:
        raise UsageError(f"{given.only} needs a running cluster; add --address")
    if given.only in ("--gateway-only", "--remove"):
        if given.model or not given.name:
            raise UsageError(f"{given.only} takes --name instead of MODEL")
    elif not given.model:
        raise UsageError("no MODEL given; run: chatapp deploy ray MODEL")


def run(given: Namespace) -> int:
    """Deploy, and serve until told to end."""
    from chatapp.deploy.ray import running
    from chatapp.deploy.ray.plan import Plan
    from chatapp.server.settings import ServerSettings

    check(given)
    workspace = Workspace()
    if given.model:
        workspace.open_store().get(given.model)  # raises for an unknown model before anything is deployed
    if given.only == "--remove":
        return running.remove(workspace, given.name, given.address, given.drain)
    answers = given.only != "--no-gateway"
    fewest, most = given.replicas
    settings = ServerSettings(
        host=given.host,
        port=given.port,
        keys=running.find_keys(workspace, given.keys) if answers and not given.without_keys else (),
        hosts=tuple(given.allow_host),
        certificate=given.tls_cert,
        private_key=given.tls_key,
        places=most * given.parallel * 2,
        queue=given.queue,
        timeout=given.timeout,
        drain=given.drain,
    )
    shared = str(given.shared.absolute()) if given.shared else ""
    scale = (fewest, most, given.parallel, given.cpus, given.drain)
    plan = Plan(given.model, given.name, given.address or "", shared, answers, *scale)
    code = running.deploy(workspace, plan, settings, read_placement(given))
    sys.stderr.flush()
    os._exit(code)  # Ray's threads would keep the process alive
