"""Everything that uses Ray's API: the cluster, replicas, the shared ledger, and files of other nodes."""

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from chatapp import __version__
from chatapp.deploy.ray.engine import ReplicaLost
from chatapp.deploy.ray.fetching import Find, FolderSource, Source, provide, read_pieces
from chatapp.deploy.ray.ledger import Ledger
from chatapp.deploy.ray.plan import Plan
from chatapp.deploy.ray.replica import Replica
from chatapp.deploy.ray.version import Version
from chatapp.generation.wire import Json
from chatapp.placement.selection import PlacementOptions
from chatapp.text.errors import InputError
from chatapp.workspace import Workspace
from model_store import Store

NAMESPACE = "chatapp"
OBJECTS = 128 << 20
"""Bytes of Ray's object store, which passes text and pieces of files between processes."""
UNUSED = 5
"""Consecutive checks, half a second apart, without users before an old version is ended."""
HEALTH = {"health_check_period_s": 2.0, "health_check_timeout_s": 10.0}


class RayReplicas:
    """The replicas of one version, called through Ray Serve."""

    def __init__(self, version: Version):
        self._handle = serve.get_app_handle(version.application)

    def draw(self, asked: Json) -> Generator[Any, None, None]:
        """What a replica sends in answer to a call; closing it stops the computation."""
        response = self._handle.options(stream=True).draw.remote(asked)
        try:
            yield from response
        except (RayError, RayServeException) as error:
            raise ReplicaLost(type(error).__name__) from error
        finally:
            with suppress(RayError, RayServeException):  # the version may have been removed
                response.cancel()

    def look(self, asked: Json) -> Any:
        """The result of a call that generates nothing."""
        try:
            return self._handle.look.remote(asked).result()
        except (RayError, RayServeException) as error:
            raise ReplicaLost(type(error).__name__) from error


class NodeSource:
    """Another node that has the files of a version."""

    def __init__(self, ledger: Ledger, digest: str, node: str, folder: str):
        self._ledger, self._digest, self._node, self._folder = ledger, digest, node, folder
        self.name = f"node {node[:8]}"

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """A file of the other node, in pieces."""
        there = NodeAffinitySchedulingStrategy(self._node, soft=False)
        reading = ray.remote(read_pieces).options(
            num_cpus=0,
            max_retries=0,
            num_returns="streaming",
            scheduling_strategy=there,
            _generator_backpressure_num_objects=4,
        )
        for piece in reading.remote(Path(self._folder), path, start):
            yield ray.get(piece)

    def close(self, good: bool) -> None:
        """Release the other node in the ledger."""
        with suppress(RayError):  # the ledger may be unreachable
            self._ledger.release(self._digest, self._node, here(), good)


def here() -> str:
    """The id of this process's node."""
    return str(ray.get_runtime_context().get_node_id())


class SharedLedger:
    """The ledger as a remote object: its methods run in the ledger's process, and their results are awaited."""

    def __init__(self, actor: Any):  # Any: of Ray's
        self._actor = actor

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return lambda *given: ray.get(getattr(self._actor, method).remote(*given))


def open_ledger() -> Ledger:
    """The cluster's ledger, kept on its head node."""
    head = {"node:__internal_head__": 0.001}
    kept = ray.remote(Ledger).options(
        name="ledger",
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        resources=head,
    )
    return cast(Ledger, SharedLedger(kept.remote()))  # it forwards all methods of Ledger


def find_sources(ledger: Ledger, version: Version, shared: str) -> Find:
    """A function that finds a source of a version's files: the shared folder, or another node."""

    def find() -> Source | None:
        if shared:
            return FolderSource(Path(shared) / version.stored)
        found = ledger.claim(version.digest, here())
        return NodeSource(ledger, version.digest, *found) if found else None

    return find


class RayReplica(Replica):
    """A replica on a node: it downloads the files if its node has none, and opens the model."""

    def __init__(self, version: Version, shared: str):
        if version.made_by != __version__:
            raise InputError(
                f"this node has chatapp {__version__}, and {version.name} was deployed by {version.made_by}"
            )
        workspace, ledger = Workspace(), open_ledger()
        model = provide(workspace.open_store(), version, find_sources(ledger, version, shared))
        place = version.placement
        options = PlacementOptions(place.backend, place.device, place.precision)
        engine: Any = workspace.open_model(model.name, options).engine  # Any: a local one, as this workspace opens it
        super().__init__(engine)
        ledger.have(version.digest, here(), str(model.folder))


