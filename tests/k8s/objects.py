"""What the cluster of the tests holds before a test begins: nodes, volumes, namespaces."""

from tests.k8s.api import Tree

PLAYED, REAL = "played", "real"
"""Nodes by their label `lab`: those that kwok plays, and the one whose pods a test runs."""

NODE_SIZE = {"cpu": "32", "memory": "64Gi", "pods": "110", "ephemeral-storage": "1Ti"}

STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "lab", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "kubernetes.io/no-provisioner",
}

AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}
"""Who asked for what: service accounts alone."""


def node(name: str, kind: str) -> Tree:
    labels = {"lab": kind, "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": NODE_SIZE, "allocatable": NODE_SIZE},
    }


def volume(name: str) -> Tree:
    """A volume that many may write to, for any claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "storageClassName": "lab",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/nowhere"},
        },
    }


def namespace(name: str, nodes: str) -> Tree:
    """It refuses pods that are not `restricted`, and its pods go to one kind of nodes."""
    levels = {f"pod-security.kubernetes.io/{what}": "restricted" for what in ("enforce", "warn")}
    places = {"scheduler.alpha.kubernetes.io/node-selector": f"lab={nodes}"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": levels, "annotations": places},
    }
