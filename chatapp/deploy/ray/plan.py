"""What is to be deployed, where, and by how many replicas."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """What is to be deployed, where, and what each replica takes; times in seconds."""

    model: str
    """In the store of this machine; nothing, where only a gateway is wanted."""
    name: str
    """What clients call it; nothing: as the model is called."""
    address: str
    """Of a cluster; nothing: one of this machine alone, which ends with this process."""
    shared: str
    """A folder that all nodes reach, for the files; nothing: nodes fetch them from each other."""
    answers: bool
    """Whether requests are answered here, until this process is told to end."""
    fewest: int
    most: int
    """Replicas."""
    parallel: int
    """Answers that one of them writes at once."""
    cpus: float
    """Of a node, for each of them."""
    drain: float
    """How long one that is to end may take to end its answers."""