class Cluster:
    """A Ray cluster that this process has joined or started."""

    def __init__(self, address: str):
        """Join the cluster at an address, or start one that ends with this process."""
        self.own = not address
        common: dict[str, Any] = {"namespace": NAMESPACE, "logging_level": "ERROR", "log_to_driver": False}
        given = {"include_dashboard": False, "object_store_memory": OBJECTS} if self.own else {"address": address}
        try:
            ray.init(**given, **common)
        except Exception as error:  # Ray raises many types
            said = (str(error).splitlines() or [type(error).__name__])[0]
            where = "cannot start Ray on this machine" if self.own else f"cannot join the cluster at {address}"
            raise InputError(f"{where}: {said}") from error
        self.address = str(ray.get_runtime_context().gcs_address)
        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # it logs every change of replicas
        serve.start(proxy_location="Disabled")
        self.ledger = open_ledger()

    def close(self) -> None:
        """Leave the cluster; one that this process started ends."""
        if self.own:
            serve.shutdown()
        ray.shutdown()

    def offer(self, version: Version, folder: Path) -> None:
        """Register that this node has the files of a version."""
        self.ledger.have(version.digest, here(), str(folder))

    def provide(self, store: Store, version: Version, shared: str = "") -> Any:
        """The model of a version in this node's store, as `fetching.provide`."""
        return provide(store, version, find_sources(self.ledger, version, shared))

    def deploy(self, version: Version, plan: Plan) -> None:
        """Start the replicas of a version, and return when they are ready; InputError if they fail."""
        runs = version.application in serve.status().applications
        free = (ray.cluster_resources() if runs else ray.available_resources()).get("CPU", 0.0)
        if (needed := plan.fewest * plan.cpus) > free:
            raise InputError(
                f"{plan.fewest} replicas of {plan.cpus:g} CPUs need {needed:g}; {free:g} are free "
                "in the cluster; add nodes, or lower --replicas or --cpus"
            )
        scaling = {
            "min_replicas": plan.fewest,
            "max_replicas": plan.most,
            "target_ongoing_requests": max(1.0, plan.parallel / 2),
            "upscale_delay_s": 3.0,
            "downscale_delay_s": 120.0,
            "metrics_interval_s": 1.0,
            "look_back_period_s": 3.0,
        }
        deployment = serve.deployment(RayReplica).options(
            name="engine",
            autoscaling_config=scaling,
            max_ongoing_requests=plan.parallel,
            graceful_shutdown_timeout_s=plan.drain,
            graceful_shutdown_wait_loop_s=0.5,
            ray_actor_options={"num_cpus": plan.cpus},
            **HEALTH,
        )
        name = version.application
        try:
            serve.run(deployment.bind(version, plan.shared), name=name, route_prefix=None)
        except RuntimeError as error:
            why = serve.status().applications.get(name)
            with suppress(RayError, RayServeException):
                serve.delete(name)
            raise InputError(f"cannot start the replicas of {version.name}: {explain(why, error)}") from error

    def open_replicas(self, version: Version) -> RayReplicas:
        """The replicas of a version."""
        return RayReplicas(version)

    def retire(self, version: Version, patience: float) -> None:
        """End the replicas of a version once no gateway uses them, or after `patience` seconds."""
        end, unused = time.monotonic() + patience, 0
        while time.monotonic() < end and unused < UNUSED:
            used = self.ledger.count_streams(version.name, version.digest)
            unused = 0 if used else unused + 1
            time.sleep(0.5)
        with suppress(RayError, RayServeException):
            serve.delete(version.application)

    def count_replicas(self, version: Version) -> dict[str, int]:
        """The number of replicas of a version by state."""
        app = serve.status().applications.get(version.application)
        states: Mapping[Any, int] = app.deployments["engine"].replica_states if app and app.deployments else {}
        return {str(getattr(state, "value", state)).lower(): count for state, count in states.items()}


def explain(app: Any, error: Exception) -> str:  # Any: as Serve's status has it
    """Why an application does not start: the last line of its replicas' messages."""
    said = next((one.message for one in app.deployments.values() if one.message), "") if app else ""
    lines = [line.strip() for line in (said or str(error)).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
