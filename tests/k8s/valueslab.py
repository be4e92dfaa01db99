"""Values to install the chart with."""

from functools import cache
from typing import Any

from producers.scenarios import SCENARIOS
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from tests.k8s.api import Tree

BOOTSTRAP = "kafka.nowhere:9092"
"""An address that no test of these connects to."""


@cache
def swarms_text() -> str:
    return config_yaml(SCENARIOS["honest"].run(Settings(duration_ms=20_000)).config)


def local(**more: Any) -> Tree:
    """Nothing but what has no default."""
    return merged({"kafka": {"bootstrap": BOOTSTRAP}, "swarms": {"file": swarms_text()}}, more)


def kubernetes(**more: Any) -> Tree:
    """Executors that Spark asks Kubernetes for."""
    spread = {
        "spark": {"mode": "kubernetes"},
        "checkpoint": {"accessMode": "ReadWriteMany"},
        "driver": {"shufflePartitions": 4},
    }
    return merged(merged(local(), spread), more)


MODES = {"local": local, "kubernetes": kubernetes}


def merged(one: Tree, other: Tree) -> Tree:
    """Two trees as Helm merges them: the second one's leaves count."""
    found = dict(one)
    for name, value in other.items():
        inside = found.get(name)
        found[name] = merged(inside, value) if isinstance(inside, dict) and isinstance(value, dict) else value
    return found


SPARKS_VERBS = {"create", "get", "list", "watch", "delete", "deletecollection"}
"""What Spark's scheduler does with pods, as the chart sets it up."""
