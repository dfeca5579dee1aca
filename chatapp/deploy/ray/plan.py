"""The plan of a deployment."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """What to deploy, where, and the resources of each replica; times in seconds."""

    model: str
    """In this machine's store; empty if only a gateway is wanted."""
    name: str
    """The name for clients; empty: the model's."""
    address: str
    """The cluster's address; empty: a cluster of this machine alone, which ends with this process."""
    shared: str
    """A folder all nodes can read, for the files; empty: nodes download them from each other."""
    answers: bool
    """Whether to run a gateway here until told to end."""
    fewest: int
    most: int
    """Minimum and maximum replicas."""
    parallel: int
    """Answers that a replica generates at the same time."""
    cpus: float
    """CPUs per replica."""
    drain: float
    """How long a replica may take to finish its answers."""
